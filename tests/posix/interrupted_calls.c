/* EINTR, SA_RESTART, signal masks and cancellation in every call that waits (signal(7)). */
#include "fixture.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

static struct pair pair;
static char byte;
static struct iovec room = {&byte, 1};

static long long by_read(void) { return read(pair.ours, &byte, 1); }
static long long by_readv(void) { return readv(pair.ours, &room, 1); }
static long long by_recv(void) { return recv(pair.ours, &byte, 1, 0); }
static long long by_peek(void) { return recv(pair.ours, &byte, 1, MSG_PEEK); }
static long long by_wait_all(void) { return recv(pair.ours, &byte, 1, MSG_WAITALL); }
static long long by_recvfrom(void) { return recvfrom(pair.ours, &byte, 1, 0, NULL, NULL); }

static long long by_recvmsg(void)
{
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
    return recvmsg(pair.ours, &message, 0);
}

static long long by_recvmmsg(void)
{
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &room, .msg_iovlen = 1}};
    return recvmmsg(pair.ours, &message, 1, 0, NULL);
}

static long long by_poll(void) { return wait_for(pair.ours, POLLIN, -1); }

static long long by_ppoll(void)
{
    struct pollfd one = {.fd = pair.ours, .events = POLLIN};
    return ppoll(&one, 1, NULL, NULL);
}

static long long by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ours, &set);
    return select(pair.ours + 1, &set, NULL, NULL, NULL);
}

static long long by_pselect(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ours, &set);
    return pselect(pair.ours + 1, &set, NULL, NULL, NULL, NULL);
}

static int epoll_of_ours(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pair.ours, &event));
    return set;
}

static long long by_epoll(void)
{
    struct epoll_event event;
    return epoll_wait(epoll_of_ours(), &event, 1, -1);
}

static long long by_epoll_pwait(void)
{
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    return epoll_pwait(epoll_of_ours(), &event, 1, -1, &none);
}

static const struct {
    const char *name;
    long long (*call)(void);
    bool restarts;
} calls[] = {
    {"read", by_read, true},         {"readv", by_readv, true},     {"recv", by_recv, true},
    {"peek", by_peek, true},         {"wait_all", by_wait_all, true}, {"recvfrom", by_recvfrom, true},
    {"recvmsg", by_recvmsg, true},   {"recvmmsg", by_recvmmsg, true}, {"poll", by_poll, false},
    {"ppoll", by_ppoll, false},      {"select", by_select, false},  {"pselect", by_pselect, false},
    {"epoll", by_epoll, false},      {"epoll_pwait", by_epoll_pwait, false},
};

#define CALLS (sizeof calls / sizeof *calls)

static void plain_handler(void)
{
    count_signals(0);
    for (size_t index = 0; index < CALLS; index++) {
        pair = connected();
        interrupt_often(100);
        long long result = calls[index].call();
        interrupt_no_more();
        check_fails(calls[index].name, result, EINTR);
    }
    check_true("handled", signals_counted >= (int)CALLS);
}

static void restarting_handler(void)
{
    count_signals(SA_RESTART);
    for (size_t index = 0; index < CALLS; index++) {
        pair = connected();
        interrupt_often(2);
        peer_later(90);
        long long begun = peer_send(pair.theirs, "r", 1, 0), result = calls[index].call();
        int error = errno;
        interrupt_no_more();
        peer_join(begun, NULL, 0);
        errno = error;
        if (calls[index].restarts)
            check_int(calls[index].name, result, 1);
        else
            check_fails(calls[index].name, result, EINTR);
    }
}

static void with_timeout(void)
{
    /* A call with a timeout is not restarted. */
    pair = connected();
    count_signals(SA_RESTART);
    set_timeout(pair.ours, SO_RCVTIMEO, 3000);
    interrupt_often(100);
    long long result = by_recv();
    interrupt_no_more();
    check_fails("recv", result, EINTR);
    int listener = our_listener(1);
    set_timeout(listener, SO_RCVTIMEO, 3000);
    interrupt_often(100);
    result = accept(listener, NULL, NULL);
    interrupt_no_more();
    check_fails("accept", result, EINTR);
}

static void accepting(void)
{
    int listener = our_listener(1);
    count_signals(0);
    interrupt_often(100);
    long long result = accept(listener, NULL, NULL);
    interrupt_no_more();
    check_fails("plain", result, EINTR);
    count_signals(SA_RESTART);
    struct sockaddr_storage address = name_of(listener);
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    interrupt_often(2);
    peer_later(90);
    peer_connect(theirs, &address, address_length());
    result = accept(listener, NULL, NULL);
    interrupt_no_more();
    check_works("restarted", result);
    check_true("handled", signals_counted > 0);
}

