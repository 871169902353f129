/* send and recv on a TCP connection, and their flags. */
#include "fixture.h"

#include <sys/ioctl.h>

static void plain(void)
{
    struct pair pair = connected();
    char data[64];
    check_int("send", send(pair.ours, "hello", 5, 0), 5);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "hello", 5);
    MUST(peer_send(pair.theirs, "world!", 6, 0));
    check_bytes("recv", data, recv(pair.ours, data, sizeof data, 0), "world!", 6);
    check_int("write", write(pair.ours, "abc", 3), 3);
    check_bytes("peer_has_write", data, peer_recv(pair.theirs, data, sizeof data, 0), "abc", 3);
    MUST(peer_send(pair.theirs, "0123456789", 10, 0));
    check_bytes("read_part", data, read(pair.ours, data, 4), "0123", 4);
    check_bytes("read_rest", data, read(pair.ours, data, sizeof data), "456789", 6);
    check_int("send_nothing", send(pair.ours, "", 0, 0), 0);
    check_fails("recv_no_room_waits", recv(pair.ours, data, 0, MSG_DONTWAIT), EAGAIN);
    check_int("read_no_room", read(pair.ours, data, 0), 0);
    check_int("write_nothing", write(pair.ours, "", 0), 0);
    check_int("sendto_without_address", sendto(pair.ours, "to", 2, 0, NULL, 0), 2);
    check_bytes("peer_has_sendto", data, peer_recv(pair.theirs, data, sizeof data, 0), "to", 2);
    struct sockaddr_storage elsewhere = peer_address(9);
    check_int("sendto_with_address", sendto(pair.ours, "at", 2, 0, (struct sockaddr *)&elsewhere, address_length()), 2);
    check_bytes("peer_has_it_too", data, peer_recv(pair.theirs, data, sizeof data, 0), "at", 2);
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    MUST(peer_send(pair.theirs, "f", 1, 0));
    check_int("recvfrom", recvfrom(pair.ours, data, sizeof data, 0, (struct sockaddr *)&from, &length), 1);
    check_int("recvfrom_no_address", length, 0);
}

