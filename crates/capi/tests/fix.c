/* A client of the FIX engine: logs on, sends three orders, sees them acknowledged and filled, logs out. */
#include <sidestep/fix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                            \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, sidestep_last_error());       \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

static sidestep_fix_engine *engine;

/* Polls until an event of this kind comes, for some seconds. */
static sidestep_fix_event wait_for(uint32_t kind)
{
    sidestep_fix_event event;
    size_t work;
    for (int turn = 0; turn < 100000; turn++) {
        EXPECT(sidestep_fix_poll(engine, &work) == 0);
        int code = sidestep_fix_next(engine, &event, sizeof event);
        if (code == 0 && event.kind == kind) {
            return event;
        }
        EXPECT(code == 0 || code == SIDESTEP_EEMPTY);
        if (work == 0) {
            EXPECT(sidestep_fix_sleep(engine, 1000000) == 0);
        }
    }
    fprintf(stderr, "no event %u\n", kind);
    exit(1);
}

int main(int count, char **arguments)
{
    static const char body[] = "11=c1\00138=100\00140=2\00144=10\00154=1\00155=TEST\00160=20261121-10:00:00\001";
    uint32_t session = 0;
    uint64_t sequence = 0;
    sidestep_fix_state state;
    EXPECT(count == 2);
    EXPECT(sidestep_fix_open("/no/such/file", 0, &engine) == SIDESTEP_EFAILED);
    EXPECT(sidestep_fix_open(arguments[1], 0, &engine) == 0);
    EXPECT(sidestep_fix_find(engine, "FIX.4.4:C->NOBODY", &session) == SIDESTEP_EUSAGE);
    EXPECT(sidestep_fix_find(engine, "FIX.4.4:C->EXCHANGE", &session) == 0 && session == 1);
    EXPECT(sidestep_fix_send(engine, session, "D", body, sizeof body - 1, &sequence) == SIDESTEP_EFAILED);
    EXPECT(wait_for(SIDESTEP_FIX_LOGON).session == session);
    EXPECT(sidestep_fix_send(engine, session, "D", "34=1\001", 5, &sequence) == SIDESTEP_EUSAGE);
    EXPECT(sidestep_fix_send(engine, session, "D", "11=1\0014x=10\001", 11, &sequence) == SIDESTEP_EUSAGE);
    EXPECT(sidestep_fix_send(engine, session, "D", "11=1\001note\001", 10, &sequence) == SIDESTEP_EUSAGE);
    EXPECT(sidestep_fix_send(engine, session, "D", "11=1\00155=TEST", 12, &sequence) == SIDESTEP_EUSAGE);
    EXPECT(sidestep_fix_send(engine, 7, "D", body, sizeof body - 1, &sequence) == SIDESTEP_EUSAGE);
    for (uint64_t order = 1; order <= 3; order++) {
        EXPECT(sidestep_fix_send(engine, session, "D", body, sizeof body - 1, &sequence) == 0);
        EXPECT(sequence == order + 1);
        sidestep_fix_event new = wait_for(SIDESTEP_FIX_MESSAGE);
        EXPECT(new.sequence == 2 * order && memcmp(new.bytes, "8=FIX.4.4\001", 10) == 0);
        EXPECT(wait_for(SIDESTEP_FIX_MESSAGE).sequence == 2 * order + 1);
    }
    EXPECT(sidestep_fix_look(engine, session, &state, sizeof state) == 0);
    EXPECT(state.logged_on == 1 && state.connected == 1 && state.next_outbound == 5 && state.next_inbound == 8);
    EXPECT(sidestep_fix_reset(engine, session) == 0);
    (void)wait_for(SIDESTEP_FIX_RESET);
    EXPECT(sidestep_fix_logout(engine, session, "done") == 0);
    EXPECT(wait_for(SIDESTEP_FIX_LOGOUT).length > 0);
    EXPECT(sidestep_fix_shut_down(engine, 1000000000) == 0);
    sidestep_fix_free(engine);
    sidestep_fix_free(NULL);
    puts("good");
    return 0;
}
