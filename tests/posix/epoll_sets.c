/* epoll: members of a set, and which events they have. */
#include "fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static int new_set(void)
{
    return (int)MUST(epoll_create1(EPOLL_CLOEXEC));
}

static int control(int set, int operation, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)descriptor | 0xabcdef0000000000u};
    return epoll_ctl(set, operation, descriptor, &event);
}

/* The events of one member, 0 where none has any; the member has to be the one that was meant. */
static int one_event(int set, int descriptor, int timeout_ms)
{
    struct epoll_event events[4];
    int count = epoll_wait(set, events, 4, timeout_ms);
    if (count <= 0)
        return count;
    if (count > 1 || events[0].data.u64 != ((uint64_t)descriptor | 0xabcdef0000000000u))
        return -1000 - count;
    return (int)events[0].events;
}

static void members(void)
{
    struct pair pair = connected();
    int set = new_set();
    char path[] = "/tmp/sidestep-posix-XXXXXX";
    check_fails("create_zero", epoll_create(0), EINVAL);
    check_works("create_one", epoll_create(1));
    check_fails("create_flags", epoll_create1(77), EINVAL);
    check_int("add", control(set, EPOLL_CTL_ADD, pair.ours, EPOLLIN), 0);
    check_fails("add_again", control(set, EPOLL_CTL_ADD, pair.ours, EPOLLIN), EEXIST);
    check_int("mod", control(set, EPOLL_CTL_MOD, pair.ours, EPOLLOUT), 0);
    check_int("del", control(set, EPOLL_CTL_DEL, pair.ours, 0), 0);
    check_fails("del_again", control(set, EPOLL_CTL_DEL, pair.ours, 0), ENOENT);
    check_fails("mod_missing", control(set, EPOLL_CTL_MOD, pair.ours, EPOLLIN), ENOENT);
    check_fails("closed_member", control(set, EPOLL_CTL_ADD, 99, EPOLLIN), EBADF);
    check_fails("closed_set", control(99, EPOLL_CTL_ADD, pair.ours, EPOLLIN), EBADF);
    check_fails("not_a_set", control(pair.ours, EPOLL_CTL_ADD, set, EPOLLIN), EINVAL);
    check_fails("itself", control(set, EPOLL_CTL_ADD, set, EPOLLIN), EINVAL);
    check_fails("bad_operation", control(set, 9, pair.ours, EPOLLIN), EINVAL);
    int regular = (int)MUST(mkstemp(path));
    unlink(path);
    check_fails("regular_file", control(set, EPOLL_CTL_ADD, regular, EPOLLIN), EPERM);
    struct epoll_event event;
    check_fails("wait_no_room", epoll_wait(set, &event, 0, 0), EINVAL);
    check_fails("wait_on_socket", epoll_wait(pair.ours, &event, 1, 0), EINVAL);
    check_fails("wait_on_closed", epoll_wait(99, &event, 1, 0), EBADF);
    check_int("wait_empty", epoll_wait(set, &event, 1, 20), 0);
    int loop = new_set();
    check_int("nested", control(set, EPOLL_CTL_ADD, loop, EPOLLIN), 0);
    check_fails("loop", control(loop, EPOLL_CTL_ADD, set, EPOLLIN), ELOOP);
    check_int("copy_is_another_member", control(set, EPOLL_CTL_ADD, dup(pair.ours), EPOLLIN), 0);
}

static void levels(void)
{
    struct pair pair = connected();
    int set = new_set();
    char data[16];
    MUST(control(set, EPOLL_CTL_ADD, pair.ours, EPOLLIN | EPOLLRDHUP));
    check_int("idle", one_event(set, pair.ours, 0), 0);
    MUST(peer_send(pair.theirs, "ab", 2, 0));
    check_int("in", one_event(set, pair.ours, PATIENCE_MS), EPOLLIN);
    check_int("in_again", one_event(set, pair.ours, 0), EPOLLIN);
    MUST(recv(pair.ours, data, 1, 0));
    check_int("in_while_there_is_more", one_event(set, pair.ours, 0), EPOLLIN);
    MUST(recv(pair.ours, data, 1, 0));
    check_int("idle_again", one_event(set, pair.ours, 0), 0);
    MUST(control(set, EPOLL_CTL_MOD, pair.ours, EPOLLIN | EPOLLOUT | EPOLLRDHUP));
    check_int("out", one_event(set, pair.ours, 0), EPOLLOUT);
    MUST(control(set, EPOLL_CTL_MOD, pair.ours, EPOLLIN | EPOLLRDHUP));
    peer_later(40);
    peer_send(pair.theirs, "c", 1, 0);
    check_int("wakes", one_event(set, pair.ours, -1), EPOLLIN);
    MUST(recv(pair.ours, data, 1, 0));
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    check_int("rdhup", one_event(set, pair.ours, PATIENCE_MS), EPOLLIN | EPOLLRDHUP);
    MUST(shutdown(pair.ours, SHUT_WR));
    MUST(wait_for(pair.ours, POLLHUP, PATIENCE_MS));
    check_int("hup", one_event(set, pair.ours, PATIENCE_MS), EPOLLIN | EPOLLRDHUP | EPOLLHUP);
    check_int("close", close(pair.ours), 0);
    check_int("closed_leaves_the_set", one_event(set, pair.ours, 20), 0);
}

