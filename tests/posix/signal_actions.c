/* Actions of signals, their order and their masks, in threads that use sockets (sigaction(2), signal(7)). */
#include "fixture.h"

#include <setjmp.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt: programs have it. */

static struct pair pair;
static volatile sig_atomic_t handled, depth, deepest;
static char byte;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

static void handle_with_details(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    handled++;
}

/* Makes the engine of a library that has one open, so that what follows goes through it. */
static void open_engine(void)
{
    pair = connected();
    handled = depth = deepest = 0;
}

static void read_back(void)
{
    open_engine();
    struct sigaction set = {.sa_sigaction = handle_with_details, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK}, got;
    sigaddset(&set.sa_mask, SIGUSR2);
    MUST(sigaction(SIGUSR1, &set, NULL));
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_true("handler", got.sa_sigaction == handle_with_details);
    check_int("flags", got.sa_flags & ~0x04000000, SA_SIGINFO | SA_NODEFER | SA_ONSTACK);
    check_true("mask", sigismember(&got.sa_mask, SIGUSR2) == 1 && sigismember(&got.sa_mask, SIGUSR1) == 0);
    struct sigaction plain = {.sa_handler = handle, .sa_flags = SA_RESETHAND}, before;
    MUST(sigaction(SIGUSR1, &plain, &before));
    check_true("handler_before", before.sa_sigaction == handle_with_details);
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_true("plain_handler", got.sa_handler == handle);
    check_int("plain_flags", got.sa_flags & ~0x04000000, (int)SA_RESETHAND);
    MUST(raise(SIGUSR1));
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_true("reset", got.sa_handler == SIG_DFL);
    check_int("handled", handled, 1);
    check_true("signal_tells_default", signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    check_true("signal_tells_ignored", signal(SIGUSR1, handle) == SIG_IGN);
    check_true("signal_tells_handler", signal(SIGUSR1, SIG_DFL) == handle);
    check_fails("kill_has_no_handler", sigaction(SIGKILL, &plain, NULL), EINVAL);
    check_fails("no_such_signal", sigaction(65, &plain, NULL), EINVAL);
    check_true("signal_of_none", signal(65, handle) == SIG_ERR);
}

/* The flags that the elder functions stand for. */
static void elder_functions(void)
{
    struct sigaction got;
    open_engine();
    signal(SIGUSR1, handle);
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_int("signal_restarts", got.sa_flags & SA_RESTART, SA_RESTART);
    MUST(siginterrupt(SIGUSR1, 1));
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_int("siginterrupt", got.sa_flags & SA_RESTART, 0);
    interrupt_often(100);
    long long result = recv(pair.ours, &byte, 1, 0);
    interrupt_no_more();
    check_fails("recv_after_siginterrupt", result, EINTR);
    signal(SIGUSR1, handle);
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_int("signal_remembers", got.sa_flags & SA_RESTART, 0);
    MUST(siginterrupt(SIGUSR1, 0));
    __sysv_signal(SIGUSR1, handle);
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_int("sysv_signal", (got.sa_flags & ~0x04000000) == (int)(SA_RESETHAND | SA_NODEFER) ? 0 : got.sa_flags, 0);
    handled = 0;
    MUST(raise(SIGUSR1));
    MUST(sigaction(SIGUSR1, NULL, &got));
    check_true("sysv_handled_once", handled == 1 && got.sa_handler == SIG_DFL);
}

/* Raises its own signal once. */
static void handle_deep(int signal)
{
    depth++;
    if (depth > deepest)
        deepest = depth;
    if (handled++ == 0) {
        send(pair.ours, "d", 1, MSG_DONTWAIT);
        raise(signal);
    }
    depth--;
}

static void nested(void)
{
    open_engine();
    struct sigaction once = {.sa_handler = handle_deep}, again = {.sa_handler = handle_deep, .sa_flags = SA_NODEFER};
    MUST(sigaction(SIGUSR1, &again, NULL));
    MUST(raise(SIGUSR1));
    check_int("nodefer", deepest, 2);
    check_int("nodefer_handled", handled, 2);
    handled = deepest = 0;
    MUST(sigaction(SIGUSR1, &once, NULL));
    MUST(raise(SIGUSR1));
    check_int("blocked_in_itself", deepest, 1);
    check_int("handled_afterwards", handled, 2);
}

#define QUEUED 300
static volatile int values[QUEUED];
static volatile int value_count;
static pthread_t receiver;

static void note_value(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (value_count < QUEUED)
        values[value_count] = info->si_value.sival_int;
    value_count++;
    send(pair.ours, "v", 1, MSG_DONTWAIT);
}

static void *queue_values(void *unused)
{
    (void)unused;
    for (int value = 0; value < QUEUED; value++) {
        while (pthread_sigqueue(receiver, SIGRTMIN + 2, (union sigval){.sival_int = value}) != 0)
            pause_ms(1);
        if (value % 16 == 15)
            pause_ms(1);
    }
    return NULL;
}

static void queued_in_order(void)
{
    open_engine();
    struct sigaction action = {.sa_sigaction = note_value, .sa_flags = SA_SIGINFO | SA_RESTART};
    MUST(sigaction(SIGRTMIN + 2, &action, NULL));
    value_count = 0;
    receiver = pthread_self();
    pthread_t thread = start_thread(queue_values, NULL);
    struct pollfd one = {.fd = pair.ours, .events = POLLIN};
    for (int turn = 0; turn < 5000 && value_count < QUEUED; turn++) {
        poll(&one, 1, turn % 2);
        recv(pair.ours, &byte, 1, MSG_DONTWAIT);
    }
    join_thread(thread, NULL);
    int in_order = 0;
    while (in_order < QUEUED && values[in_order] == in_order)
        in_order++;
    check_int("all_came", value_count, QUEUED);
    check_int("in_order", in_order, QUEUED);
    long long got = 0;
    char data[64];
    while (got < QUEUED)
        got += MUST(peer_recv(pair.theirs, data, sizeof data, 0));
    check_int("each_has_sent", got, QUEUED);
}

static sigjmp_buf place;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(place, 1);
}

