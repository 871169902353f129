/* pthread_cancel(3) in calls that wait (pthreads(7)): the thread's clean-up handlers run, and the socket stays usable. */
#include "fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static struct pair pair;
static int listener, spare;
static char byte;
static volatile sig_atomic_t cleaned, passed;
/* The results of calls that are not to be ignored (-D_FORTIFY_SOURCE). */
static volatile ssize_t ignored;

static void by_read(void) { ignored = read(pair.ours, &byte, 1); }
static void by_recv(void) { recv(pair.ours, &byte, 1, 0); }
static void by_recvmsg(void)
{
    struct iovec room = {&byte, 1};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
    recvmsg(pair.ours, &message, 0);
}
static void by_accept(void) { accept(listener, NULL, NULL); }
static void by_poll(void) { wait_for(pair.ours, POLLIN, -1); }
static void by_ppoll(void)
{
    sigset_t none;
    sigemptyset(&none);
    struct pollfd one = {.fd = pair.ours, .events = POLLIN};
    ppoll(&one, 1, NULL, &none);
}
static void by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ours, &set);
    select(pair.ours + 1, &set, NULL, NULL, NULL);
}
static void by_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(spare, EPOLL_CTL_ADD, pair.ours, &event);
    epoll_wait(spare, &event, 1, -1);
}
static void by_epoll_pwait(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t none;
    sigemptyset(&none);
    epoll_ctl(spare, EPOLL_CTL_ADD, pair.ours, &event);
    epoll_pwait(spare, &event, 1, -1, &none);
}
static void by_epoll_without_sockets(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(spare, EPOLL_CTL_ADD, eventfd(0, EFD_CLOEXEC), &event);
    epoll_wait(spare, &event, 1, -1);
}
static void by_send(void)
{
    static char block[65536];
    for (;;)
        send(pair.ours, block, sizeof block, 0);
}
static void by_writev(void)
{
    static char block[65536];
    struct iovec part = {block, sizeof block};
    for (;;)
        ignored = writev(pair.ours, &part, 1);
}

static void clean(void *unused)
{
    (void)unused;
    cleaned = 1;
}

static void *run(void *call)
{
    pthread_cleanup_push(clean, NULL);
    ((void (*)(void))call)();
    pthread_cleanup_pop(0);
    return NULL;
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"read", by_read},         {"recv", by_recv},             {"recvmsg", by_recvmsg},       {"accept", by_accept},
    {"poll", by_poll},         {"ppoll", by_ppoll},           {"select", by_select},         {"epoll_wait", by_epoll},
    {"epoll_pwait", by_epoll_pwait}, {"epoll_without_sockets", by_epoll_without_sockets},
    {"send", by_send},         {"writev", by_writev},
};

#define CALLS (sizeof calls / sizeof *calls)

