/* getsockopt and setsockopt: what is set is read back; what is refused. */
#include "fixture.h"

struct option {
    const char *name;
    int level, option, value, expected;
};

static const struct option both_families[] = {
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE, 1, 1},
    {"broadcast", SOL_SOCKET, SO_BROADCAST, 1, 1},
    {"dontroute", SOL_SOCKET, SO_DONTROUTE, 1, 1},
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR, 1, 1},
    {"oobinline", SOL_SOCKET, SO_OOBINLINE, 7, 1},
    {"priority", SOL_SOCKET, SO_PRIORITY, 3, 3},
    {"mark", SOL_SOCKET, SO_MARK, 0, 0},
    {"rcvlowat", SOL_SOCKET, SO_RCVLOWAT, 9, 9},
    {"sndbuf", SOL_SOCKET, SO_SNDBUF, 20000, 40000},
    {"rcvbuf", SOL_SOCKET, SO_RCVBUF, 20000, 40000},
    {"timestamp", SOL_SOCKET, SO_TIMESTAMP, 1, 1},
    {"busy_poll", SOL_SOCKET, SO_BUSY_POLL, 0, 0},
    {"nodelay", IPPROTO_TCP, TCP_NODELAY, 1, 1},
    {"cork", IPPROTO_TCP, TCP_CORK, 1, 1},
    {"maxseg", IPPROTO_TCP, TCP_MAXSEG, 1000, -2},
    {"keepidle", IPPROTO_TCP, TCP_KEEPIDLE, 30, 30},
    {"keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, 5, 5},
    {"keepcnt", IPPROTO_TCP, TCP_KEEPCNT, 4, 4},
    {"syncnt", IPPROTO_TCP, TCP_SYNCNT, 3, 3},
    {"linger2", IPPROTO_TCP, TCP_LINGER2, 20, 20},
    {"quickack", IPPROTO_TCP, TCP_QUICKACK, 1, 1},
    {"user_timeout", IPPROTO_TCP, TCP_USER_TIMEOUT, 9000, 9000},
    {"window_clamp", IPPROTO_TCP, TCP_WINDOW_CLAMP, 30000, -2},
    {"notsent_lowat", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384, 16384},
};

static const struct option ipv4_only[] = {
    {"tos", IPPROTO_IP, IP_TOS, 0x10, 0x10},       {"ttl", IPPROTO_IP, IP_TTL, 33, 33},
    {"mtu_discover", IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_PMTUDISC_DO},
    {"recvtos", IPPROTO_IP, IP_RECVTOS, 1, 1},     {"recvttl", IPPROTO_IP, IP_RECVTTL, 1, 1},
    {"pktinfo", IPPROTO_IP, IP_PKTINFO, 1, 1},
    {"freebind", IPPROTO_IP, IP_FREEBIND, 1, 1},   {"bind_no_port", IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1, 1},
};

static const struct option ipv6_only[] = {
    {"tclass", IPPROTO_IPV6, IPV6_TCLASS, 0x20, 0x20},
    {"unicast_hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS, 44, 44},
    {"recvpktinfo", IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, 1},
    {"recvhoplimit", IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, 1},
    {"recvtclass", IPPROTO_IPV6, IPV6_RECVTCLASS, 1, 1},
};

static void check_option(int socket, const char *when, const struct option *option)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s_set", when, option->name);
    check_int(name, set_int(socket, option->level, option->option, option->value), 0);
    snprintf(name, sizeof name, "%s.%s_get", when, option->name);
    int got = int_option(socket, option->level, option->option);
    if (option->expected == -2)
        check_true(name, got > 0);
    else
        check_int(name, got, option->expected);
}

static void check_all(int socket, const char *when)
{
    for (size_t index = 0; index < sizeof both_families / sizeof *both_families; index++)
        check_option(socket, when, &both_families[index]);
    const struct option *own = family == AF_INET ? ipv4_only : ipv6_only;
    size_t count = family == AF_INET ? sizeof ipv4_only / sizeof *ipv4_only : sizeof ipv6_only / sizeof *ipv6_only;
    for (size_t index = 0; index < count; index++)
        check_option(socket, when, &own[index]);
}

