/* bind, listen, accept. */
#include "fixture.h"

#include <linux/filter.h>

static int bound(in_port_t port, int reuse)
{
    struct sockaddr_storage address = our_address(port);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    if (reuse)
        MUST(set_int(ours, SOL_SOCKET, reuse, 1));
    if (bind(ours, (struct sockaddr *)&address, address_length()) == -1)
        return -1;
    return ours;
}

static void ports(void)
{
    int first = bound(0, 0);
    check_works("bind", first);
    in_port_t port = our_port(first);
    check_fails("bind_taken", bound(port, 0), EADDRINUSE);
    struct sockaddr_storage address = our_address(0);
    check_fails("bind_twice", bind(first, (struct sockaddr *)&address, address_length()), EINVAL);
    check_int("listen", listen(first, 5), 0);
    check_int("listen_again", listen(first, 7), 0);
    check_int("acceptconn", int_option(first, SOL_SOCKET, SO_ACCEPTCONN), 1);
    check_fails("bind_beside_listener", bound(port, SO_REUSEADDR), EADDRINUSE);
    check_int("close", close(first), 0);
    int second = bound(port, 0);
    check_works("bind_free_again", second);
    check_int("listen_again_on_port", listen(second, 5), 0);
    check_int("close_second", close(second), 0);
    int one = bound(0, SO_REUSEADDR);
    check_works("reuseaddr_one", one);
    int two = bound(our_port(one), SO_REUSEADDR);
    check_works("reuseaddr_two", two);
    check_int("reuseaddr_listen", listen(one, 1), 0);
    check_fails("reuseaddr_listen_beside", listen(two, 1), EADDRINUSE);
}

static void reuse_port(void)
{
    int one = bound(0, SO_REUSEPORT);
    in_port_t port = our_port(one);
    int two = bound(port, SO_REUSEPORT);
    check_works("second", two);
    check_fails("without_option", bound(port, 0), EADDRINUSE);
    check_int("listen_one", listen(one, 16), 0);
    check_int("listen_two", listen(two, 16), 0);
    set_nonblocking(one, true);
    set_nonblocking(two, true);
    struct sockaddr_storage address = our_address(port);
    int accepted = 0;
    for (int index = 0; index < 8; index++) {
        int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
        MUST(peer_connect(theirs, &address, address_length()));
    }
    pause_ms(PAUSE_MS);
    while (accept(one, NULL, NULL) != -1 || accept(two, NULL, NULL) != -1)
        accepted++;
    check_int("accepted", accepted, 8);
}

static void wildcard(void)
{
    struct sockaddr_storage any = our_address(0);
    memset((char *)&any + 4, 0, sizeof any - 4);
    int listener = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_int("bind_any", bind(listener, (struct sockaddr *)&any, address_length()), 0);
    check_int("listen", listen(listener, 4), 0);
    struct sockaddr_storage name = name_of(listener), address = our_address(port_of(&name));
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    check_int("connect", peer_connect(theirs, &address, address_length()), 0);
    int ours = (int)MUST(accept(listener, NULL, NULL));
    name = name_of(ours);
    check_true("accepted_has_address", same_address(&name, &address));
    int unbound = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_int("listen_unbound", listen(unbound, 4), 0);
    check_true("listen_unbound_port", our_port(unbound) != 0);
}

