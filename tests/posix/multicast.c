/* Membership of groups, and what comes by them. */
#include "fixture.h"

#include <ifaddrs.h>
#include <net/if.h>

static struct sockaddr_in group_address(in_port_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0xefc60009)};
}

static struct in_addr own_interface(void)
{
    struct sockaddr_storage own = our_address(0);
    return ((struct sockaddr_in *)&own)->sin_addr;
}

static int receiver(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    int ours = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(ours, (struct sockaddr *)&any, sizeof any));
    return ours;
}

static int sender(void)
{
    struct sockaddr_storage address = peer_address(0);
    struct in_addr interface = ((struct sockaddr_in *)&address)->sin_addr;
    int theirs = (int)MUST(peer_socket(AF_INET, SOCK_DGRAM));
    MUST(peer_bind(theirs, &address, sizeof(struct sockaddr_in)));
    MUST(peer_setsockopt(theirs, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface));
    return theirs;
}

static void send_to_group(int theirs, in_port_t port, const char *text)
{
    struct sockaddr_storage to = {0};
    struct sockaddr_in group = group_address(port);
    memcpy(&to, &group, sizeof group);
    MUST(peer_sendto(theirs, text, strlen(text), &to, sizeof group));
}

static void membership(void)
{
    int ours = receiver(), theirs = sender();
    struct ip_mreq member = {.imr_multiaddr = group_address(0).sin_addr, .imr_interface = own_interface()};
    char data[16];
    check_int("join", setsockopt(ours, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member), 0);
    check_fails("join_again", setsockopt(ours, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member), EADDRINUSE);
    send_to_group(theirs, our_port(ours), "tick");
    check_int("readable", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("data", data, recv(ours, data, sizeof data, 0), "tick", 4);
    check_int("leave", setsockopt(ours, IPPROTO_IP, IP_DROP_MEMBERSHIP, &member, sizeof member), 0);
    check_fails("leave_again", setsockopt(ours, IPPROTO_IP, IP_DROP_MEMBERSHIP, &member, sizeof member), EADDRNOTAVAIL);
    send_to_group(theirs, our_port(ours), "late");
    pause_ms(PAUSE_MS);
    struct ip_mreq wrong = {.imr_multiaddr.s_addr = htonl(0x0a000001), .imr_interface = own_interface()};
    check_fails("no_group", setsockopt(ours, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wrong, sizeof wrong), EINVAL);
    check_fails("join_short", setsockopt(ours, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, 4), EINVAL);
}

static void sources(void)
{
    int ours = receiver(), theirs = sender();
    struct sockaddr_storage peer = peer_address(0);
    struct ip_mreq_source member = {.imr_multiaddr = group_address(0).sin_addr, .imr_interface = own_interface(),
                                    .imr_sourceaddr = ((struct sockaddr_in *)&peer)->sin_addr};
    char data[16];
    MUST(set_int(ours, IPPROTO_IP, IP_MULTICAST_ALL, 0));
    check_int("join", setsockopt(ours, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &member, sizeof member), 0);
    send_to_group(theirs, our_port(ours), "from it");
    check_int("readable", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_int("data", recv(ours, data, sizeof data, 0), 7);
    check_int("leave", setsockopt(ours, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &member, sizeof member), 0);
    int other = receiver();
    MUST(set_int(other, IPPROTO_IP, IP_MULTICAST_ALL, 0));
    member.imr_sourceaddr.s_addr = htonl(0xc6120063);
    check_int("join_other", setsockopt(other, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &member, sizeof member), 0);
    send_to_group(theirs, our_port(other), "not from it");
    check_int("silent", wait_for(other, POLLIN, PAUSE_MS), 0);
    struct ip_mreq any = {.imr_multiaddr = group_address(0).sin_addr, .imr_interface = own_interface()};
    int third = receiver();
    MUST(setsockopt(third, IPPROTO_IP, IP_ADD_MEMBERSHIP, &any, sizeof any));
    member.imr_sourceaddr = ((struct sockaddr_in *)&peer)->sin_addr;
    check_int("block", setsockopt(third, IPPROTO_IP, IP_BLOCK_SOURCE, &member, sizeof member), 0);
    send_to_group(theirs, our_port(third), "blocked");
    check_int("blocked", wait_for(third, POLLIN, PAUSE_MS), 0);
    check_int("unblock", setsockopt(third, IPPROTO_IP, IP_UNBLOCK_SOURCE, &member, sizeof member), 0);
    send_to_group(theirs, our_port(third), "open");
    check_int("unblocked", wait_for(third, POLLIN, PATIENCE_MS), POLLIN);
}

static void sending(void)
{
    int ours = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct in_addr interface = own_interface(), got;
    socklen_t length = sizeof got;
    check_int("loop_default", int_option(ours, IPPROTO_IP, IP_MULTICAST_LOOP), 1);
    check_int("ttl_default", int_option(ours, IPPROTO_IP, IP_MULTICAST_TTL), 1);
    check_int("interface", setsockopt(ours, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
    check_int("interface_get", getsockopt(ours, IPPROTO_IP, IP_MULTICAST_IF, &got, &length), 0);
    check_int("interface_same", got.s_addr, interface.s_addr);
    check_int("ttl", set_int(ours, IPPROTO_IP, IP_MULTICAST_TTL, 4), 0);
    check_int("ttl_get", int_option(ours, IPPROTO_IP, IP_MULTICAST_TTL), 4);
    int hears = receiver();
    struct ip_mreq member = {.imr_multiaddr = group_address(0).sin_addr, .imr_interface = interface};
    MUST(setsockopt(hears, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member));
    struct sockaddr_in group = group_address(our_port(hears));
    check_int("send", sendto(ours, "loop", 4, 0, (struct sockaddr *)&group, sizeof group), 4);
    check_int("loops_back", wait_for(hears, POLLIN, PATIENCE_MS), POLLIN);
    char data[8];
    MUST(recv(hears, data, sizeof data, 0));
    check_int("loop_off", set_int(ours, IPPROTO_IP, IP_MULTICAST_LOOP, 0), 0);
    MUST(sendto(ours, "gone", 4, 0, (struct sockaddr *)&group, sizeof group));
    struct sockaddr_storage peer = peer_address(0), own = our_address(0);
    if (!same_address(&peer, &own))
        check_int("no_loop", wait_for(hears, POLLIN, PAUSE_MS), 0);
}

static void to_the_peer(void)
{
    int ours = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0)), theirs = (int)MUST(peer_socket(AF_INET, SOCK_DGRAM));
    struct sockaddr_storage any = {.ss_family = AF_INET}, name, peer = peer_address(0);
    struct in_addr interface = own_interface();
    struct ip_mreq member = {.imr_multiaddr = group_address(0).sin_addr, .imr_interface = ((struct sockaddr_in *)&peer)->sin_addr};
    MUST(peer_bind(theirs, &any, sizeof(struct sockaddr_in)));
    MUST(peer_name(theirs, &name));
    MUST(peer_setsockopt(theirs, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member));
    MUST(setsockopt(ours, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface));
    struct sockaddr_in group = group_address(port_of(&name));
    check_int("connect", connect(ours, (struct sockaddr *)&group, sizeof group), 0);
    check_int("send", send(ours, "out", 3, 0), 3);
    char data[8];
    check_int("peer_readable", peer_poll(theirs, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("peer_has_it", data, peer_recv(theirs, data, sizeof data, 0), "out", 3);
}

static unsigned interface_index(void)
{
    struct ifaddrs *all = NULL;
    unsigned index = 0;
    struct sockaddr_storage own = our_address(0);
    MUST(getifaddrs(&all));
    for (struct ifaddrs *at = all; at; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
            ((struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr == ((struct sockaddr_in *)&own)->sin_addr.s_addr)
            index = if_nametoindex(at->ifa_name);
    freeifaddrs(all);
    return index;
}

static void check_arrival_6(int ours, const struct ipv6_mreq *member)
{
    /* Both hosts of a lab have the same index. */
    int theirs = (int)MUST(peer_socket(AF_INET6, SOCK_DGRAM)), interface = (int)member->ipv6mr_interface;
    MUST(peer_setsockopt(theirs, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface, sizeof interface));
    struct sockaddr_storage to = {0};
    struct sockaddr_in6 *group = (struct sockaddr_in6 *)&to;
    *group = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(our_port(ours)), .sin6_addr = member->ipv6mr_multiaddr};
    MUST(peer_sendto(theirs, "six", 3, &to, sizeof *group));
    char data[8];
    check_int("readable", wait_for(ours, POLLIN, PATIENCE_MS), POLLIN);
    check_bytes("data", data, recv(ours, data, sizeof data, MSG_DONTWAIT), "six", 3);
}

static void membership_6(void)
{
    int ours = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0));
    unsigned interface = interface_index();
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    MUST(bind(ours, (struct sockaddr *)&any, sizeof any));
    struct ipv6_mreq member = {.ipv6mr_interface = interface};
    memcpy(&member.ipv6mr_multiaddr, "\xff\x15\0\0\0\0\0\0\0\0\0\0\0\0\x77\x77", 16);
    check_int("join", setsockopt(ours, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof member), 0);
    check_fails("join_again", setsockopt(ours, IPPROTO_IPV6, IPV6_JOIN_GROUP, &member, sizeof member), EADDRINUSE);
    struct sockaddr_storage peer = peer_address(0), own = our_address(0);
    /* The loopback device has no multicast of IPv6. */
    if (!same_address(&peer, &own))
        check_arrival_6(ours, &member);
    check_int("leave", setsockopt(ours, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &member, sizeof member), 0);
    check_fails("leave_again", setsockopt(ours, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &member, sizeof member), EADDRNOTAVAIL);
    check_int("hops", set_int(ours, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 3), 0);
    check_int("hops_get", int_option(ours, IPPROTO_IPV6, IPV6_MULTICAST_HOPS), 3);
}

static const struct test tests[] = {
    {"membership", membership, ONCE},   {"sources", sources, ONCE},           {"sending", sending, ONCE},
    {"to_the_peer", to_the_peer, ONCE}, {"membership_6", membership_6, ONCE},
};

SUBJECT(multicast, tests);
