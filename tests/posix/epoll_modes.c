/* epoll: edges, one-shot and exclusive members, many waiters. */
#include "fixture.h"

#include <sys/epoll.h>

static int new_set(int member, uint32_t events)
{
    int set = (int)MUST(epoll_create1(0));
    struct epoll_event event = {.events = events, .data.fd = member};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, member, &event));
    return set;
}

static int change(int set, int member, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = member};
    return epoll_ctl(set, EPOLL_CTL_MOD, member, &event);
}

static int event_of(int set, int timeout_ms)
{
    struct epoll_event event;
    int count = epoll_wait(set, &event, 1, timeout_ms);
    return count == 1 ? (int)event.events : count;
}

static void edges(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN | EPOLLET);
    char data[16];
    check_int("idle", event_of(set, 0), 0);
    MUST(peer_send(pair.theirs, "ab", 2, 0));
    check_int("in", event_of(set, PATIENCE_MS), EPOLLIN);
    check_int("once", event_of(set, 20), 0);
    MUST(recv(pair.ours, data, 1, 0));
    check_int("a_rest_is_no_edge", event_of(set, 20), 0);
    MUST(peer_send(pair.theirs, "c", 1, 0));
    check_int("new_data", event_of(set, PATIENCE_MS), EPOLLIN);
    check_int("change_tells_again", change(set, pair.ours, EPOLLIN | EPOLLET), 0);
    check_int("after_change", event_of(set, 0), EPOLLIN);
    MUST(recv(pair.ours, data, sizeof data, 0));
    check_int("drained", event_of(set, 0), 0);
    int second = new_set(pair.ours, EPOLLIN | EPOLLOUT | EPOLLET);
    check_int("writable_at_first", event_of(second, 0), EPOLLOUT);
    check_int("writable_once", event_of(second, 20), 0);
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    check_int("end", event_of(set, PATIENCE_MS), EPOLLIN);
    check_int("end_once", event_of(set, 20), 0);
}

static void edge_of_room(void)
{
    struct pair pair = connected();
    static char block[65536];
    set_nonblocking(pair.ours, true);
    int set = new_set(pair.ours, EPOLLOUT | EPOLLET);
    check_int("at_first", event_of(set, 0), EPOLLOUT);
    size_t sent = 0;
    for (int quiet = 0; quiet < 3; pause_ms(quiet ? PAUSE_MS : 0)) {
        pattern(41, sent, block, sizeof block);
        ssize_t count = send(pair.ours, block, sizeof block, 0);
        quiet = count == -1 ? quiet + 1 : 0;
        sent += count > 0 ? (size_t)count : 0;
    }
    event_of(set, 0);
    check_int("full", event_of(set, 20), 0);
    peer_later(20);
    long long begun = peer_recv_pattern(pair.theirs, sent, 41);
    check_int("room", event_of(set, PATIENCE_MS), EPOLLOUT);
    check_int("peer_has_all", peer_join(begun, NULL, 0), (long long)sent);
}

static void one_shot(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN | EPOLLONESHOT);
    MUST(peer_send(pair.theirs, "a", 1, 0));
    check_int("in", event_of(set, PATIENCE_MS), EPOLLIN);
    MUST(peer_send(pair.theirs, "b", 1, 0));
    check_int("disarmed", event_of(set, 30), 0);
    check_int("armed", change(set, pair.ours, EPOLLIN | EPOLLONESHOT), 0);
    check_int("in_again", event_of(set, 0), EPOLLIN);
    MUST(peer_abort(pair.theirs));
    MUST(wait_for(pair.ours, POLLHUP, PATIENCE_MS));
    check_int("disarmed_for_errors", event_of(set, 20), 0);
    MUST(change(set, pair.ours, EPOLLONESHOT));
    check_int("error_when_armed", event_of(set, 0), EPOLLERR | EPOLLHUP);
}

/* One that was told, and whose socket asks for signals: under the library the kernel has it from then on. */
static void one_shot_changed(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN | EPOLLONESHOT);
    MUST(peer_send(pair.theirs, "a", 1, 0));
    check_int("in", event_of(set, PATIENCE_MS), EPOLLIN);
    MUST(fcntl(pair.ours, F_SETFL, fcntl(pair.ours, F_GETFL) | O_ASYNC));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pair.ours};
    check_fails("is_there", epoll_ctl(set, EPOLL_CTL_ADD, pair.ours, &event), EEXIST);
    MUST(peer_abort(pair.theirs));
    MUST(wait_for(pair.ours, POLLHUP, PATIENCE_MS));
    check_int("disarmed_for_errors", event_of(set, 20), 0);
    check_int("armed", change(set, pair.ours, EPOLLONESHOT), 0);
    check_int("error_when_armed", event_of(set, PATIENCE_MS), EPOLLERR | EPOLLHUP);
    check_int("removed", epoll_ctl(set, EPOLL_CTL_DEL, pair.ours, &event), 0);
    struct pair other = connected();
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, other.ours, &(struct epoll_event){.events = EPOLLIN | EPOLLONESHOT}));
    MUST(peer_send(other.theirs, "b", 1, 0));
    MUST(epoll_wait(set, &event, 1, PATIENCE_MS));
    MUST(fcntl(other.ours, F_SETFL, fcntl(other.ours, F_GETFL) | O_ASYNC));
    check_int("removed_disarmed", epoll_ctl(set, EPOLL_CTL_DEL, other.ours, &event), 0);
    check_fails("is_gone", epoll_ctl(set, EPOLL_CTL_DEL, other.ours, &event), ENOENT);
}