static void mapped(void)
{
    /* An IPv6 socket that serves IPv4, too (RFC 4291, 2.5.5.2). */
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    int listener = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));
    check_int("v6only_default", int_option(listener, IPPROTO_IPV6, IPV6_V6ONLY), 0);
    MUST(bind(listener, (struct sockaddr *)&any, sizeof any));
    MUST(listen(listener, 4));
    struct sockaddr_storage address = our_address(our_port(listener));
    int theirs = (int)MUST(peer_socket(AF_INET, SOCK_STREAM));
    check_int("connect_by_ipv4", peer_connect(theirs, &address, address_length()), 0);
    struct sockaddr_in6 from;
    socklen_t length = sizeof from;
    int ours = accept(listener, (struct sockaddr *)&from, &length);
    check_works("accept", ours);
    check_int("family", from.sin6_family, AF_INET6);
    check_true("mapped", IN6_IS_ADDR_V4MAPPED(&from.sin6_addr));
    MUST(peer_send(theirs, "4", 1, 0));
    char byte;
    check_bytes("data", &byte, recv(ours, &byte, 1, 0), "4", 1);
    int only = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));
    check_int("v6only_set", set_int(only, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
    check_int("v6only_get", int_option(only, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    MUST(bind(only, (struct sockaddr *)&any, sizeof any));
    MUST(listen(only, 4));
    address = our_address(our_port(only));
    theirs = (int)MUST(peer_socket(AF_INET, SOCK_STREAM));
    check_fails("v6only_refuses", peer_connect(theirs, &address, address_length()), ECONNREFUSED);
}

static void mapped_connect(void)
{
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&to.sin6_addr.s6_addr[12], &((struct sockaddr_in *)&address)->sin_addr, 4);
    int ours = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));
    check_int("connect", connect(ours, (struct sockaddr *)&to, sizeof to), 0);
    int theirs = (int)MUST(peer_accept(listener));
    struct sockaddr_in6 got;
    socklen_t length = sizeof got;
    check_int("getpeername", getpeername(ours, (struct sockaddr *)&got, &length), 0);
    check_int("family", got.sin6_family, AF_INET6);
    check_bytes("address", &got.sin6_addr, 16, &to.sin6_addr, 16);
    length = sizeof got;
    MUST(getsockname(ours, (struct sockaddr *)&got, &length));
    check_true("own_is_mapped", IN6_IS_ADDR_V4MAPPED(&got.sin6_addr));
    MUST(send(ours, "m", 1, 0));
    char byte;
    check_bytes("data", &byte, peer_recv(theirs, &byte, 1, 0), "m", 1);
}

static int connecting_peer(int listener)
{
    struct sockaddr_storage address = name_of(listener);
    MUST(wait_for(listener, POLLIN, 0));
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(theirs, &address, address_length()));
    return theirs;
}

static void accepting(void)
{
    int listener = our_listener(8);
    int theirs = connecting_peer(listener);
    struct sockaddr_storage from, expected;
    socklen_t length = sizeof from;
    int ours = accept(listener, (struct sockaddr *)&from, &length);
    check_works("accept", ours);
    check_int("length", length, address_length());
    MUST(peer_name(theirs, &expected));
    check_true("address", same_address(&from, &expected));
    length = sizeof from;
    check_int("getpeername", getpeername(ours, (struct sockaddr *)&from, &length), 0);
    check_true("getpeername_address", same_address(&from, &expected));
    check_int("port_is_listeners", our_port(ours), our_port(listener));
    theirs = connecting_peer(listener);
    length = 2;
    check_works("short", accept(listener, (struct sockaddr *)&from, &length));
    check_int("short_length", length, address_length());
    theirs = connecting_peer(listener);
    check_works("no_address", accept(listener, NULL, NULL));
    check_fails("send_on_listener", send(listener, "x", 1, MSG_NOSIGNAL), EPIPE);
    char byte;
    check_fails("recv_on_listener", recv(listener, &byte, 1, 0), ENOTCONN);
    check_fails("connect_on_listener", connect(listener, (struct sockaddr *)&expected, address_length()), EISCONN);
    length = sizeof from;
    check_fails("getpeername_on_listener", getpeername(listener, (struct sockaddr *)&from, &length), ENOTCONN);
}