static void fill(int socket)
{
    static char block[65536];
    for (int quiet = 0; quiet < 3; pause_ms(5))
        quiet = send(socket, block, sizeof block, MSG_DONTWAIT) == -1 ? quiet + 1 : 0;
    while (send(socket, block, 1, MSG_DONTWAIT) == 1)
        ;
}

static void sending(void)
{
    static char block[300000];
    int size = 20000;
    pair = connected();
    /* More than both ends hold. */
    MUST(peer_setsockopt(pair.theirs, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    MUST(set_int(pair.ours, SOL_SOCKET, SO_SNDBUF, size));
    fill(pair.ours);
    count_signals(0);
    interrupt_often(100);
    long long result = send(pair.ours, block, sizeof block, 0);
    interrupt_no_more();
    check_true("plain", result == -1 ? errno == EINTR : result < (long long)sizeof block);
    interrupt_often(100);
    result = write(pair.ours, block, sizeof block);
    interrupt_no_more();
    check_true("write", result == -1 ? errno == EINTR : result < (long long)sizeof block);
    check_true("handled", signals_counted >= 2);
}

static void masks(void)
{
    /* A signal that is blocked outside of the call, and pending, ends it at once. */
    pair = connected();
    sigset_t blocked, none;
    sigemptyset(&blocked);
    sigemptyset(&none);
    sigaddset(&blocked, SIGUSR1);
    MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0 ? 0 : -1);
    count_signals(0);
    struct pollfd one = {.fd = pair.ours, .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair.ours, &set);
    struct epoll_event event;
    int epoll = epoll_of_ours();
    MUST(raise(SIGUSR1));
    check_int("poll_blocked", poll(&one, 1, 30), 0);
    check_fails("ppoll", ppoll(&one, 1, NULL, &none), EINTR);
    check_int("ppoll_handled", signals_counted, 1);
    MUST(raise(SIGUSR1));
    check_fails("pselect", pselect(pair.ours + 1, &set, NULL, NULL, NULL, &none), EINTR);
    check_int("pselect_handled", signals_counted, 2);
    MUST(raise(SIGUSR1));
    check_fails("epoll_pwait", epoll_pwait(epoll, &event, 1, -1, &none), EINTR);
    check_int("epoll_pwait_handled", signals_counted, 3);
    MUST(raise(SIGUSR1));
    struct timespec nothing = {0};
    check_fails("recv_blocked", recv(pair.ours, &byte, 1, MSG_DONTWAIT), EAGAIN);
    check_int("still_blocked", signals_counted, 3);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("ready_comes_first", ppoll(&one, 1, &nothing, &none), 1);
}

static void *receive_forever(void *unused)
{
    (void)unused;
    long long result;
    do
        result = recv(pair.ours, &byte, 1, 0);
    while (result > 0);
    return (void *)result;
}

static void *poll_forever(void *unused)
{
    (void)unused;
    wait_for(pair.ours, POLLIN, -1);
    return NULL;
}

static void *epoll_forever(void *unused)
{
    (void)unused;
    struct epoll_event event;
    epoll_wait(epoll_of_ours(), &event, 1, -1);
    return NULL;
}

static void *accept_forever(void *listener)
{
    accept(*(int *)listener, NULL, NULL);
    return NULL;
}

static void cancel(const char *name, void *(*work)(void *), void *argument)
{
    void *result = NULL;
    pthread_t thread = start_thread(work, argument);
    pause_ms(PAUSE_MS);
    MUST(pthread_cancel(thread) == 0 ? 0 : -1);
    int joined = join_thread(thread, &result);
    check_true(name, joined == 0 && result == PTHREAD_CANCELED);
}

static void cancelled(void)
{
    pair = connected();
    int listener = our_listener(1);
    cancel("recv", receive_forever, NULL);
    cancel("poll", poll_forever, NULL);
    cancel("epoll_wait", epoll_forever, NULL);
    cancel("accept", accept_forever, &listener);
    MUST(peer_send(pair.theirs, "k", 1, 0));
    check_int("usable_afterwards", recv(pair.ours, &byte, 1, 0), 1);
}

static const struct test tests[] = {
    {"plain_handler", plain_handler, FAMILIES_AND_ENDS},
    {"restarting_handler", restarting_handler, FAMILIES_AND_ENDS},
    {"with_timeout", with_timeout, FAMILIES_AND_ENDS},
    {"accepting", accepting, FAMILIES},
    {"sending", sending, FAMILIES_AND_ENDS},
    {"masks", masks, FAMILIES_AND_ENDS},
    {"cancelled", cancelled, FAMILIES_AND_ENDS},
};

SUBJECT(interrupted_calls, tests);
