/* shutdown, close, resets, SIGPIPE, lingering. */
#include "fixture.h"

static volatile sig_atomic_t pipes_broken;

static void count_pipe(int signal)
{
    (void)signal;
    pipes_broken++;
}

static void shut_writing(void)
{
    struct pair pair = connected();
    char data[16];
    MUST(send(pair.ours, "bye", 3, 0));
    check_int("shutdown", shutdown(pair.ours, SHUT_WR), 0);
    check_bytes("peer_data", data, peer_recv(pair.theirs, data, sizeof data, 0), "bye", 3);
    check_int("peer_end", peer_recv(pair.theirs, data, sizeof data, 0), 0);
    check_fails("send", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    check_int("shutdown_again", shutdown(pair.ours, SHUT_WR), 0);
    check_int("peer_still_sends", peer_send(pair.theirs, "answer", 6, 0), 6);
    check_bytes("half_open_recv", data, recv(pair.ours, data, sizeof data, 0), "answer", 6);
    check_int("no_hup_yet", wait_for(pair.ours, POLLIN | POLLRDHUP, 0), 0);
    MUST(peer_close(pair.theirs));
    check_int("end", recv(pair.ours, data, sizeof data, 0), 0);
    check_int("hup", wait_for(pair.ours, POLLIN | POLLRDHUP, PATIENCE_MS), POLLIN | POLLRDHUP | POLLHUP);
    check_fails("shutdown_when_closed", shutdown(pair.ours, SHUT_RD), ENOTCONN);
    check_int("close", close(pair.ours), 0);
}

static void shut_reading(void)
{
    struct pair pair = connected();
    char data[16];
    check_int("shutdown", shutdown(pair.ours, SHUT_RD), 0);
    check_int("recv", recv(pair.ours, data, sizeof data, 0), 0);
    check_int("readable", wait_for(pair.ours, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP);
    /* Linux takes what comes nevertheless. */
    MUST(peer_send(pair.theirs, "late", 4, 0));
    pause_ms(PAUSE_MS);
    check_bytes("late_data", data, recv(pair.ours, data, sizeof data, 0), "late", 4);
    check_int("sends", send(pair.ours, "still", 5, 0), 5);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "still", 5);
    check_fails("bad_way", shutdown(pair.ours, 9), EINVAL);
}

static void shut_both(void)
{
    struct pair pair = connected();
    char data[16];
    check_int("shutdown", shutdown(pair.ours, SHUT_RDWR), 0);
    check_int("recv", recv(pair.ours, data, sizeof data, 0), 0);
    check_fails("send", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    check_int("events", wait_for(pair.ours, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
    check_int("peer_end", peer_recv(pair.theirs, data, sizeof data, 0), 0);
}

static void peer_ends(void)
{
    struct pair pair = connected();
    char data[16];
    MUST(peer_send(pair.theirs, "last", 4, 0));
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    pause_ms(PAUSE_MS);
    check_int("rdhup", wait_for(pair.ours, POLLIN | POLLOUT | POLLRDHUP, PATIENCE_MS), POLLIN | POLLOUT | POLLRDHUP);
    check_bytes("data", data, recv(pair.ours, data, sizeof data, 0), "last", 4);
    check_int("end", recv(pair.ours, data, sizeof data, 0), 0);
    check_int("end_again", read(pair.ours, data, sizeof data), 0);
    check_int("send", send(pair.ours, "yes", 3, 0), 3);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "yes", 3);
    check_int("close", close(pair.ours), 0);
    check_int("peer_sees_end", peer_recv(pair.theirs, data, sizeof data, 0), 0);
}

static void broken_pipe(void)
{
    struct pair pair = connected();
    signal(SIGPIPE, count_pipe);
    pipes_broken = 0;
    MUST(shutdown(pair.ours, SHUT_WR));
    check_fails("send", send(pair.ours, "x", 1, 0), EPIPE);
    check_int("signal", pipes_broken, 1);
    check_fails("nosignal", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    check_int("no_signal", pipes_broken, 1);
    check_fails("write", write(pair.ours, "x", 1), EPIPE);
    check_int("write_signal", pipes_broken, 2);
    signal(SIGPIPE, SIG_IGN);
    check_fails("ignored", write(pair.ours, "x", 1), EPIPE);
    check_int("ignored_count", pipes_broken, 2);
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        (void)!write(pair.ours, "x", 1);
        _exit(0);
    }
    check_int("default_kills", join_process(child), 128 + SIGPIPE);
}

static void reset_by_peer(void)
{
    struct pair pair = connected();
    char data[16];
    MUST(peer_abort(pair.theirs));
    check_int("events", wait_for(pair.ours, POLLIN | POLLOUT | POLLRDHUP, PATIENCE_MS) & (POLLERR | POLLHUP), POLLERR | POLLHUP);
    check_fails("recv", recv(pair.ours, data, sizeof data, 0), ECONNRESET);
    check_int("recv_then", recv(pair.ours, data, sizeof data, 0), 0);
    check_fails("send_then", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    check_fails("getpeername", getpeername(pair.ours, (struct sockaddr *)&from, &length), ENOTCONN);
    check_fails("shutdown", shutdown(pair.ours, SHUT_WR), ENOTCONN);
    pair = connected();
    MUST(peer_abort(pair.theirs));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("so_error", int_option(pair.ours, SOL_SOCKET, SO_ERROR), ECONNRESET);
    check_int("so_error_once", int_option(pair.ours, SOL_SOCKET, SO_ERROR), 0);
    check_int("recv_after_so_error", recv(pair.ours, data, sizeof data, 0), 0);
    pair = connected();
    MUST(peer_abort(pair.theirs));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_fails("send", send(pair.ours, "x", 1, MSG_NOSIGNAL), ECONNRESET);
    check_fails("send_again", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    pair = connected();
    peer_later(40);
    peer_abort(pair.theirs);
    check_fails("recv_waiting", recv(pair.ours, data, sizeof data, 0), ECONNRESET);
}

static void reset_by_us(void)
{
    struct pair pair = connected();
    struct linger at_once = {.l_onoff = 1};
    MUST(setsockopt(pair.ours, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    check_int("close", close(pair.ours), 0);
    check_fails("peer", peer_recv(pair.theirs, NULL, 1, 0), ECONNRESET);
    pair = connected();
    MUST(peer_send(pair.theirs, "unread", 6, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("close_unread", close(pair.ours), 0);
    check_fails("peer_of_unread", peer_recv(pair.theirs, NULL, 1, 0), ECONNRESET);
    pair = connected();
    check_int("close_then", close(pair.ours), 0);
    check_int("peer_sees_end", peer_recv(pair.theirs, NULL, 1, 0), 0);
    check_int("peer_sends", peer_send(pair.theirs, "x", 1, 0), 1);
    pause_ms(PAUSE_MS);
    check_fails("peer_of_closed", peer_send(pair.theirs, "x", 1, 0), EPIPE);
}

static void unsent(void)
{
    struct pair pair = connected();
    static char data[200000];
    pattern(11, 0, data, sizeof data);
    peer_later(50);
    long long begun = peer_recv_pattern(pair.theirs, sizeof data, 11);
    check_int("send", send(pair.ours, data, sizeof data, 0), sizeof data);
    check_int("close", close(pair.ours), 0);
    check_int("peer_has_all", peer_join(begun, NULL, 0), sizeof data);
    check_int("peer_end", peer_recv(pair.theirs, NULL, 1, 0), 0);
}

static void close_it(void *socket)
{
    close(*(int *)socket);
}

static void lingering(void)
{
    struct pair pair = connected();
    struct linger linger = {.l_onoff = 1, .l_linger = 5}, got;
    socklen_t length = sizeof got;
    static char data[100000];
    pattern(12, 0, data, sizeof data);
    MUST(setsockopt(pair.ours, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    MUST(getsockopt(pair.ours, SOL_SOCKET, SO_LINGER, &got, &length));
    check_int("get", got.l_onoff * 10 + got.l_linger, 15);
    MUST(send(pair.ours, data, sizeof data, 0));
    peer_later(20);
    long long begun = peer_recv_pattern(pair.theirs, sizeof data, 12);
    check_true("close_in_time", elapsed_ms(close_it, &pair.ours) < 4000);
    check_int("peer_has_all", peer_join(begun, NULL, 0), sizeof data);
    pair = connected();
    linger.l_linger = 1;
    MUST(set_int(pair.ours, SOL_SOCKET, SO_SNDBUF, 1000000));
    MUST(setsockopt(pair.ours, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    set_nonblocking(pair.ours, true);
    for (int quiet = 0; quiet < 3; pause_ms(5))
        quiet = send(pair.ours, data, sizeof data, 0) == -1 ? quiet + 1 : 0;
    set_nonblocking(pair.ours, false);
    long long took = elapsed_ms(close_it, &pair.ours);
    check_true("close_waits", took >= 900);
    check_true("close_gives_up", took < 4000);
}

static const struct test tests[] = {
    {"shut_writing", shut_writing, FAMILIES_AND_ENDS},
    {"shut_reading", shut_reading, FAMILIES_AND_ENDS},
    {"shut_both", shut_both, FAMILIES_AND_ENDS},
    {"peer_ends", peer_ends, FAMILIES_AND_ENDS},
    {"broken_pipe", broken_pipe, FAMILIES_AND_ENDS},
    {"reset_by_peer", reset_by_peer, FAMILIES_AND_ENDS},
    {"reset_by_us", reset_by_us, FAMILIES_AND_ENDS},
    {"unsent", unsent, FAMILIES_AND_ENDS},
    {"lingering", lingering, FAMILIES},
};

SUBJECT(closing, tests);