static bool is_cancelled(void *(*work)(void *), void *argument)
{
    void *result = NULL;
    cleaned = 0;
    pthread_t thread = start_thread(work, argument);
    pause_ms(PAUSE_MS);
    MUST(-pthread_cancel(thread));
    return join_thread(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned;
}

static void in_each_call(void)
{
    listener = our_listener(1);
    for (size_t index = 0; index < CALLS; index++) {
        pair = connected();
        spare = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
        check_true(calls[index].name, is_cancelled(run, (void *)calls[index].call));
        close(spare);
    }
    pair = connected();
    MUST(peer_send(pair.theirs, "u", 1, 0));
    check_int("usable_afterwards", recv(pair.ours, &byte, 1, 0), 1);
}

static void *cancelled_before(void *call)
{
    int state;
    pthread_cleanup_push(clean, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    ((void (*)(void))call)();
    pthread_cleanup_pop(0);
    return NULL;
}

/* A cancellation that waits is acted upon by the next call, though it would not wait. */
static void before_the_call(void)
{
    pair = connected();
    MUST(peer_send(pair.theirs, "abc", 3, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_true("recv", is_cancelled(cancelled_before, (void *)by_recv));
    check_true("poll", is_cancelled(cancelled_before, (void *)by_poll));
    spare = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
    check_true("epoll_wait", is_cancelled(cancelled_before, (void *)by_epoll));
    char data[4];
    check_int("nothing_was_read", recv(pair.ours, data, sizeof data, 0), 3);
}

/* Calls that are no cancellation points, of a thread that is to be cancelled. */
static void by_whole_calls(void)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    int fresh = socket(family, SOCK_STREAM, 0);
    passed += fresh != -1;
    passed += set_int(pair.ours, IPPROTO_TCP, TCP_NODELAY, 1) == 0;
    passed += int_option(pair.ours, IPPROTO_TCP, TCP_NODELAY) == 1;
    passed += getsockname(pair.ours, (struct sockaddr *)&name, &length) == 0;
    length = sizeof name;
    passed += getpeername(pair.ours, (struct sockaddr *)&name, &length) == 0;
    passed += listen(listener, 2) == 0;
    passed += bind(listener, (struct sockaddr *)&name, length) == -1;
    passed += sendfile(pair.ours, spare, NULL, 2) == 2;
    passed += shutdown(pair.ours, SHUT_WR) == 0;
    pthread_testcancel();
}

static void between_points(void)
{
    pair = connected();
    listener = our_listener(1);
    spare = (int)MUST(open("/proc/self/exe", O_RDONLY));
    passed = 0;
    check_true("is_cancelled_in_the_end", is_cancelled(cancelled_before, (void *)by_whole_calls));
    check_int("all_are_made", passed, 9);
    close(spare);
}

static void *disabled(void *call)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    ((void (*)(void))call)();
    passed = 1;
    pthread_setcancelstate(state, NULL);
    pthread_testcancel();
    return NULL;
}

static void while_disabled(void)
{
    static const char *const names[] = {"recv", "poll", "epoll_wait"};
    void (*const works[])(void) = {by_recv, by_poll, by_epoll};
    for (int index = 0; index < 3; index++) {
        pair = connected();
        spare = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
        passed = 0;
        void *result = NULL;
        pthread_t thread = start_thread(disabled, (void *)works[index]);
        pause_ms(PAUSE_MS);
        MUST(-pthread_cancel(thread));
        pause_ms(PAUSE_MS);
        int before = passed;
        MUST(peer_send(pair.theirs, "d", 1, 0));
        int joined = join_thread(thread, &result);
        check_true(names[index], before == 0 && passed == 1 && joined == 0 && result == PTHREAD_CANCELED);
    }
}

static void *at_any_instruction(void *unused)
{
    (void)unused;
    int kind;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &kind);
    passed = kind == PTHREAD_CANCEL_DEFERRED;
    for (;;) {
        send(pair.ours, "a", 1, MSG_DONTWAIT);
        wait_for(pair.ours, POLLIN, 0);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void asynchronous(void)
{
    int cancelled = 0;
    for (int round = 0; round < 20; round++) {
        pair = connected();
        cancelled += is_cancelled(at_any_instruction, NULL) && passed;
    }
    check_int("cancelled", cancelled, 20);
    pair = connected();
    check_int("others_go_on", send(pair.ours, "o", 1, 0), 1);
    check_int("peer_has_it", peer_recv(pair.theirs, &byte, 1, 0), 1);
}

static const struct test tests[] = {
    {"in_each_call", in_each_call, FAMILIES_AND_ENDS},
    {"between_points", between_points, FAMILIES_AND_ENDS},
    {"before_the_call", before_the_call, FAMILIES_AND_ENDS},
    {"while_disabled", while_disabled, FAMILIES_AND_ENDS},
    {"asynchronous", asynchronous, FAMILIES_AND_ENDS},
};

SUBJECT(cancelled_calls, tests);