static void get_back(void)
{
    int fresh = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_all(fresh, "fresh");
    struct pair pair = connected();
    check_all(pair.ours, "connected");
    check_int("sends_then", send(pair.ours, "x", 1, 0), 1);
    set_int(pair.ours, IPPROTO_TCP, TCP_CORK, 0);
    check_int("peer_has_it", peer_recv(pair.theirs, NULL, 1, 0), 1);
}

static void refused(void)
{
    struct pair pair = connected();
    int value = 1;
    socklen_t length = sizeof value;
    check_fails("unknown_get", getsockopt(pair.ours, SOL_SOCKET, 9999, &value, &length), ENOPROTOOPT);
    check_fails("unknown_set", set_int(pair.ours, SOL_SOCKET, 9999, 1), ENOPROTOOPT);
    check_fails("unknown_tcp", set_int(pair.ours, IPPROTO_TCP, 9999, 1), ENOPROTOOPT);
    check_fails("short", setsockopt(pair.ours, SOL_SOCKET, SO_KEEPALIVE, &value, 2), EINVAL);
    check_fails("tcp_short", setsockopt(pair.ours, IPPROTO_TCP, TCP_NODELAY, &value, 2), EINVAL);
    check_fails("set_type", set_int(pair.ours, SOL_SOCKET, SO_TYPE, 1), ENOPROTOOPT);
    check_fails("set_error", set_int(pair.ours, SOL_SOCKET, SO_ERROR, 1), ENOPROTOOPT);
    check_fails("keepidle_zero", set_int(pair.ours, IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
    check_fails("keepcnt_large", set_int(pair.ours, IPPROTO_TCP, TCP_KEEPCNT, 1000), EINVAL);
    check_fails("maxseg_small", set_int(pair.ours, IPPROTO_TCP, TCP_MAXSEG, 1), EINVAL);
    check_fails("user_timeout_negative", set_int(pair.ours, IPPROTO_TCP, TCP_USER_TIMEOUT, -1), EINVAL);
    length = 1;
    char small = 9;
    check_int("get_one_byte", getsockopt(pair.ours, SOL_SOCKET, SO_KEEPALIVE, &small, &length), 0);
    check_int("get_one_byte_length", length, 1);
    length = 100;
    char large[100];
    check_int("get_large", getsockopt(pair.ours, SOL_SOCKET, SO_KEEPALIVE, large, &length), 0);
    check_int("get_large_length", length, sizeof(int));
    int on = 1;
    check_fails("repair_of_connected", setsockopt(pair.ours, IPPROTO_TCP, TCP_CONGESTION, "no-such", 7), ENOENT);
    check_int("nodelay_any_length", setsockopt(pair.ours, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
}

static void values(void)
{
    struct pair pair = connected();
    check_true("maxseg", int_option(pair.ours, IPPROTO_TCP, TCP_MAXSEG) >= 500);
    check_true("rcvbuf", int_option(pair.ours, SOL_SOCKET, SO_RCVBUF) > 2000);
    check_true("sndbuf", int_option(pair.ours, SOL_SOCKET, SO_SNDBUF) > 2000);
    check_int("sndbuf_least", set_int(pair.ours, SOL_SOCKET, SO_SNDBUF, 1), 0);
    check_true("sndbuf_floor", int_option(pair.ours, SOL_SOCKET, SO_SNDBUF) >= 4000);
    check_int("acceptconn", int_option(pair.ours, SOL_SOCKET, SO_ACCEPTCONN), 0);
    check_int("type", int_option(pair.ours, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    check_int("domain", int_option(pair.ours, SOL_SOCKET, SO_DOMAIN), family);
    check_int("error", int_option(pair.ours, SOL_SOCKET, SO_ERROR), 0);
    check_true("incoming_cpu", int_option(pair.ours, SOL_SOCKET, SO_INCOMING_CPU) >= -1);
    char name[16] = "";
    socklen_t length = sizeof name;
    check_int("congestion", getsockopt(pair.ours, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    check_true("congestion_name", name[0] != 0);
    unsigned long long cookie = 0;
    length = sizeof cookie;
    check_int("cookie", getsockopt(pair.ours, SOL_SOCKET, SO_COOKIE, &cookie, &length), 0);
    check_true("cookie_value", cookie != 0);
    if (family == AF_INET)
        check_true("mtu", int_option(pair.ours, IPPROTO_IP, IP_MTU) >= 1280);
    else
        check_true("mtu", int_option(pair.ours, IPPROTO_IPV6, IPV6_MTU) >= 1280);
}

/* The fields behind those of the C library's struct, by their offsets in that of linux/tcp.h. */
static void newer_info(int socket)
{
    char info[232];
    uint64_t acked, received;
    uint32_t segments_out, segments_in, unsent, round_trip, window;
    socklen_t length = sizeof info;
    check_int("newer", getsockopt(socket, IPPROTO_TCP, TCP_INFO, info, &length), 0);
    check_int("newer_length", length, sizeof info);
    memcpy(&acked, info + 120, 8);
    memcpy(&received, info + 128, 8);
    memcpy(&segments_out, info + 136, 4);
    memcpy(&segments_in, info + 140, 4);
    memcpy(&unsent, info + 144, 4);
    memcpy(&round_trip, info + 148, 4);
    memcpy(&window, info + 228, 4);
    check_true("bytes_acked", acked == 5 || acked == 6); /* A SYN counts as one. */
    check_int("bytes_received", (long long)received, 1);
    check_true("segs_out", segments_out >= 2);
    check_true("segs_in", segments_in >= 2);
    check_int("notsent_bytes", unsent, 0);
    check_true("min_rtt", round_trip > 0);
    check_true("snd_wnd", window > 1000);
}

static void info(void)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    int fresh = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_int("fresh", getsockopt(fresh, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    check_int("fresh_state", info.tcpi_state, TCP_CLOSE);
    int listener = our_listener(1);
    length = sizeof info;
    MUST(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &length));
    check_int("listen_state", info.tcpi_state, TCP_LISTEN);
    struct pair pair = connected();
    MUST(send(pair.ours, "12345", 5, 0));
    MUST(peer_recv(pair.theirs, NULL, 5, 0));
    MUST(peer_send(pair.theirs, "6", 1, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    length = sizeof info;
    check_int("connected", getsockopt(pair.ours, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    check_int("length", length, sizeof info);
    check_int("state", info.tcpi_state, TCP_ESTABLISHED);
    check_true("snd_mss", info.tcpi_snd_mss >= 500);
    check_true("rcv_mss", info.tcpi_rcv_mss >= 500);
    check_true("rtt", info.tcpi_rtt > 0);
    check_true("rto", info.tcpi_rto >= 1000);
    check_true("snd_cwnd", info.tcpi_snd_cwnd > 0);
    check_true("pmtu", info.tcpi_pmtu >= 1280);
    check_int("unacked", info.tcpi_unacked, 0);
    check_int("retransmits", info.tcpi_total_retrans, 0);
    newer_info(pair.ours);
    length = 8;
    check_int("short", getsockopt(pair.ours, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    check_int("short_length", length, 8);
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    MUST(wait_for(pair.ours, POLLRDHUP, PATIENCE_MS));
    length = sizeof info;
    MUST(getsockopt(pair.ours, IPPROTO_TCP, TCP_INFO, &info, &length));
    check_int("state_after_fin", info.tcpi_state, TCP_CLOSE_WAIT);
}

static const struct test tests[] = {
    {"get_back", get_back, FAMILIES_AND_ENDS},
    {"refused", refused, FAMILIES_AND_ENDS},
    {"values", values, FAMILIES_AND_ENDS},
    {"info", info, FAMILIES_AND_ENDS},
};

SUBJECT(options, tests);