static void jumps_out(void)
{
    open_engine();
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    volatile int jumped = 0;
    for (volatile int round = 0; round < 4; round++) {
        if (sigsetjmp(place, 1) == 0) {
            interrupt_often(1);
            struct pollfd one = {.fd = pair.ours, .events = POLLIN};
            if (round % 2)
                poll(&one, 1, PATIENCE_MS);
            else
                recv(pair.ours, &byte, 1, 0);
        } else {
            jumped++;
        }
        interrupt_no_more();
    }
    check_int("jumped", jumped, 4);
    MUST(peer_send(pair.theirs, "j", 1, 0));
    check_int("usable", recv(pair.ours, &byte, 1, 0), 1);
    check_int("sends", send(pair.ours, "k", 1, 0), 1);
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    check_int("mask_is_restored", sigismember(&now, SIGUSR1), 0);
}

static char alternate[65536];
static volatile sig_atomic_t on_alternate;

static void note_stack(int signal)
{
    (void)signal;
    char here;
    on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
}

static void on_a_stack_of_its_own(void)
{
    open_engine();
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    MUST(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = note_stack, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, NULL));
    interrupt_often(100);
    long long result = recv(pair.ours, &byte, 1, 0);
    interrupt_no_more();
    check_fails("recv", result, EINTR);
    check_true("handler_is_there", on_alternate);
}

static void waited_for(void)
{
    open_engine();
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct sigaction action = {.sa_handler = handle};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGRTMIN + 3, &action, NULL));
    for (int value = 1; value <= 3; value++)
        MUST(-pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = value}));
    MUST(raise(SIGUSR1));
    send(pair.ours, "w", 1, 0);
    wait_for(pair.ours, POLLIN, 20);
    recv(pair.ours, &byte, 1, MSG_DONTWAIT);
    check_int("not_handled", handled, 0);
    check_int("sigwaitinfo", sigwaitinfo(&set, &info), SIGUSR1);
    check_int("first_of_queue", sigwaitinfo(&set, &info), SIGRTMIN + 3);
    check_int("first_value", info.si_value.sival_int, 1);
    int descriptor = (int)MUST(signalfd(-1, &set, SFD_NONBLOCK));
    struct signalfd_siginfo got;
    check_int("signalfd", read(descriptor, &got, sizeof got), sizeof got);
    check_int("second_value", got.ssi_int, 2);
    check_int("third", read(descriptor, &got, sizeof got), sizeof got);
    check_int("third_value", got.ssi_int, 3);
    check_fails("no_more", read(descriptor, &got, sizeof got), EAGAIN);
    check_int("never_handled", handled, 0);
}

static volatile pid_t forked;

static void fork_here(int signal)
{
    (void)signal;
    if (handled++)
        return;
    forked = fork();
    if (forked == 0) {
        ssize_t sent = send(pair.ours, "child", 5, 0);
        _exit(sent == 5 ? 7 : 8);
    }
}

static void forks_in_a_handler(void)
{
    open_engine();
    struct sigaction action = {.sa_handler = fork_here};
    MUST(sigaction(SIGUSR1, &action, NULL));
    interrupt_often(1);
    long long result = recv(pair.ours, &byte, 1, 0);
    interrupt_no_more();
    check_fails("recv", result, EINTR);
    check_int("child_ends", join_process(forked), 7);
    char data[8] = "";
    check_int("peer_has_it", peer_recv(pair.theirs, data, 5, MSG_WAITALL), 5);
    check_true("data", memcmp(data, "child", 5) == 0);
    check_int("parent_sends", send(pair.ours, "p", 1, 0), 1);
    check_int("peer_has_that", peer_recv(pair.theirs, data, 1, 0), 1);
}

static void leave(int signal)
{
    (void)signal;
    send(pair.ours, "last", 4, MSG_DONTWAIT);
    _exit(9);
}

static void exits_in_a_handler(void)
{
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        open_engine();
        struct sigaction action = {.sa_handler = leave};
        sigaction(SIGUSR1, &action, NULL);
        interrupt_often(1);
        recv(pair.ours, &byte, 1, 0);
        _exit(1);
    }
    check_int("status", join_process(child), 9);
}

static const struct test tests[] = {
    {"read_back", read_back, ENDS},
    {"elder_functions", elder_functions, ENDS},
    {"nested", nested, ENDS},
    {"queued_in_order", queued_in_order, FAMILIES_AND_ENDS},
    {"jumps_out", jumps_out, FAMILIES_AND_ENDS},
    {"on_a_stack_of_its_own", on_a_stack_of_its_own, ENDS},
    {"waited_for", waited_for, ENDS},
    {"forks_in_a_handler", forks_in_a_handler, FAMILIES_AND_ENDS},
    {"exits_in_a_handler", exits_in_a_handler, ENDS},
};

SUBJECT(signal_actions, tests);
