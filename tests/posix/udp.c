/* UDP: addresses, lengths, errors. */
#include "fixture.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static struct sockaddr_storage theirs_of(struct pair pair)
{
    struct sockaddr_storage address;
    MUST(peer_name(pair.theirs, &address));
    return address;
}

static void peer_sends(struct pair pair, const char *text)
{
    struct sockaddr_storage address = name_of(pair.ours);
    MUST(peer_sendto(pair.theirs, text, strlen(text), &address, address_length()));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
}

static void unconnected(void)
{
    struct pair pair = datagrams(false);
    struct sockaddr_storage to = theirs_of(pair), from, own = name_of(pair.ours);
    socklen_t length = sizeof from;
    char data[64];
    check_int("sendto", sendto(pair.ours, "hello", 5, 0, (struct sockaddr *)&to, address_length()), 5);
    check_bytes("peer_has_it", data, peer_recvfrom(pair.theirs, data, sizeof data, &from), "hello", 5);
    check_true("from_us", same_address(&from, &own));
    peer_sends(pair, "answer");
    check_bytes("recvfrom", data, recvfrom(pair.ours, data, sizeof data, 0, (struct sockaddr *)&from, &length), "answer", 6);
    check_true("from_peer", same_address(&from, &to));
    check_int("from_length", length, address_length());
    check_fails("send_nowhere", send(pair.ours, "x", 1, 0), EDESTADDRREQ);
    check_fails("write_nowhere", write(pair.ours, "x", 1), EDESTADDRREQ);
    check_fails("short_address", sendto(pair.ours, "x", 1, 0, (struct sockaddr *)&to, 4), EINVAL);
    check_fails("getpeername", getpeername(pair.ours, (struct sockaddr *)&from, &length), ENOTCONN);
    check_fails("listen", listen(pair.ours, 1), EOPNOTSUPP);
    check_fails("accept", accept(pair.ours, NULL, NULL), EOPNOTSUPP);
    check_fails("none", recv(pair.ours, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    check_int("writable", wait_for(pair.ours, POLLIN | POLLOUT, 0), POLLOUT);
    check_fails("shutdown", shutdown(pair.ours, SHUT_RD), ENOTCONN);
    int fresh = (int)MUST(socket(family, SOCK_DGRAM, 0));
    check_int("sendto_unbound", sendto(fresh, "u", 1, 0, (struct sockaddr *)&to, address_length()), 1);
    check_true("port_given", our_port(fresh) != 0);
    check_int("peer_has_that", peer_recvfrom(pair.theirs, data, sizeof data, &from), 1);
    check_int("from_that_port", port_of(&from), our_port(fresh));
    set_timeout(fresh, SO_RCVTIMEO, 30);
    check_fails("timeout", recv(fresh, data, 1, 0), EAGAIN);
}

static void connected_one(void)
{
    struct pair pair = datagrams(true);
    struct sockaddr_storage to = theirs_of(pair), got, own = name_of(pair.ours);
    socklen_t length = sizeof got;
    char data[64];
    check_int("getpeername", getpeername(pair.ours, (struct sockaddr *)&got, &length), 0);
    check_true("peer_address", same_address(&got, &to));
    check_int("send", send(pair.ours, "c", 1, 0), 1);
    check_int("write", write(pair.ours, "w", 1), 1);
    check_bytes("peer_first", data, peer_recv(pair.theirs, data, sizeof data, 0), "c", 1);
    check_bytes("peer_second", data, peer_recv(pair.theirs, data, sizeof data, 0), "w", 1);
    /* Whoever is not the peer is not heard. */
    int stranger = (int)MUST(peer_socket(family, SOCK_DGRAM));
    MUST(peer_sendto(stranger, "stranger", 8, &own, address_length()));
    pause_ms(PAUSE_MS);
    check_fails("stranger", recv(pair.ours, data, sizeof data, MSG_DONTWAIT), EAGAIN);
    peer_sends(pair, "friend");
    check_bytes("friend", data, read(pair.ours, data, sizeof data), "friend", 6);
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    check_int("disconnect", connect(pair.ours, &none, sizeof none), 0);
    check_fails("getpeername_then", getpeername(pair.ours, (struct sockaddr *)&got, &length), ENOTCONN);
    check_fails("send_then", send(pair.ours, "x", 1, 0), EDESTADDRREQ);
    check_int("connect_again", connect(pair.ours, (struct sockaddr *)&to, address_length()), 0);
    check_int("send_again", send(pair.ours, "y", 1, 0), 1);
    check_bytes("peer_third", data, peer_recv(pair.theirs, data, sizeof data, 0), "y", 1);
    int fresh = (int)MUST(socket(family, SOCK_DGRAM, 0));
    check_int("connect_unbound", connect(fresh, (struct sockaddr *)&to, address_length()), 0);
    struct sockaddr_storage mine = name_of(fresh), expected = our_address(port_of(&mine));
    check_true("address_given", port_of(&mine) != 0 && same_address(&mine, &expected));
}

static void lengths(void)
{
    struct pair pair = datagrams(true);
    char data[70000];
    peer_sends(pair, "0123456789");
    check_bytes("cut", data, recv(pair.ours, data, 4, 0), "0123", 4);
    check_fails("rest_is_gone", recv(pair.ours, data, 64, MSG_DONTWAIT), EAGAIN);
    peer_sends(pair, "0123456789");
    check_int("trunc_tells_length", recv(pair.ours, data, 4, MSG_TRUNC), 10);
    peer_sends(pair, "0123456789");
    struct iovec part = {data, 4};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    check_int("recvmsg_cut", recvmsg(pair.ours, &message, 0), 4);
    check_int("recvmsg_flag", message.msg_flags & MSG_TRUNC, MSG_TRUNC);
    peer_sends(pair, "peeked");
    check_bytes("peek", data, recv(pair.ours, data, 64, MSG_PEEK), "peeked", 6);
    check_int("peek_length", recv(pair.ours, data, 1, MSG_PEEK | MSG_TRUNC), 6);
    check_bytes("peek_leaves", data, recv(pair.ours, data, 64, 0), "peeked", 6);
    check_int("send_empty", send(pair.ours, "", 0, 0), 0);
    check_int("peer_has_empty", peer_recv(pair.theirs, data, 64, 0), 0);
    peer_sends(pair, "");
    int count = -1;
    check_int("empty_is_readable", wait_for(pair.ours, POLLIN, 0), POLLIN);
    check_int("empty_fionread", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 0);
    check_int("recv_empty", recv(pair.ours, data, 64, MSG_DONTWAIT), 0);
    check_fails("recv_then", recv(pair.ours, data, 64, MSG_DONTWAIT), EAGAIN);
    peer_sends(pair, "first");
    peer_sends(pair, "second");
    check_int("fionread_is_of_the_first", ioctl(pair.ours, FIONREAD, &count) == 0 ? count : -1, 5);
    check_int("wait_all_is_one", recv(pair.ours, data, 64, MSG_WAITALL), 5);
    check_int("recv_no_room", recv(pair.ours, data, 0, 0), 0);
    check_fails("too_long", send(pair.ours, data, sizeof data, 0), EMSGSIZE);
    pattern(51, 0, data, 8000);
    check_int("fragments", send(pair.ours, data, 8000, 0), 8000);
    static char got[8000];
    long long received = peer_recv(pair.theirs, got, sizeof got, 0);
    check_bytes("peer_has_fragments", got, received, data, 8000);
    MUST(set_int(pair.ours, SOL_SOCKET, SO_RCVBUF, 200000));
    struct sockaddr_storage own = name_of(pair.ours);
    MUST(peer_sendto(pair.theirs, data, 8000, &own, address_length()));
    received = recv(pair.ours, got, sizeof got, 0);
    check_bytes("fragments_arrive", got, received, data, 8000);
    check_int("largest_segment", send(pair.ours, data, family == AF_INET ? 1472 : 1452, 0), family == AF_INET ? 1472 : 1452);
    check_int("peer_has_largest", peer_recv(pair.theirs, got, sizeof got, 0), family == AF_INET ? 1472 : 1452);
}

/* What came before a change of the peer, of the descriptor's number, or of the process stays to be received. */
static void unread(void)
{
    struct pair pair = datagrams(false);
    struct sockaddr_storage elsewhere = peer_address(9), to = theirs_of(pair);
    char data[16];
    peer_sends(pair, "before");
    check_int("connect", connect(pair.ours, (struct sockaddr *)&elsewhere, address_length()), 0);
    check_bytes("stays", data, recv(pair.ours, data, sizeof data, MSG_DONTWAIT), "before", 6);
    MUST(connect(pair.ours, (struct sockaddr *)&to, address_length()));
    peer_sends(pair, "one");
    peer_sends(pair, "two");
    check_int("level", wait_for(pair.ours, POLLIN, 0), POLLIN);
    int copy = (int)MUST(dup(pair.ours));
    check_bytes("by_copy", data, recv(copy, data, sizeof data, MSG_DONTWAIT), "one", 3);
    check_int("still", wait_for(pair.ours, POLLIN, 0), POLLIN);
    check_int("close", close(pair.ours), 0);
    check_bytes("after_close", data, recv(copy, data, sizeof data, MSG_DONTWAIT), "two", 3);
    pair.ours = copy;
    peer_sends(pair, "three");
    pid_t child = (pid_t)MUST(fork());
    if (child == 0)
        _exit(0);
    check_int("child", join_process(child), 0);
    check_bytes("after_fork", data, recv(copy, data, sizeof data, MSG_DONTWAIT), "three", 5);
    peer_sends(pair, "four");
    check_bytes("and_on", data, recv(copy, data, sizeof data, MSG_DONTWAIT), "four", 4);
    check_fails("no_more", recv(copy, data, sizeof data, MSG_DONTWAIT), EAGAIN);
}

#define ROUNDS 80

/* What is looked at is what is received next, wherever the datagrams come from. */
static void looked_at(void)
{
    struct pair pair = datagrams(false);
    struct sockaddr_storage address = name_of(pair.ours);
    set_timeout(pair.ours, SO_RCVTIMEO, PATIENCE_MS);
    int near = (int)MUST(socket(family, SOCK_DGRAM, 0)), lengths = 0, looks = 0, others = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char seen[16], data[16];
        int length = -1;
        MUST(sendto(near, "n", 1, 0, (struct sockaddr *)&address, address_length()));
        peer_sends(pair, "far");
        pause_ms(1);
        if (round % 2)
            MUST(ioctl(pair.ours, FIONREAD, &length));
        ssize_t peeked = recv(pair.ours, seen, sizeof seen, MSG_PEEK | MSG_DONTWAIT);
        if (round % 2 == 0)
            MUST(ioctl(pair.ours, FIONREAD, &length));
        ssize_t received = recv(pair.ours, data, sizeof data, MSG_DONTWAIT);
        lengths += length == received;
        looks += peeked == received && memcmp(seen, data, (size_t)received) == 0;
        others += recv(pair.ours, data, sizeof data, 0) == 4 - received;
    }
    check_int("lengths", lengths, ROUNDS);
    check_int("looks", looks, ROUNDS);
    check_int("the_others", others, ROUNDS);
}

/* A socket of IPv6 that has IPv4, too. */
static void both_families(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, from, to = {.sin6_family = AF_INET6};
    struct sockaddr_storage own = our_address(0), theirs_name;
    socklen_t length = sizeof from;
    int ours = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0)), theirs = (int)MUST(peer_socket(AF_INET, SOCK_DGRAM));
    MUST(set_int(ours, IPPROTO_IPV6, IPV6_V6ONLY, 0));
    MUST(bind(ours, (struct sockaddr *)&any, sizeof any));
    struct sockaddr_storage address = peer_address(0);
    MUST(peer_bind(theirs, &address, address_length()));
    MUST(peer_name(theirs, &theirs_name));
    struct sockaddr_in *own_4 = (struct sockaddr_in *)&own, *theirs_4 = (struct sockaddr_in *)&theirs_name;
    own_4->sin_port = htons(our_port(ours));
    char data[16];
    MUST(peer_sendto(theirs, "four", 4, &own, sizeof *own_4));
    check_int("readable", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("data", data, recvfrom(ours, data, sizeof data, 0, (struct sockaddr *)&from, &length), "four", 4);
    check_int("length", length, sizeof from);
    check_true("mapped", IN6_IS_ADDR_V4MAPPED(&from.sin6_addr) && from.sin6_port == theirs_4->sin_port &&
                             memcmp(from.sin6_addr.s6_addr + 12, &theirs_4->sin_addr, 4) == 0);
    to = from;
    check_int("answer", sendto(ours, "back", 4, 0, (struct sockaddr *)&to, sizeof to), 4);
    check_bytes("peer_has_it", data, peer_recv(theirs, data, sizeof data, 0), "back", 4);
    check_int("connect", connect(ours, (struct sockaddr *)&to, sizeof to), 0);
    check_int("send", send(ours, "on", 2, 0), 2);
    check_bytes("peer_has_that", data, peer_recv(theirs, data, sizeof data, 0), "on", 2);
    MUST(peer_sendto(theirs, "more", 4, &own, sizeof *own_4));
    check_int("readable_again", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("more", data, recv(ours, data, sizeof data, 0), "more", 4);
}

/* Several parts of memory are one datagram. */
static void parts(void)
{
    struct pair pair = datagrams(true);
    char data[3000], got[3000], first[3], second[5], third[16];
    pattern(52, 0, data, sizeof data);
    struct iovec out[3] = {{data, 700}, {NULL, 0}, {data + 700, 300}};
    check_int("writev", writev(pair.ours, out, 3), 1000);
    check_bytes("peer_has_it", got, peer_recv(pair.theirs, got, sizeof got, 0), data, 1000);
    struct iovec longer[2] = {{data, 1500}, {data + 1500, 1500}};
    check_int("longer", writev(pair.ours, longer, 2), 3000);
    check_bytes("peer_has_longer", got, peer_recv(pair.theirs, got, sizeof got, 0), data, 3000);
    peer_sends(pair, "onetwothree");
    struct iovec in[3] = {{first, 3}, {second, 5}, {third, 16}};
    check_int("readv", readv(pair.ours, in, 3), 11);
    check_true("spread", memcmp(first, "one", 3) == 0 && memcmp(second, "twoth", 5) == 0 && memcmp(third, "ree", 3) == 0);
    check_int("read_nothing", read(pair.ours, data, 0), 0);
    peer_sends(pair, "kept");
    check_int("read_takes_none", read(pair.ours, data, 0), 0);
    check_int("kept", recv(pair.ours, data, sizeof data, MSG_DONTWAIT), 4);
    check_int("write_empty", write(pair.ours, data, 0), 0);
    check_int("peer_has_empty", peer_recv(pair.theirs, got, sizeof got, 0), 0);
}

static void corked(void)
{
    struct pair pair = datagrams(true);
    char data[64];
    check_int("more", send(pair.ours, "one-", 4, MSG_MORE), 4);
    check_int("rest", send(pair.ours, "datagram", 8, 0), 8);
    check_bytes("together", data, peer_recv(pair.theirs, data, sizeof data, 0), "one-datagram", 12);
}

static void refused(void)
{
    struct sockaddr_storage address = peer_address(1);
    int ours = (int)MUST(socket(family, SOCK_DGRAM, 0));
    char data[8];
    MUST(connect(ours, (struct sockaddr *)&address, address_length()));
    check_int("send", send(ours, "x", 1, 0), 1);
    check_int("error_event", wait_for(ours, POLLIN, PATIENCE_MS) & POLLERR, POLLERR);
    check_fails("recv", recv(ours, data, sizeof data, 0), ECONNREFUSED);
    check_int("once", wait_for(ours, POLLIN, 0), 0);
    MUST(send(ours, "x", 1, 0));
    MUST(wait_for(ours, POLLIN, PATIENCE_MS));
    check_int("so_error", int_option(ours, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    MUST(send(ours, "x", 1, 0));
    MUST(wait_for(ours, POLLIN, PATIENCE_MS));
    check_fails("next_send", send(ours, "y", 1, 0), ECONNREFUSED);
    MUST(send(ours, "x", 1, 0));
    pause_ms(PAUSE_MS);
    check_fails("send_without_a_look", send(ours, "y", 1, 0), ECONNREFUSED);
    int waiting = (int)MUST(socket(family, SOCK_DGRAM, 0));
    MUST(connect(waiting, (struct sockaddr *)&address, address_length()));
    MUST(send(waiting, "x", 1, 0));
    check_fails("recv_waiting", recv(waiting, data, sizeof data, 0), ECONNREFUSED);
    int unconnected_one = (int)MUST(socket(family, SOCK_DGRAM, 0));
    MUST(sendto(unconnected_one, "x", 1, 0, (struct sockaddr *)&address, address_length()));
    pause_ms(PAUSE_MS);
    check_fails("unconnected_is_not_told", recv(unconnected_one, data, sizeof data, MSG_DONTWAIT), EAGAIN);
}

static void broadcast(void)
{
    struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_BROADCAST)};
    int ours = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
    check_int("off_at_first", int_option(ours, SOL_SOCKET, SO_BROADCAST), 0);
    struct sockaddr_storage mine = our_address(0);
    MUST(bind(ours, (struct sockaddr *)&mine, address_length()));
    long long result = sendto(ours, "x", 1, 0, (struct sockaddr *)&all, sizeof all);
    check_true("refused", result == -1 && (errno == EACCES || errno == ENETUNREACH));
    check_int("set", set_int(ours, SOL_SOCKET, SO_BROADCAST, 1), 0);
    check_int("get", int_option(ours, SOL_SOCKET, SO_BROADCAST), 1);
}

static void shut(void)
{
    struct pair pair = datagrams(true);
    char data[16];
    check_int("write", shutdown(pair.ours, SHUT_WR), 0);
    check_fails("send", send(pair.ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    peer_sends(pair, "in");
    check_int("still_receives", recv(pair.ours, data, sizeof data, 0), 2);
    check_int("read", shutdown(pair.ours, SHUT_RD), 0);
    check_int("recv", recv(pair.ours, data, sizeof data, 0), 0);
}

static void ports(void)
{
    struct sockaddr_storage address = our_address(0);
    int one = (int)MUST(socket(family, SOCK_DGRAM, 0)), two = (int)MUST(socket(family, SOCK_DGRAM, 0));
    check_int("bind", bind(one, (struct sockaddr *)&address, address_length()), 0);
    address = name_of(one);
    check_fails("taken", bind(two, (struct sockaddr *)&address, address_length()), EADDRINUSE);
    check_fails("bind_twice", bind(one, (struct sockaddr *)&address, address_length()), EINVAL);
    check_int("close", close(one), 0);
    check_int("free_again", bind(two, (struct sockaddr *)&address, address_length()), 0);
    int three = (int)MUST(socket(family, SOCK_DGRAM, 0)), four = (int)MUST(socket(family, SOCK_DGRAM, 0));
    MUST(set_int(three, SOL_SOCKET, SO_REUSEADDR, 1));
    MUST(set_int(four, SOL_SOCKET, SO_REUSEADDR, 1));
    address = our_address(0);
    MUST(bind(three, (struct sockaddr *)&address, address_length()));
    address = name_of(three);
    check_int("reuseaddr", bind(four, (struct sockaddr *)&address, address_length()), 0);
}

static void many(void)
{
    struct pair pair = datagrams(true);
    char out[32][4], in[32][8];
    struct mmsghdr all[32];
    struct iovec parts[32];
    for (int index = 0; index < 32; index++) {
        snprintf(out[index], sizeof out[index], "%d", index);
        parts[index] = (struct iovec){out[index], strlen(out[index])};
        all[index] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[index], .msg_iovlen = 1}};
    }
    check_int("sendmmsg", sendmmsg(pair.ours, all, 32, 0), 32);
    int whole = 0;
    for (int index = 0; index < 32; index++) {
        char data[8] = "";
        MUST(peer_recv(pair.theirs, data, sizeof data, 0));
        whole += strcmp(data, out[index]) == 0;
    }
    check_int("peer_has_them_in_order", whole, 32);
    for (int index = 0; index < 8; index++)
        peer_sends(pair, out[index + 10]);
    for (int index = 0; index < 32; index++) {
        parts[index] = (struct iovec){in[index], sizeof in[index]};
        all[index] = (struct mmsghdr){.msg_hdr = {.msg_iov = &parts[index], .msg_iovlen = 1}};
    }
    check_int("recvmmsg", recvmmsg(pair.ours, all, 32, MSG_DONTWAIT, NULL), 8);
    check_bytes("last", in[7], all[7].msg_len, "17", 2);
    peer_sends(pair, "one");
    check_int("waitforone", recvmmsg(pair.ours, all, 32, MSG_WAITFORONE, NULL), 1);
    struct timespec brief = {.tv_nsec = 30000000};
    peer_sends(pair, "two");
    peer_sends(pair, "three");
    check_int("exact_count", recvmmsg(pair.ours, all, 2, 0, &brief), 2);
    check_true("time_left", brief.tv_sec == 0 && brief.tv_nsec <= 30000000);
    check_fails("none", recvmmsg(pair.ours, all, 2, MSG_DONTWAIT, NULL), EAGAIN);
    struct timespec bad = {.tv_nsec = 1000000000};
    check_fails("bad_timeout", recvmmsg(pair.ours, all, 2, 0, &bad), EINVAL);
    check_int("no_messages", recvmmsg(pair.ours, all, 0, MSG_DONTWAIT, NULL), 0);
    peer_sends(pair, "kept");
    parts[0] = (struct iovec){NULL, 4};
    check_fails("bad_buffer", recvmmsg(pair.ours, all, 1, MSG_DONTWAIT, NULL), EFAULT);
}

static void waiting(void)
{
    struct pair pair = datagrams(false);
    struct sockaddr_storage own = name_of(pair.ours);
    char data[16];
    struct epoll_event event = {.events = EPOLLIN};
    int set = (int)MUST(epoll_create1(0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pair.ours, &event));
    peer_later(40);
    peer_sendto(pair.theirs, "a", 1, &own, address_length());
    check_int("recv_waits", recv(pair.ours, data, sizeof data, 0), 1);
    peer_later(40);
    peer_sendto(pair.theirs, "b", 1, &own, address_length());
    check_int("poll_waits", wait_for(pair.ours, POLLIN, -1), POLLIN);
    MUST(recv(pair.ours, data, sizeof data, 0));
    peer_later(40);
    peer_sendto(pair.theirs, "c", 1, &own, address_length());
    check_int("epoll_waits", epoll_wait(set, &event, 1, -1), 1);
    check_int("epoll_event", event.events, EPOLLIN);
    MUST(recv(pair.ours, data, sizeof data, 0));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0)
        _exit(recv(pair.ours, data, sizeof data, 0) == 1 ? 0 : 1);
    pause_ms(PAUSE_MS);
    MUST(peer_sendto(pair.theirs, "d", 1, &own, address_length()));
    check_int("child_receives", join_process(child), 0);
}

static const struct test tests[] = {
    {"looked_at", looked_at, FAMILIES},
    {"unconnected", unconnected, FAMILIES}, {"connected", connected_one, FAMILIES}, {"lengths", lengths, FAMILIES},
    {"corked", corked, FAMILIES},           {"refused", refused, FAMILIES},         {"broadcast", broadcast, ONCE},
    {"shut", shut, FAMILIES},               {"ports", ports, FAMILIES},             {"many", many, FAMILIES},
    {"waiting", waiting, FAMILIES},       {"unread", unread, FAMILIES},           {"both_families", both_families, ONCE},
    {"parts", parts, FAMILIES},
};

SUBJECT(udp, tests);
