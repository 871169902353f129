/* EPOLLET: which changes are edges, and which are not; shares of members of both kinds. */
#include "fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

static int new_set(int member, uint32_t events)
{
    int set = (int)MUST(epoll_create1(0));
    struct epoll_event event = {.events = events, .data.fd = member};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, member, &event));
    return set;
}

static int event_of(int set, int timeout_ms)
{
    struct epoll_event event;
    int count = epoll_wait(set, &event, 1, timeout_ms);
    return count == 1 ? (int)event.events : count;
}

static void reading(void)
{
    struct pair pair = connected();
    char data[16];
    int set = new_set(pair.ours, EPOLLIN | EPOLLET);
    MUST(peer_send(pair.theirs, "ab", 2, 0));
    check_int("first", event_of(set, PATIENCE_MS), EPOLLIN);
    /* What is sent and acknowledged is no edge of reading. */
    for (int index = 0; index < 8; index++)
        MUST(send(pair.ours, "0123456789", 10, 0));
    MUST(peer_recv(pair.theirs, NULL, 80, MSG_WAITALL));
    check_int("acknowledgements", event_of(set, PAUSE_MS), 0);
    MUST(peer_send(pair.theirs, "c", 1, 0));
    check_int("more_while_unread", event_of(set, PATIENCE_MS), EPOLLIN);
    check_int("told_once", event_of(set, PAUSE_MS), 0);
    MUST(recv(pair.ours, data, 1, MSG_PEEK));
    check_int("peeking", event_of(set, PAUSE_MS), 0);
    MUST(recv(pair.ours, data, sizeof data, 0));
    check_fails("drained", recv(pair.ours, data, 1, MSG_DONTWAIT), EAGAIN);
    check_int("nothing", event_of(set, 0), 0);
    MUST(peer_send(pair.theirs, "d", 1, 0));
    check_int("after_draining", event_of(set, PATIENCE_MS), EPOLLIN);
}

static void reading_and_writing(void)
{
    struct pair pair = connected();
    char data[16];
    int set = new_set(pair.ours, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    check_int("at_first", event_of(set, 0), EPOLLOUT);
    MUST(send(pair.ours, "0123456789", 10, 0));
    MUST(peer_recv(pair.theirs, NULL, 10, MSG_WAITALL));
    check_int("room_that_was_there", event_of(set, PAUSE_MS), 0);
    MUST(peer_send(pair.theirs, "a", 1, 0));
    check_int("data", event_of(set, PATIENCE_MS), EPOLLIN | EPOLLOUT);
    MUST(recv(pair.ours, data, 1, 0));
    check_int("after_reading", event_of(set, PAUSE_MS), 0);
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    check_int("end", event_of(set, PATIENCE_MS), EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    check_int("end_once", event_of(set, PAUSE_MS), 0);
    check_int("read_of_the_end", recv(pair.ours, data, 1, 0), 0);
    check_int("no_edge_by_reading", event_of(set, PAUSE_MS), 0);
}

static void reset(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN | EPOLLET);
    MUST(peer_abort(pair.theirs));
    check_true("told", (event_of(set, PATIENCE_MS) & (EPOLLIN | EPOLLERR | EPOLLHUP)) == (EPOLLIN | EPOLLERR | EPOLLHUP));
    int again = event_of(set, PAUSE_MS);
    check_true("at_most_once_more", again == 0 || event_of(set, PAUSE_MS) == 0);
}

static void two_sets(void)
{
    struct pair pair = connected();
    int edge = new_set(pair.ours, EPOLLIN | EPOLLET), level = new_set(pair.ours, EPOLLIN);
    MUST(peer_send(pair.theirs, "a", 1, 0));
    check_int("level", event_of(level, PATIENCE_MS), EPOLLIN);
    check_int("edge", event_of(edge, PATIENCE_MS), EPOLLIN);
    check_int("level_again", event_of(level, 0), EPOLLIN);
    check_int("edge_once", event_of(edge, PAUSE_MS), 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLONESHOT, .data.fd = pair.ours};
    MUST(epoll_ctl(edge, EPOLL_CTL_MOD, pair.ours, &event));
    check_int("armed", event_of(edge, 0), EPOLLIN);
    MUST(peer_send(pair.theirs, "b", 1, 0));
    check_int("disarmed", event_of(edge, PAUSE_MS), 0);
    MUST(epoll_ctl(edge, EPOLL_CTL_MOD, pair.ours, &event));
    check_int("armed_again", event_of(edge, 0), EPOLLIN);
}

static void of_many_members(void)
{
    enum { MEMBERS = 12 };
    int set = (int)MUST(epoll_create1(0)), times[MEMBERS] = {0};
    struct pair pairs[MEMBERS];
    for (int index = 0; index < MEMBERS; index++) {
        pairs[index] = connected();
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, pairs[index].ours, &event));
        MUST(peer_send(pairs[index].theirs, "m", 1, 0));
        MUST(wait_for(pairs[index].ours, POLLIN, PATIENCE_MS));
    }
    struct epoll_event events[5];
    for (int round = 0; round < MEMBERS; round++) {
        int count = epoll_wait(set, events, 5, PATIENCE_MS);
        for (int index = 0; index < count; index++)
            times[events[index].data.u32]++;
    }
    int least = times[0], most = times[0];
    for (int index = 1; index < MEMBERS; index++) {
        least = times[index] < least ? times[index] : least;
        most = times[index] > most ? times[index] : most;
    }
    check_int("least", least, 5);
    check_int("most", most, 5);
}

/* One place per call, a connection that is always ready: whatever the kernel has is told, and the connection goes on. */
static void neither_starves(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN), bell = (int)MUST(eventfd(0, EFD_NONBLOCK)), pipes[2], told[3] = {0};
    int timer = (int)MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    MUST(pipe(pipes));
    MUST(peer_send(pair.theirs, "n", 1, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    for (int index = 0; index < 3; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(1000 + index)};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, (int[]){bell, pipes[0], timer}[index], &event));
    }
    struct itimerspec every = {.it_value = {.tv_nsec = 1000000}, .it_interval = {.tv_nsec = 1000000}};
    MUST(timerfd_settime(timer, 0, &every, NULL));
    MUST(write(pipes[1], "p", 1));
    MUST(eventfd_write(bell, 1));
    int ours = 0;
    for (int round = 0; round < 1000000; round++) {
        struct epoll_event event;
        MUST(epoll_wait(set, &event, 1, 0));
        if (event.data.u32 >= 1000 && event.data.u32 < 1003)
            told[event.data.u32 - 1000]++;
        else
            ours++;
        if (told[0] >= 3 && told[1] >= 3 && told[2] >= 3 && ours >= 9)
            break;
    }
    check_true("eventfd", told[0] >= 3);
    check_true("pipe", told[1] >= 3);
    check_true("timerfd", told[2] >= 3);
    check_true("connection", ours >= 9);
}

static const struct test tests[] = {
    {"reading", reading, FAMILIES_AND_ENDS},
    {"reading_and_writing", reading_and_writing, FAMILIES_AND_ENDS},
    {"reset", reset, FAMILIES_AND_ENDS},
    {"two_sets", two_sets, FAMILIES_AND_ENDS},
    {"of_many_members", of_many_members, FAMILIES_AND_ENDS},
    {"neither_starves", neither_starves, FAMILIES_AND_ENDS},
};

SUBJECT(epoll_edges, tests);