static void edge_of_accept(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    set_nonblocking(listener, true);
    int set = new_set(listener, EPOLLIN | EPOLLET);
    MUST(peer_connect((int)MUST(peer_socket(family, SOCK_STREAM)), &address, address_length()));
    check_int("first", event_of(set, PATIENCE_MS), EPOLLIN);
    check_int("once", event_of(set, 20), 0);
    MUST(peer_connect((int)MUST(peer_socket(family, SOCK_STREAM)), &address, address_length()));
    check_int("second", event_of(set, PATIENCE_MS), EPOLLIN);
    check_works("accept_first", accept(listener, NULL, NULL));
    check_works("accept_second", accept(listener, NULL, NULL));
    check_fails("no_third", accept(listener, NULL, NULL), EAGAIN);
}

static void *wait_here(void *set)
{
    return (void *)(long)event_of((int)(long)set, 1000);
}

static void exclusive(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    set_nonblocking(listener, true);
    int one = new_set(listener, EPOLLIN | EPOLLEXCLUSIVE), two = new_set(listener, EPOLLIN | EPOLLEXCLUSIVE);
    check_fails("cannot_be_changed", change(one, listener, EPOLLIN), EINVAL);
    struct epoll_event both = {.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT};
    int third = (int)MUST(epoll_create1(0));
    check_fails("not_with_oneshot", epoll_ctl(third, EPOLL_CTL_ADD, listener, &both), EINVAL);
    pthread_t first = start_thread(wait_here, (void *)(long)one), second = start_thread(wait_here, (void *)(long)two);
    pause_ms(PAUSE_MS);
    MUST(peer_connect((int)MUST(peer_socket(family, SOCK_STREAM)), &address, address_length()));
    void *of_first = NULL, *of_second = NULL;
    check_int("first_joins", join_thread(first, &of_first), 0);
    check_int("second_joins", join_thread(second, &of_second), 0);
    check_true("one_at_least", of_first == (void *)EPOLLIN || of_second == (void *)EPOLLIN);
    check_works("accept", accept(listener, NULL, NULL));
}

static void many_waiters(void)
{
    struct pair pair = connected();
    int set = new_set(pair.ours, EPOLLIN | EPOLLET);
    pthread_t threads[3];
    for (int index = 0; index < 3; index++)
        threads[index] = start_thread(wait_here, (void *)(long)set);
    pause_ms(PAUSE_MS);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    int woken = 0;
    for (int index = 0; index < 3; index++) {
        void *result = NULL;
        join_thread(threads[index], &result);
        woken += result == (void *)EPOLLIN;
    }
    check_int("one_edge_one_thread", woken, 1);
}

static int set_to_change, member_to_add;

static void *add_later(void *unused)
{
    (void)unused;
    struct epoll_event event = {.events = EPOLLIN};
    pause_ms(40);
    return (void *)(long)epoll_ctl(set_to_change, EPOLL_CTL_ADD, member_to_add, &event);
}

static void changed_while_waiting(void)
{
    struct pair pair = connected();
    set_to_change = (int)MUST(epoll_create1(0));
    member_to_add = pair.ours;
    MUST(peer_send(pair.theirs, "x", 1, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    pthread_t thread = start_thread(add_later, NULL);
    check_int("ready_member_wakes", event_of(set_to_change, PATIENCE_MS), EPOLLIN);
    check_int("joins", join_thread(thread, NULL), 0);
    struct timespec brief = {.tv_nsec = 10000000};
    struct epoll_event event;
    char byte;
    MUST(recv(pair.ours, &byte, 1, 0));
    check_int("pwait2_timeout", epoll_pwait2(set_to_change, &event, 1, &brief, NULL), 0);
    MUST(peer_send(pair.theirs, "y", 1, 0));
    check_int("pwait2_forever", epoll_pwait2(set_to_change, &event, 1, NULL, NULL), 1);
}

static const struct test tests[] = {
    {"edges", edges, FAMILIES_AND_ENDS},
    {"edge_of_room", edge_of_room, FAMILIES_AND_ENDS},
    {"one_shot_changed", one_shot_changed, FAMILIES_AND_ENDS},
    {"one_shot", one_shot, FAMILIES_AND_ENDS},
    {"edge_of_accept", edge_of_accept, FAMILIES},
    {"exclusive", exclusive, FAMILIES},
    {"many_waiters", many_waiters, FAMILIES_AND_ENDS},
    {"changed_while_waiting", changed_while_waiting, FAMILIES_AND_ENDS},
};

SUBJECT(epoll_modes, tests);