static void accept_flags(void)
{
    int listener = our_listener(8);
    connecting_peer(listener);
    int ours = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    check_int("nonblock", fcntl(ours, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    check_int("cloexec", fcntl(ours, F_GETFD), FD_CLOEXEC);
    check_fails("bad_flags", accept4(listener, NULL, NULL, 0x40000000), EINVAL);
    set_nonblocking(listener, true);
    check_fails("none", accept(listener, NULL, NULL), EAGAIN);
    check_fails("none_accept4", accept4(listener, NULL, NULL, SOCK_CLOEXEC), EAGAIN);
    connecting_peer(listener);
    check_int("readable", wait_for(listener, POLLIN, PATIENCE_MS), POLLIN);
    ours = accept(listener, NULL, NULL);
    check_int("nonblock_not_inherited", fcntl(ours, F_GETFL) & O_NONBLOCK, 0);
    check_int("cloexec_not_inherited", fcntl(ours, F_GETFD), 0);
    check_int("not_writable", wait_for(listener, POLLOUT, 0), 0);
}

static void inherited_options(void)
{
    int listener = our_listener(8);
    struct timeval timeout = {.tv_usec = 80000}, got;
    struct linger linger = {.l_onoff = 1, .l_linger = 3}, got_linger;
    socklen_t length = sizeof got;
    MUST(set_int(listener, SOL_SOCKET, SO_KEEPALIVE, 1));
    MUST(set_int(listener, IPPROTO_TCP, TCP_NODELAY, 1));
    MUST(set_int(listener, IPPROTO_TCP, TCP_KEEPIDLE, 77));
    MUST(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    MUST(setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    connecting_peer(listener);
    int ours = (int)MUST(accept(listener, NULL, NULL));
    check_int("keepalive", int_option(ours, SOL_SOCKET, SO_KEEPALIVE), 1);
    check_int("nodelay", int_option(ours, IPPROTO_TCP, TCP_NODELAY), 1);
    check_int("keepidle", int_option(ours, IPPROTO_TCP, TCP_KEEPIDLE), 77);
    MUST(getsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &got, &length));
    check_int("rcvtimeo", got.tv_usec, 80000);
    length = sizeof got_linger;
    MUST(getsockopt(ours, SOL_SOCKET, SO_LINGER, &got_linger, &length));
    check_int("linger", got_linger.l_onoff * 100 + got_linger.l_linger, 103);
    char byte;
    check_fails("timeout_works", recv(ours, &byte, 1, 0), EAGAIN);
    set_timeout(listener, SO_RCVTIMEO, 40);
    check_fails("accept_timeout", accept(listener, NULL, NULL), EAGAIN);
}

static const struct {
    const char *name;
    int level, option, value;
} handed_down[] = {
    {"broadcast", SOL_SOCKET, SO_BROADCAST, 1},
    {"dontroute", SOL_SOCKET, SO_DONTROUTE, 1},
    {"oobinline", SOL_SOCKET, SO_OOBINLINE, 1},
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR, 1},
    {"reuseport", SOL_SOCKET, SO_REUSEPORT, 1},
    {"rcvlowat", SOL_SOCKET, SO_RCVLOWAT, 9},
    {"sndbuf", SOL_SOCKET, SO_SNDBUF, 20000},
    {"rcvbuf", SOL_SOCKET, SO_RCVBUF, 20000},
    {"timestamp", SOL_SOCKET, SO_TIMESTAMP, 1},
    {"cork", IPPROTO_TCP, TCP_CORK, 1},
    {"keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, 5},
    {"keepcnt", IPPROTO_TCP, TCP_KEEPCNT, 4},
    {"syncnt", IPPROTO_TCP, TCP_SYNCNT, 3},
    {"linger2", IPPROTO_TCP, TCP_LINGER2, 20},
    {"user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT, 9000},
    {"notsent_lowat", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384},
};

static const int handed_down_ip[2][4][2] = {
    {{IP_TOS, 0x10}, {IP_TTL, 33}, {IP_RECVTOS, 1}, {IP_MTU_DISCOVER, IP_PMTUDISC_DO}},
    {{IPV6_TCLASS, 0x20}, {IPV6_UNICAST_HOPS, 44}, {IPV6_RECVTCLASS, 1}, {IPV6_RECVHOPLIMIT, 1}},
};

/* Options of the listener, set when it listens already, which what is accepted then has, too. */
static void all_inherited_options(void)
{
    int listener = our_listener(8), is_six = family == AF_INET6, level = is_six ? IPPROTO_IPV6 : IPPROTO_IP;
    for (size_t index = 0; index < sizeof handed_down / sizeof *handed_down; index++)
        MUST(set_int(listener, handed_down[index].level, handed_down[index].option, handed_down[index].value));
    for (int index = 0; index < 4; index++)
        MUST(set_int(listener, level, handed_down_ip[is_six][index][0], handed_down_ip[is_six][index][1]));
    MUST(setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    connecting_peer(listener);
    int ours = (int)MUST(accept(listener, NULL, NULL));
    for (size_t index = 0; index < sizeof handed_down / sizeof *handed_down; index++)
        check_int(handed_down[index].name, int_option(ours, handed_down[index].level, handed_down[index].option),
                  int_option(listener, handed_down[index].level, handed_down[index].option));
    for (int index = 0; index < 4; index++) {
        char name[32];
        snprintf(name, sizeof name, "ip_%d", index);
        check_int(name, int_option(ours, level, handed_down_ip[is_six][index][0]), handed_down_ip[is_six][index][1]);
    }
    char congestion[16] = "";
    socklen_t length = sizeof congestion;
    MUST(getsockopt(ours, IPPROTO_TCP, TCP_CONGESTION, congestion, &length));
    check_bytes("congestion", congestion, (long long)strnlen(congestion, sizeof congestion), "reno", 4);
}

static void waiting(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    peer_later(50);
    long long begun = peer_connect(theirs, &address, address_length());
    check_works("accept_waits", accept(listener, NULL, NULL));
    check_int("peer_connected", peer_join(begun, NULL, 0), 0);
    for (int index = 0; index < 4; index++)
        connecting_peer(listener);
    int accepted = 0;
    for (int index = 0; index < 4; index++)
        accepted += accept(listener, NULL, NULL) != -1;
    check_int("queue_in_order", accepted, 4);
}

static void gone_before_accept(void)
{
    int listener = our_listener(8);
    int theirs = connecting_peer(listener);
    MUST(peer_send(theirs, "last words", 10, 0));
    MUST(peer_close(theirs));
    pause_ms(PAUSE_MS);
    int ours = accept(listener, NULL, NULL);
    check_works("closed", ours);
    char data[16];
    check_bytes("closed_data", data, recv(ours, data, sizeof data, 0), "last words", 10);
    check_int("closed_end", recv(ours, data, sizeof data, 0), 0);
    theirs = connecting_peer(listener);
    MUST(peer_abort(theirs));
    pause_ms(PAUSE_MS);
    ours = accept(listener, NULL, NULL);
    check_works("reset", ours);
    check_fails("reset_recv", recv(ours, data, sizeof data, 0), ECONNRESET);
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    check_fails("reset_getpeername", getpeername(ours, (struct sockaddr *)&from, &length), ENOTCONN);
}

static void closed_listener(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    int accepted_one = connecting_peer(listener);
    int waiting_one = connecting_peer(listener);
    int first = (int)MUST(accept(listener, NULL, NULL));
    check_int("close", close(listener), 0);
    check_fails("unaccepted_is_reset", peer_recv(waiting_one, NULL, 1, 0), ECONNRESET);
    check_int("accepted_lives", send(first, "x", 1, 0), 1);
    char byte;
    check_int("accepted_arrives", peer_recv(accepted_one, &byte, 1, 0), 1);
    int late = (int)MUST(peer_socket(family, SOCK_STREAM));
    check_fails("later_is_refused", peer_connect(late, &address, address_length()), ECONNREFUSED);
    pause_ms(1500);
    check_int("accepted_lives_on", send(first, "y", 1, 0), 1);
    check_int("accepted_arrives_then", peer_recv(accepted_one, &byte, 1, 0), 1);
}

static void shut_listener(void)
{
    int listener = our_listener(8);
    check_int("shutdown", shutdown(listener, SHUT_RDWR), 0);
    check_fails("accept", accept(listener, NULL, NULL), EINVAL);
    check_int("acceptconn", int_option(listener, SOL_SOCKET, SO_ACCEPTCONN), 0);
    check_int("listens_again", listen(listener, 4), 0);
    connecting_peer(listener);
    check_works("accepts_again", accept(listener, NULL, NULL));
}

static void overflow(void)
{
    int listener = our_listener(1);
    struct sockaddr_storage address = name_of(listener);
    int peers[6], arrived = 0;
    MUST(wait_for(listener, POLLIN, 0));
    for (int index = 0; index < 6; index++) {
        peers[index] = (int)MUST(peer_socket(family, SOCK_STREAM | SOCK_NONBLOCK));
        peer_connect(peers[index], &address, address_length());
        pause_ms(PAUSE_MS);
    }
    for (int index = 0; index < 6; index++)
        arrived += (peer_poll(peers[index], POLLOUT, 0) & POLLOUT) != 0;
    check_int("backlog_and_one", arrived, 2);
    set_nonblocking(listener, true);
    check_works("accept_first", accept(listener, NULL, NULL));
    check_works("accept_second", accept(listener, NULL, NULL));
    /* The others send their SYN again after a second. */
    check_int("more_come", wait_for(listener, POLLIN, PATIENCE_MS), POLLIN);
    check_works("accept_third", accept(listener, NULL, NULL));
}

/* Peers are answered before the program has waited for any. */
static void not_waited_for(void)
{
    int listener = our_listener(8), theirs = (int)MUST(peer_socket(family, SOCK_STREAM | SOCK_NONBLOCK));
    struct sockaddr_storage address = name_of(listener);
    peer_connect(theirs, &address, address_length());
    check_int("at_once", peer_poll(theirs, POLLOUT, 500), POLLOUT);
    check_int("in_the_end", peer_poll(theirs, POLLOUT, PATIENCE_MS), POLLOUT);
    check_works("accept", accept(listener, NULL, NULL));
}

static int established_of(int listener, int count)
{
    struct sockaddr_storage address = name_of(listener);
    int arrived = 0;
    MUST(wait_for(listener, POLLIN, 0));
    for (int index = 0; index < count; index++) {
        int theirs = (int)MUST(peer_socket(family, SOCK_STREAM | SOCK_NONBLOCK));
        peer_connect(theirs, &address, address_length());
        pause_ms(PAUSE_MS);
        if (peer_poll(theirs, POLLOUT, 0) & POLLOUT)
            arrived++;
        else
            MUST(peer_close(theirs)); /* Or it would send its SYN again. */
    }
    return arrived;
}

/* A further listen(2) changes the backlog; with none one connection may wait. */
static void backlog_changed(void)
{
    int listener = our_listener(0);
    check_int("none_and_one", established_of(listener, 3), 1);
    check_int("raised", listen(listener, 3), 0);
    check_int("three_and_one", established_of(listener, 5), 3);
    check_int("lowered", listen(listener, 1), 0);
    check_int("nothing_more", established_of(listener, 1), 0);
    set_nonblocking(listener, true);
    int accepted = 0;
    while (accept(listener, NULL, NULL) != -1)
        accepted++;
    check_int("those_stay", accepted, 4);
}

static void deferred(void)
{
    int listener = our_listener(8);
    check_int("set", set_int(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5), 0);
    check_true("get", int_option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT) >= 5);
    set_nonblocking(listener, true);
    int theirs = connecting_peer(listener);
    pause_ms(PAUSE_MS);
    check_fails("not_before_data", accept(listener, NULL, NULL), EAGAIN);
    MUST(peer_send(theirs, "d", 1, 0));
    check_int("with_data", wait_for(listener, POLLIN, PATIENCE_MS), POLLIN);
    int ours = accept(listener, NULL, NULL);
    char byte;
    check_bytes("data", &byte, recv(ours, &byte, 1, MSG_DONTWAIT), "d", 1);
}

/* A packet filter of the program decides about SYNs, and may come when the socket listens already. */
static void filtered(void)
{
    int listener = our_listener(8);
    struct sock_filter nothing = {.code = BPF_RET | BPF_K, .k = 0};
    struct sock_fprog program = {.len = 1, .filter = &nothing};
    check_int("attach", setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    check_int("nobody_comes", established_of(listener, 1), 0);
    check_int("detach", setsockopt(listener, SOL_SOCKET, SO_DETACH_FILTER, &program, sizeof program), 0);
    check_int("somebody_comes", established_of(listener, 1), 1);
    check_works("accept", accept(listener, NULL, NULL));
}

static const struct test tests[] = {
    {"ports", ports, FAMILIES},
    {"reuse_port", reuse_port, FAMILIES},
    {"wildcard", wildcard, FAMILIES},
    {"mapped", mapped, ONCE},
    {"mapped_connect", mapped_connect, ONCE},
    {"accepting", accepting, FAMILIES},
    {"accept_flags", accept_flags, FAMILIES},
    {"inherited_options", inherited_options, FAMILIES},
    {"all_inherited_options", all_inherited_options, FAMILIES},
    {"waiting", waiting, FAMILIES},
    {"gone_before_accept", gone_before_accept, FAMILIES},
    {"closed_listener", closed_listener, FAMILIES},
    {"shut_listener", shut_listener, FAMILIES},
    {"not_waited_for", not_waited_for, FAMILIES},
    {"overflow", overflow, FAMILIES},
    {"backlog_changed", backlog_changed, FAMILIES},
    {"filtered", filtered, FAMILIES},
    {"deferred", deferred, FAMILIES},
};

SUBJECT(listening, tests);