static void errors(void)
{
    struct pair pair = connected();
    int set = new_set();
    MUST(control(set, EPOLL_CTL_ADD, pair.ours, 0));
    MUST(peer_abort(pair.theirs));
    check_int("reset_unasked", one_event(set, pair.ours, PATIENCE_MS), EPOLLERR | EPOLLHUP);
    MUST(control(set, EPOLL_CTL_MOD, pair.ours, EPOLLIN | EPOLLOUT | EPOLLRDHUP));
    check_int("reset", one_event(set, pair.ours, 0), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLERR | EPOLLHUP);
    check_int("so_error", int_option(pair.ours, SOL_SOCKET, SO_ERROR), ECONNRESET);
    check_int("reset_after", one_event(set, pair.ours, 0), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
    struct sockaddr_storage address = peer_address(1);
    int refused = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0)), second = new_set();
    check_fails("begins", connect(refused, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    MUST(control(second, EPOLL_CTL_ADD, refused, EPOLLOUT));
    check_int("refused", one_event(second, refused, PATIENCE_MS), EPOLLOUT | EPOLLERR | EPOLLHUP);
    check_int("refused_error", int_option(refused, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
}

static void added_before(void)
{
    in_port_t port;
    int listener = peer_listener(&port), set = new_set();
    struct sockaddr_storage address = peer_address(port);
    int ours = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_int("add_fresh", control(set, EPOLL_CTL_ADD, ours, EPOLLIN | EPOLLOUT), 0);
    check_int("fresh_hup", one_event(set, ours, 0), EPOLLOUT | EPOLLHUP);
    check_fails("begins", connect(ours, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    wait_for(ours, POLLOUT, PATIENCE_MS);
    check_int("connected", one_event(set, ours, PATIENCE_MS), EPOLLOUT);
    int theirs = (int)MUST(peer_accept(listener));
    MUST(peer_send(theirs, "x", 1, 0));
    wait_for(ours, POLLIN, PATIENCE_MS);
    check_int("data", one_event(set, ours, PATIENCE_MS), EPOLLIN | EPOLLOUT);
    check_fails("still_a_member", control(set, EPOLL_CTL_ADD, ours, EPOLLIN), EEXIST);
    struct sockaddr_storage own = our_address(0);
    int bound = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0)), other = new_set();
    MUST(bind(bound, (struct sockaddr *)&own, address_length()));
    check_int("add_bound", control(other, EPOLL_CTL_ADD, bound, EPOLLIN), 0);
    MUST(listen(bound, 8));
    own = name_of(bound);
    check_int("listener_idle", one_event(other, bound, 20), 0);
    int client = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(client, &own, address_length()));
    check_int("listener", one_event(other, bound, PATIENCE_MS), EPOLLIN);
    int accepted = accept4(bound, NULL, NULL, SOCK_NONBLOCK);
    check_int("listener_idle_again", one_event(other, bound, 0), 0);
    check_int("add_accepted", control(other, EPOLL_CTL_ADD, accepted, EPOLLIN), 0);
    MUST(peer_send(client, "y", 1, 0));
    check_int("accepted_data", one_event(other, accepted, PATIENCE_MS), EPOLLIN);
}

static void mixed(void)
{
    struct pair one = connected(), two = connected();
    int set = new_set(), event = (int)MUST(eventfd(0, EFD_NONBLOCK)), pipes[2];
    int timer = (int)MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &user, NULL);
    int signals = (int)MUST(signalfd(-1, &user, SFD_NONBLOCK));
    MUST(pipe(pipes));
    for (int index = 0; index < 6; index++)
        MUST(control(set, EPOLL_CTL_ADD, (int[]){one.ours, two.ours, event, pipes[0], timer, signals}[index], EPOLLIN));
    struct epoll_event events[8];
    check_int("idle", epoll_wait(set, events, 8, 0), 0);
    MUST(eventfd_write(event, 1));
    check_int("eventfd", one_event(set, event, PATIENCE_MS), EPOLLIN);
    eventfd_t value;
    MUST(eventfd_read(event, &value));
    MUST(write(pipes[1], "p", 1));
    check_int("pipe", one_event(set, pipes[0], PATIENCE_MS), EPOLLIN);
    char byte;
    MUST(read(pipes[0], &byte, 1));
    struct itimerspec soon = {.it_value = {.tv_nsec = 30000000}};
    MUST(timerfd_settime(timer, 0, &soon, NULL));
    check_int("timer_wakes", one_event(set, timer, -1), EPOLLIN);
    uint64_t ticks;
    MUST(read(timer, &ticks, sizeof ticks));
    MUST(raise(SIGUSR1));
    check_int("signalfd", one_event(set, signals, PATIENCE_MS), EPOLLIN);
    struct signalfd_siginfo got;
    MUST(read(signals, &got, sizeof got));
    peer_later(40);
    peer_send(one.theirs, "x", 1, 0);
    check_int("socket_wakes", one_event(set, one.ours, -1), EPOLLIN);
    MUST(peer_send(two.theirs, "y", 1, 0));
    MUST(wait_for(two.ours, POLLIN, PATIENCE_MS));
    MUST(eventfd_write(event, 1));
    MUST(write(pipes[1], "p", 1));
    check_int("four_at_once", epoll_wait(set, events, 8, 0), 4);
    /* One at a time, everybody's turn comes: in four calls of Linux, within some 60 us of the library, however many calls those are. */
    uint64_t seen[4] = {0};
    int different = 0;
    for (int round = 0; round < 1000 && different < 4; round++) {
        MUST(epoll_wait(set, events, 1, 0));
        bool is_new = true;
        for (int index = 0; index < different; index++)
            is_new &= seen[index] != events[0].data.u64;
        if (is_new)
            seen[different++] = events[0].data.u64;
    }
    check_int("fair", different, 4);
}

static void several_sets(void)
{
    struct pair pair = connected();
    int one = new_set(), two = new_set();
    MUST(control(one, EPOLL_CTL_ADD, pair.ours, EPOLLIN));
    MUST(control(two, EPOLL_CTL_ADD, pair.ours, EPOLLIN | EPOLLOUT));
    check_int("one_idle", one_event(one, pair.ours, 0), 0);
    check_int("two_out", one_event(two, pair.ours, 0), EPOLLOUT);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("one", one_event(one, pair.ours, PATIENCE_MS), EPOLLIN);
    check_int("two", one_event(two, pair.ours, PATIENCE_MS), EPOLLIN | EPOLLOUT);
    MUST(control(one, EPOLL_CTL_DEL, pair.ours, 0));
    check_int("one_without", one_event(one, pair.ours, 0), 0);
    check_int("two_with", one_event(two, pair.ours, 0), EPOLLIN | EPOLLOUT);
    int copy = (int)MUST(dup(pair.ours));
    MUST(control(one, EPOLL_CTL_ADD, copy, EPOLLIN));
    check_int("by_the_copy", one_event(one, copy, 0), EPOLLIN);
    /* A member stays as long as its open file description lives (epoll(7), questions and answers 6). */
    int closed = pair.ours;
    MUST(close(closed));
    check_int("member_of_a_closed_number", one_event(two, closed, 0), EPOLLIN | EPOLLOUT);
    MUST(close(copy));
    check_int("all_closed", one_event(two, closed, 20), 0);
}

static void nested(void)
{
    struct pair pair = connected();
    int inner = new_set(), outer = new_set();
    MUST(control(inner, EPOLL_CTL_ADD, pair.ours, EPOLLIN));
    MUST(control(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
    check_int("idle", one_event(outer, inner, 0), 0);
    check_int("poll_idle", wait_for(inner, POLLIN, 0), 0);
    peer_later(40);
    peer_send(pair.theirs, "x", 1, 0);
    check_int("outer", one_event(outer, inner, -1), EPOLLIN);
    check_int("inner", one_event(inner, pair.ours, 0), EPOLLIN);
    check_int("poll_of_set", wait_for(inner, POLLIN, 0), POLLIN);
    char byte;
    MUST(recv(pair.ours, &byte, 1, 0));
    check_int("idle_again", one_event(outer, inner, 0), 0);
    peer_later(40);
    peer_send(pair.theirs, "y", 1, 0);
    check_int("poll_of_set_wakes", wait_for(inner, POLLIN, PATIENCE_MS), POLLIN);
}

/* A set is no file, and no socket. */
static void transfer(void)
{
    struct pair pair = connected();
    int set = new_set(), file = (int)MUST(open("/dev/zero", O_RDONLY));
    char byte = 0;
    struct iovec part = {&byte, 1};
    MUST(control(set, EPOLL_CTL_ADD, pair.ours, EPOLLIN));
    check_fails("write", write(set, "w", 1), EINVAL);
    check_fails("writev", writev(set, &part, 1), EINVAL);
    check_fails("send", send(set, "s", 1, 0), ENOTSOCK);
    check_fails("sendfile", sendfile(set, file, NULL, 1), EINVAL);
    check_fails("read", read(set, &byte, 1), EINVAL);
    check_fails("readv", readv(set, &part, 1), EINVAL);
    check_fails("recv", recv(set, &byte, 1, 0), ENOTSOCK);
}

static const struct test tests[] = {
    {"transfer", transfer, FAMILIES},
    {"members", members, FAMILIES_AND_ENDS},
    {"levels", levels, FAMILIES_AND_ENDS},
    {"errors", errors, FAMILIES_AND_ENDS},
    {"added_before", added_before, FAMILIES},
    {"mixed", mixed, FAMILIES_AND_ENDS},
    {"several_sets", several_sets, FAMILIES_AND_ENDS},
    {"nested", nested, FAMILIES_AND_ENDS},
};

SUBJECT(epoll_sets, tests);
