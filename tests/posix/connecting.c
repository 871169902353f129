/* socket, bind, connect and what they refuse. */
#include "fixture.h"

#include <sys/ioctl.h>

static void socket_types(void)
{
    int plain = socket(family, SOCK_STREAM, 0);
    check_works("stream", plain);
    check_int("stream_type", int_option(plain, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    check_int("stream_domain", int_option(plain, SOL_SOCKET, SO_DOMAIN), family);
    check_int("stream_protocol", int_option(plain, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    check_int("stream_accepts_not", int_option(plain, SOL_SOCKET, SO_ACCEPTCONN), 0);
    check_int("plain_is_blocking", fcntl(plain, F_GETFL) & O_NONBLOCK, 0);
    check_int("plain_is_inherited", fcntl(plain, F_GETFD), 0);
    check_int("access_mode", fcntl(plain, F_GETFL) & O_ACCMODE, O_RDWR);
    int flagged = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    check_int("nonblock", fcntl(flagged, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    check_int("cloexec", fcntl(flagged, F_GETFD), FD_CLOEXEC);
    check_int("lowest_number", flagged, plain + 1);
    int datagram = socket(family, SOCK_DGRAM, IPPROTO_UDP);
    check_int("datagram_type", int_option(datagram, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
    check_int("datagram_protocol", int_option(datagram, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP);
    check_fails("wrong_protocol", socket(family, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    check_fails("wrong_type", socket(family, 77, 0), EINVAL);
    check_fails("wrong_family", socket(9999, SOCK_STREAM, 0), EAFNOSUPPORT);
    check_fails("seqpacket", socket(family, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT);
}

static void bad_descriptors(void)
{
    struct sockaddr_storage address = peer_address(9);
    int file = (int)MUST(open("/dev/null", O_RDWR));
    char byte;
    check_fails("connect_ebadf", connect(77, (struct sockaddr *)&address, address_length()), EBADF);
    check_fails("connect_enotsock", connect(file, (struct sockaddr *)&address, address_length()), ENOTSOCK);
    check_fails("bind_ebadf", bind(77, (struct sockaddr *)&address, address_length()), EBADF);
    check_fails("bind_enotsock", bind(file, (struct sockaddr *)&address, address_length()), ENOTSOCK);
    check_fails("listen_ebadf", listen(-1, 1), EBADF);
    check_fails("listen_enotsock", listen(file, 1), ENOTSOCK);
    check_fails("accept_ebadf", accept(77, NULL, NULL), EBADF);
    check_fails("accept_enotsock", accept(file, NULL, NULL), ENOTSOCK);
    check_fails("send_ebadf", send(77, "x", 1, 0), EBADF);
    check_fails("send_enotsock", send(file, "x", 1, 0), ENOTSOCK);
    check_fails("recv_ebadf", recv(77, &byte, 1, 0), EBADF);
    check_fails("recv_enotsock", recv(file, &byte, 1, 0), ENOTSOCK);
    check_fails("shutdown_ebadf", shutdown(77, SHUT_RD), EBADF);
    check_fails("shutdown_enotsock", shutdown(file, SHUT_RD), ENOTSOCK);
    check_fails("close_ebadf", close(77), EBADF);
    check_fails("read_ebadf", read(77, &byte, 1), EBADF);
    check_fails("getsockopt_enotsock", int_option(file, SOL_SOCKET, SO_TYPE), ENOTSOCK);
    check_fails("setsockopt_ebadf", set_int(77, SOL_SOCKET, SO_KEEPALIVE, 1), EBADF);
}

static void blocking(void)
{
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port), got;
    socklen_t length = sizeof got;
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_fails("name_before", getpeername(ours, (struct sockaddr *)&got, &length), ENOTCONN);
    got = name_of(ours);
    check_int("port_before", port_of(&got), 0);
    check_int("connect", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    length = sizeof got;
    check_int("getpeername", getpeername(ours, (struct sockaddr *)&got, &length), 0);
    check_true("getpeername_address", same_address(&got, &address));
    check_int("getpeername_length", length, address_length());
    got = name_of(ours);
    struct sockaddr_storage expected = our_address(port_of(&got));
    check_true("getsockname_address", same_address(&got, &expected));
    check_true("getsockname_port", port_of(&got) != 0);
    check_fails("again", connect(ours, (struct sockaddr *)&address, address_length()), EISCONN);
    check_fails("bind_after", bind(ours, (struct sockaddr *)&expected, address_length()), EINVAL);
    check_fails("listen_after", listen(ours, 1), EINVAL);
    check_fails("accept_after", accept(ours, NULL, NULL), EINVAL);
    length = 4;
    check_int("short_name", getpeername(ours, (struct sockaddr *)&got, &length), 0);
    check_int("short_name_length", length, address_length());
    length = (socklen_t)-1;
    check_fails("negative_name", getpeername(ours, (struct sockaddr *)&got, &length), EINVAL);
    int theirs = (int)MUST(peer_accept(listener));
    check_int("peer_sees", peer_send(theirs, "x", 1, 0), 1);
    char byte;
    check_bytes("data", &byte, recv(ours, &byte, 1, 0), "x", 1);
}

static void bound_first(void)
{
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port), mine = our_address(0);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_int("bind", bind(ours, (struct sockaddr *)&mine, address_length()), 0);
    in_port_t bound = our_port(ours);
    check_true("port_given", bound != 0);
    check_int("connect", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    check_int("port_kept", our_port(ours), bound);
    MUST(peer_accept(listener));
}

static void bad_addresses(void)
{
    struct sockaddr_storage address = peer_address(9);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_fails("connect_short", connect(ours, (struct sockaddr *)&address, 3), EINVAL);
    check_fails("bind_short", bind(ours, (struct sockaddr *)&address, 3), EINVAL);
    address.ss_family = AF_UNIX;
    check_fails("connect_family", connect(ours, (struct sockaddr *)&address, address_length()), EAFNOSUPPORT);
    /* 240.0.0.1 and an address of 100::/8: nobody's. */
    struct sockaddr_storage foreign = our_address(0);
    if (family == AF_INET)
        ((struct sockaddr_in *)&foreign)->sin_addr.s_addr = htonl(0xf0000001);
    else
        ((struct sockaddr_in6 *)&foreign)->sin6_addr.s6_addr[0] = 0x01;
    check_fails("bind_foreign", bind(ours, (struct sockaddr *)&foreign, address_length()), EADDRNOTAVAIL);
    /* RFC 5737 and RFC 3849: addresses for documentation, which no route leads to. */
    struct sockaddr_storage nowhere = peer_address(9);
    if (family == AF_INET)
        ((struct sockaddr_in *)&nowhere)->sin_addr.s_addr = htonl(0xcb007101);
    else
        memcpy(&((struct sockaddr_in6 *)&nowhere)->sin6_addr, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    check_fails("connect_no_route", connect(ours, (struct sockaddr *)&nowhere, address_length()), ENETUNREACH);
    check_int("no_error_left", int_option(ours, SOL_SOCKET, SO_ERROR), 0);
    set_nonblocking(ours, true);
    check_fails("connect_no_route_nonblocking", connect(ours, (struct sockaddr *)&nowhere, address_length()), ENETUNREACH);
}

static void refused(void)
{
    struct sockaddr_storage address = peer_address(1);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    char byte;
    check_fails("connect", connect(ours, (struct sockaddr *)&address, address_length()), ECONNREFUSED);
    check_int("error_is_taken", int_option(ours, SOL_SOCKET, SO_ERROR), 0);
    check_fails("connect_again", connect(ours, (struct sockaddr *)&address, address_length()), ECONNREFUSED);
    check_fails("recv_after", recv(ours, &byte, 1, 0), ENOTCONN);
    check_fails("send_after", send(ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    in_port_t port;
    int listener = peer_listener(&port);
    address = peer_address(port);
    check_int("connect_then", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    MUST(peer_accept(listener));
}

static void nonblocking(void)
{
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    int ours = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("begins", connect(ours, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    check_int("writable", wait_for(ours, POLLOUT, PATIENCE_MS), POLLOUT);
    check_int("error", int_option(ours, SOL_SOCKET, SO_ERROR), 0);
    check_int("second_call_tells_success", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    check_fails("third_call", connect(ours, (struct sockaddr *)&address, address_length()), EISCONN);
    int theirs = (int)MUST(peer_accept(listener));
    char byte;
    check_fails("recv_nothing", recv(ours, &byte, 1, 0), EAGAIN);
    MUST(peer_send(theirs, "y", 1, 0));
    check_int("readable", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_int("recv", recv(ours, &byte, 1, 0), 1);
}

static void nonblocking_refused(void)
{
    struct sockaddr_storage address = peer_address(1);
    int ours = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("begins", connect(ours, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    check_int("events", wait_for(ours, POLLIN | POLLOUT, PATIENCE_MS), POLLIN | POLLOUT | POLLERR | POLLHUP);
    check_int("so_error", int_option(ours, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    check_int("so_error_once", int_option(ours, SOL_SOCKET, SO_ERROR), 0);
    int second = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("second_begins", connect(second, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    MUST(wait_for(second, POLLOUT, PATIENCE_MS));
    check_fails("connect_tells", connect(second, (struct sockaddr *)&address, address_length()), ECONNREFUSED);
    int third = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("third_begins", connect(third, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    MUST(wait_for(third, POLLOUT, PATIENCE_MS));
    check_fails("send_tells", send(third, "x", 1, MSG_NOSIGNAL), ECONNREFUSED);
    check_fails("send_then", send(third, "x", 1, MSG_NOSIGNAL), EPIPE);
}

/* An address of the network that nobody has: the SYN, or the question for its neighbour, stays without an answer. */
static struct sockaddr_storage silent_address(void)
{
    struct sockaddr_storage address = peer_address(9), mine = our_address(9);
    bool is_loopback = same_address(&address, &mine);
    if (family == AF_INET)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr += htonl(77);
    else
        ((struct sockaddr_in6 *)&address)->sin6_addr.s6_addr[15] = 77;
    address.ss_family = is_loopback ? AF_UNSPEC : address.ss_family;
    return address;
}

static void in_progress(void)
{
    struct sockaddr_storage address = silent_address();
    /* All of 127.0.0.0/8 answers. */
    if (address.ss_family == AF_UNSPEC)
        return;
    int ours = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("begins", connect(ours, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    check_fails("again", connect(ours, (struct sockaddr *)&address, address_length()), EALREADY);
    check_int("not_writable", wait_for(ours, POLLOUT, 0), 0);
    char byte;
    check_fails("send", send(ours, "x", 1, MSG_NOSIGNAL), EAGAIN);
    check_fails("recv", recv(ours, &byte, 1, 0), EAGAIN);
    struct sockaddr_storage got;
    socklen_t length = sizeof got;
    check_fails("getpeername", getpeername(ours, (struct sockaddr *)&got, &length), ENOTCONN);
    check_true("local_port", our_port(ours) != 0);
    check_fails("listen", listen(ours, 1), EINVAL);
    int outq = -1;
    check_int("siocoutq", ioctl(ours, TIOCOUTQ, &outq), 0);
    check_int("close", close(ours), 0);
    int timed = (int)MUST(socket(family, SOCK_STREAM, 0));
    set_timeout(timed, SO_SNDTIMEO, 50);
    check_fails("timeout", connect(timed, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    int interrupted = (int)MUST(socket(family, SOCK_STREAM, 0));
    count_signals(0);
    interrupt_often(100);
    int result = connect(interrupted, (struct sockaddr *)&address, address_length());
    interrupt_no_more();
    check_fails("interrupted", result, EINTR);
    set_nonblocking(interrupted, true);
    check_fails("goes_on", connect(interrupted, (struct sockaddr *)&address, address_length()), EALREADY);
}

static void dissolved(void)
{
    struct pair pair = opened_by_us();
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    check_int("connect_unspec", connect(pair.ours, &none, sizeof none), 0);
    struct sockaddr_storage got;
    socklen_t length = sizeof got;
    check_fails("getpeername", getpeername(pair.ours, (struct sockaddr *)&got, &length), ENOTCONN);
    check_fails("peer_is_reset", peer_recv(pair.theirs, NULL, 1, 0), ECONNRESET);
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    check_int("connects_anew", connect(pair.ours, (struct sockaddr *)&address, address_length()), 0);
    MUST(peer_accept(listener));
}

static void not_connected(void)
{
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    char byte;
    int count = -1;
    check_fails("send", send(ours, "x", 1, MSG_NOSIGNAL), EPIPE);
    check_fails("write_by_sendto", sendto(ours, "x", 1, MSG_NOSIGNAL, NULL, 0), EPIPE);
    check_fails("recv", recv(ours, &byte, 1, 0), ENOTCONN);
    check_fails("read", read(ours, &byte, 1), ENOTCONN);
    check_int("poll", wait_for(ours, POLLIN | POLLOUT, 0), POLLOUT | POLLHUP);
    check_fails("shutdown", shutdown(ours, SHUT_RDWR), ENOTCONN);
    check_int("poll_after_shutdown", wait_for(ours, POLLIN | POLLOUT, 0), POLLIN | POLLOUT | POLLHUP);
    check_int("fionread", ioctl(ours, FIONREAD, &count), 0);
    check_int("fionread_count", count, 0);
    check_fails("accept", accept(ours, NULL, NULL), EINVAL);
}

static void self_connect(void)
{
    struct sockaddr_storage mine = our_address(0);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    MUST(bind(ours, (struct sockaddr *)&mine, address_length()));
    mine = name_of(ours);
    check_int("connect", connect(ours, (struct sockaddr *)&mine, address_length()), 0);
    char byte;
    check_int("send", send(ours, "s", 1, 0), 1);
    check_bytes("recv", &byte, recv(ours, &byte, 1, 0), "s", 1);
}

static const struct test tests[] = {
    {"socket_types", socket_types, FAMILIES},
    {"bad_descriptors", bad_descriptors, FAMILIES},
    {"blocking", blocking, FAMILIES},
    {"bound_first", bound_first, FAMILIES},
    {"bad_addresses", bad_addresses, FAMILIES},
    {"refused", refused, FAMILIES},
    {"nonblocking", nonblocking, FAMILIES},
    {"nonblocking_refused", nonblocking_refused, FAMILIES},
    {"in_progress", in_progress, FAMILIES},
    {"dissolved", dissolved, FAMILIES},
    {"not_connected", not_connected, FAMILIES},
    {"self_connect", self_connect, FAMILIES},
};

SUBJECT(connecting, tests);
