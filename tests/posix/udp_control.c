/* Control data of datagrams: destination, time, TTL, TOS. */
#include "fixture.h"

#include <time.h>

static struct pair pair;

struct received {
    struct msghdr message;
    struct sockaddr_storage from;
    struct iovec part;
    char data[64];
    union {
        struct cmsghdr head;
        char room[512];
    } control;
    long long length;
};

static struct received receive(size_t room)
{
    static struct received got;
    struct sockaddr_storage own = name_of(pair.ours);
    memset(&got, 0, sizeof got);
    MUST(peer_sendto(pair.theirs, "data", 4, &own, address_length()));
    got.part = (struct iovec){got.data, sizeof got.data};
    got.message = (struct msghdr){.msg_name = &got.from, .msg_namelen = sizeof got.from, .msg_iov = &got.part,
                                  .msg_iovlen = 1, .msg_control = &got.control, .msg_controllen = room};
    got.length = recvmsg(pair.ours, &got.message, 0);
    return got;
}

/* The data of a control message of this kind; NULL where there is none. */
static void *control_of(struct received *got, int level, int type)
{
    got->message.msg_control = &got->control;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&got->message); at; at = CMSG_NXTHDR(&got->message, at))
        if (at->cmsg_level == level && at->cmsg_type == type)
            return CMSG_DATA(at);
    return NULL;
}

static void none(void)
{
    pair = datagrams(false);
    struct received got = receive(512);
    check_int("length", got.length, 4);
    check_int("no_control", (long long)got.message.msg_controllen, 0);
    check_int("flags", got.message.msg_flags, 0);
    check_int("name_length", got.message.msg_namelen, address_length());
    struct sockaddr_storage expected;
    MUST(peer_name(pair.theirs, &expected));
    check_true("name", same_address(&got.from, &expected));
}

static void destination(void)
{
    pair = datagrams(false);
    struct sockaddr_storage own = name_of(pair.ours);
    if (family == AF_INET) {
        MUST(set_int(pair.ours, IPPROTO_IP, IP_PKTINFO, 1));
        struct received got = receive(512);
        struct in_pktinfo *info = control_of(&got, IPPROTO_IP, IP_PKTINFO);
        check_true("present", info != NULL);
        check_true("address", info && info->ipi_addr.s_addr == ((struct sockaddr_in *)&own)->sin_addr.s_addr);
        check_true("interface", info && info->ipi_ifindex > 0);
    } else {
        MUST(set_int(pair.ours, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1));
        struct received got = receive(512);
        struct in6_pktinfo *info = control_of(&got, IPPROTO_IPV6, IPV6_PKTINFO);
        check_true("present", info != NULL);
        check_true("address", info && memcmp(&info->ipi6_addr, &((struct sockaddr_in6 *)&own)->sin6_addr, 16) == 0);
        check_true("interface", info && info->ipi6_ifindex > 0);
    }
    struct received small = receive(4);
    check_int("cut_flag", small.message.msg_flags & MSG_CTRUNC, MSG_CTRUNC);
    check_int("cut_data", small.length, 4);
}

static void times(void)
{
    pair = datagrams(false);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    MUST(set_int(pair.ours, SOL_SOCKET, SO_TIMESTAMP, 1));
    struct received got = receive(512);
    struct timeval *micro = control_of(&got, SOL_SOCKET, SCM_TIMESTAMP);
    check_true("timestamp", micro != NULL);
    check_true("timestamp_is_now", micro && llabs(micro->tv_sec - now.tv_sec) < 10);
    MUST(set_int(pair.ours, SOL_SOCKET, SO_TIMESTAMPNS, 1));
    got = receive(512);
    struct timespec *nano = control_of(&got, SOL_SOCKET, SCM_TIMESTAMPNS);
    check_true("timestampns", nano != NULL);
    check_true("timestampns_is_now", nano && llabs(nano->tv_sec - now.tv_sec) < 10);
    check_true("only_one_kind", control_of(&got, SOL_SOCKET, SCM_TIMESTAMP) == NULL);
    MUST(set_int(pair.ours, SOL_SOCKET, SO_TIMESTAMPNS, 0));
    got = receive(512);
    check_int("off", (long long)got.message.msg_controllen, 0);
}

static void hops(void)
{
    pair = datagrams(false);
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, value = 77, tos = 0x28;
    MUST(peer_setsockopt(pair.theirs, level, family == AF_INET ? IP_TTL : IPV6_UNICAST_HOPS, &value, sizeof value));
    MUST(peer_setsockopt(pair.theirs, level, family == AF_INET ? IP_TOS : IPV6_TCLASS, &tos, sizeof tos));
    MUST(set_int(pair.ours, level, family == AF_INET ? IP_RECVTTL : IPV6_RECVHOPLIMIT, 1));
    MUST(set_int(pair.ours, level, family == AF_INET ? IP_RECVTOS : IPV6_RECVTCLASS, 1));
    struct received got = receive(512);
    int *hop_limit = control_of(&got, level, family == AF_INET ? IP_TTL : IPV6_HOPLIMIT);
    unsigned char *class = control_of(&got, level, family == AF_INET ? IP_TOS : IPV6_TCLASS);
    check_int("hops", hop_limit ? *hop_limit : -1, 77);
    check_int("class", class ? *class : -1, 0x28);
}

static void sent_from(void)
{
    pair = datagrams(false);
    struct sockaddr_storage to, from, own = name_of(pair.ours);
    MUST(peer_name(pair.theirs, &to));
    union {
        struct cmsghdr head;
        char room[128];
    } control = {0};
    struct iovec part = {"out", 3};
    struct msghdr message = {.msg_name = &to, .msg_namelen = address_length(), .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &control};
    if (family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = ((struct sockaddr_in *)&own)->sin_addr};
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
        memcpy(CMSG_DATA(&control.head), &info, sizeof info);
        message.msg_controllen = CMSG_SPACE(sizeof info);
    } else {
        struct in6_pktinfo info = {.ipi6_addr = ((struct sockaddr_in6 *)&own)->sin6_addr};
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO};
        memcpy(CMSG_DATA(&control.head), &info, sizeof info);
        message.msg_controllen = CMSG_SPACE(sizeof info);
    }
    char data[8];
    check_int("sendmsg", sendmsg(pair.ours, &message, 0), 3);
    check_bytes("peer_has_it", data, peer_recvfrom(pair.theirs, data, sizeof data, &from), "out", 3);
    check_true("from", same_address(&from, &own));
    control.head.cmsg_len = 1;
    check_fails("bad_control", sendmsg(pair.ours, &message, 0), EINVAL);
}

static const struct test tests[] = {
    {"none", none, FAMILIES},           {"destination", destination, FAMILIES}, {"times", times, FAMILIES},
    {"hops", hops, FAMILIES},           {"sent_from", sent_from, FAMILIES},
};

SUBJECT(udp_control, tests);