static void peek(void)
{
    struct pair pair = connected();
    char data[64];
    MUST(peer_send(pair.theirs, "peekaboo", 8, 0));
    check_bytes("part", data, recv(pair.ours, data, 4, MSG_PEEK), "peek", 4);
    check_bytes("again", data, recv(pair.ours, data, sizeof data, MSG_PEEK), "peekaboo", 8);
    check_bytes("taken", data, recv(pair.ours, data, 4, 0), "peek", 4);
    check_bytes("after_part", data, recv(pair.ours, data, 4, MSG_PEEK), "aboo", 4);
    MUST(peer_send(pair.theirs, "more", 4, 0));
    pause_ms(PAUSE_MS);
    check_bytes("over_segments", data, recv(pair.ours, data, sizeof data, MSG_PEEK), "aboomore", 8);
    check_bytes("all", data, recv(pair.ours, data, sizeof data, 0), "aboomore", 8);
    check_fails("none", recv(pair.ours, data, sizeof data, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    peer_later(40);
    peer_send(pair.theirs, "later", 5, 0);
    check_bytes("waits", data, recv(pair.ours, data, sizeof data, MSG_PEEK), "later", 5);
    check_bytes("waited_for", data, recv(pair.ours, data, sizeof data, 0), "later", 5);
    MUST(peer_close(pair.theirs));
    check_int("end", recv(pair.ours, data, sizeof data, MSG_PEEK), 0);
    check_int("end_again", recv(pair.ours, data, sizeof data, 0), 0);
}

static void wait_all(void)
{
    struct pair pair = connected();
    char data[64];
    MUST(peer_send(pair.theirs, "one", 3, 0));
    peer_later(40);
    peer_send(pair.theirs, "two", 3, 0);
    check_bytes("both", data, recv(pair.ours, data, 6, MSG_WAITALL), "onetwo", 6);
    MUST(peer_send(pair.theirs, "abcdef", 6, 0));
    check_bytes("exact", data, recv(pair.ours, data, 4, MSG_WAITALL), "abcd", 4);
    check_bytes("peeked_too", data, recv(pair.ours, data, 2, MSG_WAITALL | MSG_PEEK), "ef", 2);
    set_timeout(pair.ours, SO_RCVTIMEO, 50);
    check_bytes("timeout_has_part", data, recv(pair.ours, data, 10, MSG_WAITALL), "ef", 2);
    check_fails("timeout_has_none", recv(pair.ours, data, 10, MSG_WAITALL), EAGAIN);
    set_timeout(pair.ours, SO_RCVTIMEO, 0);
    MUST(peer_send(pair.theirs, "xy", 2, 0));
    pause_ms(PAUSE_MS);
    check_bytes("dontwait", data, recv(pair.ours, data, 10, MSG_WAITALL | MSG_DONTWAIT), "xy", 2);
    MUST(peer_send(pair.theirs, "end", 3, 0));
    MUST(peer_close(pair.theirs));
    check_bytes("end", data, recv(pair.ours, data, 10, MSG_WAITALL), "end", 3);
    check_int("after_end", recv(pair.ours, data, 10, MSG_WAITALL), 0);
}

static void dont_wait(void)
{
    struct pair pair = connected();
    char data[64];
    check_fails("recv", recv(pair.ours, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    check_fails("recvfrom", recvfrom(pair.ours, data, sizeof data, MSG_DONTWAIT, NULL, NULL), EAGAIN);
    check_int("flag_is_not_kept", fcntl(pair.ours, F_GETFL) & O_NONBLOCK, 0);
    check_int("send", send(pair.ours, "x", 1, MSG_DONTWAIT), 1);
    int on = 1, off = 0;
    check_int("fionbio", ioctl(pair.ours, FIONBIO, &on), 0);
    check_int("fionbio_shows", fcntl(pair.ours, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    check_fails("fionbio_recv", recv(pair.ours, data, sizeof data, 0), EAGAIN);
    check_fails("fionbio_read", read(pair.ours, data, sizeof data), EAGAIN);
    check_int("fionbio_off", ioctl(pair.ours, FIONBIO, &off), 0);
    peer_later(40);
    peer_send(pair.theirs, "z", 1, 0);
    check_int("blocks_again", read(pair.ours, data, sizeof data), 1);
}

static void truncated(void)
{
    struct pair pair = connected();
    char data[64];
    /* MSG_TRUNC on a TCP socket discards (tcp(7)). */
    MUST(peer_send(pair.theirs, "discarded-kept", 14, 0));
    check_int("discards", recv(pair.ours, NULL, 10, MSG_TRUNC), 10);
    check_bytes("rest", data, recv(pair.ours, data, sizeof data, 0), "kept", 4);
    MUST(peer_send(pair.theirs, "abc", 3, 0));
    check_int("discards_what_there_is", recv(pair.ours, NULL, 100, MSG_TRUNC), 3);
    check_fails("nothing_left", recv(pair.ours, data, sizeof data, MSG_DONTWAIT), EAGAIN);
}

static void more(void)
{
    struct pair pair = connected();
    char data[64];
    check_int("more", send(pair.ours, "head", 4, MSG_MORE), 4);
    pause_ms(PAUSE_MS);
    check_fails("held_back", peer_recv(pair.theirs, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    check_int("rest", send(pair.ours, "body", 4, 0), 4);
    check_int("arrives", peer_poll(pair.theirs, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("together", data, peer_recv(pair.theirs, data, sizeof data, 0), "headbody", 8);
    MUST(send(pair.ours, "alone", 5, MSG_MORE));
    check_bytes("in_200_ms", data, peer_recv(pair.theirs, data, sizeof data, 0), "alone", 5);
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_CORK, 1));
    check_int("cork_is_read_back", int_option(pair.ours, IPPROTO_TCP, TCP_CORK), 1);
    MUST(send(pair.ours, "cork", 4, 0));
    pause_ms(PAUSE_MS);
    check_fails("corked", peer_recv(pair.theirs, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    MUST(set_int(pair.ours, IPPROTO_TCP, TCP_CORK, 0));
    check_bytes("uncorked", data, peer_recv(pair.theirs, data, sizeof data, 0), "cork", 4);
}

static void out_of_band(void)
{
    struct pair pair = connected();
    char data[64];
    int at_mark = -1;
    check_fails("none", recv(pair.ours, data, 1, MSG_OOB), EINVAL);
    MUST(peer_send(pair.theirs, "abc", 3, 0));
    MUST(peer_send(pair.theirs, "!", 1, MSG_OOB));
    check_int("pollpri", wait_for(pair.ours, POLLPRI, PATIENCE_MS), POLLPRI);
    check_bytes("byte", data, recv(pair.ours, data, 1, MSG_OOB), "!", 1);
    check_fails("only_once", recv(pair.ours, data, 1, MSG_OOB), EINVAL);
    check_int("not_at_mark", ioctl(pair.ours, SIOCATMARK, &at_mark) == 0 ? at_mark : -1, 0);
    check_bytes("before", data, recv(pair.ours, data, sizeof data, 0), "abc", 3);
    check_int("at_mark", ioctl(pair.ours, SIOCATMARK, &at_mark) == 0 ? at_mark : -1, 1);
    MUST(peer_send(pair.theirs, "def", 3, 0));
    check_bytes("after", data, recv(pair.ours, data, sizeof data, 0), "def", 3);
    MUST(set_int(pair.ours, SOL_SOCKET, SO_OOBINLINE, 1));
    MUST(peer_send(pair.theirs, "gh", 2, 0));
    MUST(peer_send(pair.theirs, "?", 1, MSG_OOB));
    MUST(wait_for(pair.ours, POLLPRI, PATIENCE_MS));
    check_fails("inline_oob", recv(pair.ours, data, 1, MSG_OOB), EINVAL);
    check_bytes("inline_before_mark", data, recv(pair.ours, data, sizeof data, 0), "gh", 2);
    check_bytes("inline_mark", data, recv(pair.ours, data, sizeof data, 0), "?", 1);
    check_int("send_oob", send(pair.ours, "u", 1, MSG_OOB), 1);
    check_int("peer_pollpri", peer_poll(pair.theirs, POLLPRI, PATIENCE_MS), POLLPRI);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 1, MSG_OOB), "u", 1);
}

static void counts(void)
{
    struct pair pair = connected();
    char data[64];
    int count = -1;
    check_int("fionread_empty", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 0);
    MUST(peer_send(pair.theirs, "123456789", 9, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("fionread", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 9);
    MUST(recv(pair.ours, data, 4, 0));
    check_int("fionread_rest", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 5);
    MUST(recv(pair.ours, data, 5, 0));
    MUST(send(pair.ours, "sent", 4, 0));
    char other[4];
    MUST(peer_recv(pair.theirs, other, 4, 0));
    for (int waited = 0; waited < 300 && (ioctl(pair.ours, TIOCOUTQ, &count) != 0 || count != 0); waited += 10)
        pause_ms(10);
    check_int("siocoutq_acknowledged", count, 0);
    MUST(peer_close(pair.theirs));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("fionread_end", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 0);
    check_fails("unknown_ioctl", ioctl(pair.ours, 0x12345678, &count), ENOTTY);
}

static void low_water(void)
{
    struct pair pair = connected();
    check_int("default", int_option(pair.ours, SOL_SOCKET, SO_RCVLOWAT), 1);
    check_int("set", set_int(pair.ours, SOL_SOCKET, SO_RCVLOWAT, 4), 0);
    check_int("get", int_option(pair.ours, SOL_SOCKET, SO_RCVLOWAT), 4);
    MUST(peer_send(pair.theirs, "ab", 2, 0));
    pause_ms(PAUSE_MS);
    check_int("not_readable", wait_for(pair.ours, POLLIN, 0), 0);
    MUST(peer_send(pair.theirs, "cd", 2, 0));
    check_int("readable", wait_for(pair.ours, POLLIN, PATIENCE_MS), POLLIN);
    char data[8];
    check_bytes("data", data, recv(pair.ours, data, sizeof data, 0), "abcd", 4);
    check_fails("sndlowat", set_int(pair.ours, SOL_SOCKET, SO_SNDLOWAT, 4), ENOPROTOOPT);
}

static void timeouts(void)
{
    struct pair pair = connected();
    char data[64];
    set_timeout(pair.ours, SO_RCVTIMEO, 50);
    check_fails("recv", recv(pair.ours, data, sizeof data, 0), EAGAIN);
    check_fails("read", read(pair.ours, data, sizeof data), EAGAIN);
    check_fails("peek", recv(pair.ours, data, sizeof data, MSG_PEEK), EAGAIN);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("data_comes_first", recv(pair.ours, data, sizeof data, 0), 1);
    set_timeout(pair.ours, SO_SNDTIMEO, 50);
    static char block[65536];
    long long sent = 0;
    for (int index = 0; index < 4096 && sent != -1; index++)
        sent = send(pair.ours, block, sizeof block, 0);
    check_fails("send", sent, EAGAIN);
    struct timeval wrong = {.tv_usec = 2000000};
    check_fails("wrong_time", setsockopt(pair.ours, SOL_SOCKET, SO_RCVTIMEO, &wrong, sizeof wrong), EDOM);
    check_fails("short_time", setsockopt(pair.ours, SOL_SOCKET, SO_RCVTIMEO, &wrong, 3), EINVAL);
}

static void bad_buffers(void)
{
    struct pair pair = connected();
    char data[4];
    MUST(peer_send(pair.theirs, "abcd", 4, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_fails("recv_null", recv(pair.ours, NULL, 4, 0), EFAULT);
    check_fails("send_null", send(pair.ours, NULL, 4, 0), EFAULT);
    check_bytes("data_is_still_there", data, recv(pair.ours, data, 4, 0), "abcd", 4);
}

static const struct test tests[] = {
    {"plain", plain, FAMILIES_AND_ENDS},
    {"peek", peek, FAMILIES_AND_ENDS},
    {"wait_all", wait_all, FAMILIES_AND_ENDS},
    {"dont_wait", dont_wait, FAMILIES_AND_ENDS},
    {"truncated", truncated, FAMILIES_AND_ENDS},
    {"more", more, FAMILIES_AND_ENDS},
    {"out_of_band", out_of_band, FAMILIES_AND_ENDS},
    {"counts", counts, FAMILIES_AND_ENDS},
    {"low_water", low_water, FAMILIES_AND_ENDS},
    {"timeouts", timeouts, FAMILIES_AND_ENDS},
    {"bad_buffers", bad_buffers, FAMILIES_AND_ENDS},
};

SUBJECT(stream, tests);
