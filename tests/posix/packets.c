/* What a connection's packets have of its options, as a packet socket of the peer's host sees them (packet(7)). */
#include "fixture.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#define SYN 0x02

/* The fields of a segment of ours that the peer's host has got. */
struct seen {
    int hops, class, flags;
    /* The first byte of the payload, -1 without. */
    int first;
};

static int sniffer(void)
{
    struct sockaddr_storage any = {0};
    struct sockaddr_ll *link = (struct sockaddr_ll *)&any;
    *link = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_protocol = htons(family == AF_INET ? ETH_P_IP : ETH_P_IPV6)};
    int theirs = (int)MUST(peer_socket(AF_PACKET, SOCK_DGRAM));
    MUST(peer_bind(theirs, &any, sizeof *link));
    return theirs;
}

static bool is_ours(const uint8_t *packet, long long length, in_port_t port, struct seen *seen)
{
    bool is_six = length > 0 && packet[0] >> 4 == 6;
    size_t tcp = is_six ? 40 : (size_t)(packet[0] & 15) * 4;
    if (length < (long long)tcp + 20 || packet[is_six ? 6 : 9] != IPPROTO_TCP)
        return false;
    const uint8_t *segment = packet + tcp;
    size_t payload = tcp + (size_t)(segment[12] >> 4) * 4;
    size_t total = is_six ? 40u + ((size_t)packet[4] << 8 | packet[5]) : (size_t)packet[2] << 8 | packet[3];
    seen->hops = packet[is_six ? 7 : 8];
    seen->class = is_six ? (packet[0] & 15) << 4 | packet[1] >> 4 : packet[1];
    seen->flags = segment[13];
    seen->first = total > payload && length > (long long)payload ? packet[payload] : -1;
    return (segment[0] << 8 | segment[1]) == port;
}

/* The next segment from this port that has `flag`, or where that is 0, that begins with `first`. */
static struct seen await(int theirs, in_port_t port, int flag, int first)
{
    struct seen seen;
    uint8_t packet[2048];
    for (;;) {
        if (peer_poll(theirs, POLLIN, PATIENCE_MS) == 0) {
            errno = ETIMEDOUT;
            MUST(-1);
        }
        long long length = MUST(peer_recv(theirs, packet, sizeof packet, 0));
        if (is_ours(packet, length, port, &seen) && (flag ? seen.flags & flag : seen.first == first))
            return seen;
    }
}

static void choose(int socket, int hops, int class)
{
    if (family == AF_INET) {
        MUST(set_int(socket, IPPROTO_IP, IP_TTL, hops));
        MUST(set_int(socket, IPPROTO_IP, IP_TOS, class));
    } else {
        MUST(set_int(socket, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops));
        MUST(set_int(socket, IPPROTO_IPV6, IPV6_TCLASS, class));
    }
}

static void check_seen(const char *name, struct seen seen, int hops, int class)
{
    char text[64];
    snprintf(text, sizeof text, "%s_hops", name);
    check_int(text, seen.hops, hops);
    snprintf(text, sizeof text, "%s_class", name);
    check_int(text, seen.class, class);
}

static void check_data(int sniffing, int ours)
{
    in_port_t port = our_port(ours);
    MUST(send(ours, "1", 1, 0));
    check_seen("data", await(sniffing, port, 0, '1'), 33, 0x48);
    choose(ours, 44, 0xb8);
    MUST(send(ours, "2", 1, 0));
    check_seen("changed", await(sniffing, port, 0, '2'), 44, 0xb8);
}

/* Chosen before the connection begins: the SYN has it. */
static void of_ours(void)
{
    in_port_t port;
    int sniffing = sniffer(), listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    choose(ours, 33, 0x48);
    MUST(connect(ours, (struct sockaddr *)&address, address_length()));
    MUST(peer_accept(listener));
    check_seen("syn", await(sniffing, our_port(ours), SYN, 0), 33, 0x48);
    check_data(sniffing, ours);
}

/* Chosen for the listener: the SYN-ACK has it, and what is accepted. */
static void of_a_listener(void)
{
    int sniffing = sniffer(), listener = our_listener(4);
    struct sockaddr_storage address = name_of(listener);
    choose(listener, 33, 0x48);
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(theirs, &address, address_length()));
    check_seen("syn_ack", await(sniffing, our_port(listener), SYN, 0), 33, 0x48);
    check_data(sniffing, (int)MUST(accept(listener, NULL, NULL)));
}

/* An IPv6 socket that is connected over IPv4 has the fields of IPv4 in its packets. */
static void mapped(void)
{
    in_port_t port;
    int sniffing = sniffer(), listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&to.sin6_addr.s6_addr[12], &((struct sockaddr_in *)&address)->sin_addr, 4);
    int ours = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));
    MUST(set_int(ours, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 20));
    MUST(set_int(ours, IPPROTO_IPV6, IPV6_TCLASS, 0x20));
    choose(ours, 33, 0x48);
    MUST(connect(ours, (struct sockaddr *)&to, sizeof to));
    MUST(peer_accept(listener));
    check_data(sniffing, ours);
}

static const struct test tests[] = {
    {"of_ours", of_ours, FAMILIES},
    {"of_a_listener", of_a_listener, FAMILIES},
    {"mapped", mapped, ONCE},
};

SUBJECT(packets, tests);
