/* SPDX-License-Identifier: GPL-2.0 */
/* Parsing of a frame as far as needed to find its owner: Ethernet, tags, IP, the ports. Every byte is untrusted. */
#ifndef SIDESTEP_FRAME_H
#define SIDESTEP_FRAME_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "steer.h"

#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NET16(value) ((__be16)__builtin_bswap16(value))
#define NET32(value) ((__be32)__builtin_bswap32(value))
#else
#define NET16(value) ((__be16)(value))
#define NET32(value) ((__be32)(value))
#endif

/* Flags of the TCP header (RFC 9293, 3.1). */
#define TCP_FLAGS_AT 13
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_RST 0x04
#define TCP_FLAG_ACK 0x10

struct vlan_tag {
	__be16 control;
	__be16 type;
};

/* The facts of a frame, and the parser's position. */
struct frame {
	const __u8 *at;
	const __u8 *end; /* of the first buffer */
	__u32 beyond;    /* bytes of the frame behind it */
	const __u8 *destination;
	__u32 packet_bytes; /* of the IP packet, without padding behind it */
	__u16 packet_at;    /* offset of the IP header in the frame */
	__u16 transport_at; /* of the TCP or UDP header */
	__u16 header_bytes; /* of that header */
	__be16 type;
	__u8 is_fragment; /* the first of several, of TCP: its ports are there, its segment is not */
	__u8 tcp_flags;   /* 0 in a fragment */
	struct flow_key key;
};

/* A parsing step either decides the frame's outcome or continues. */
#define GO_ON (-1)

/* A header does not end in the first buffer: the others are not read. No driver splits a frame inside the headers that
 * are read here. */
INLINE int not_whole(const struct frame *frame, int reason)
{
	return frame->beyond ? PASS_SPLIT_HEADER : reason;
}

/* Bytes from the parser's position to the end of the frame. */
INLINE __u64 bytes_left(const struct frame *frame)
{
	return (__u64)(frame->end - frame->at) + frame->beyond;
}

INLINE int is_vlan(__be16 type)
{
	return type == NET16(ETH_P_8021Q) || type == NET16(ETH_P_8021AD);
}

INLINE int read_tag(struct frame *frame, __u16 *vlan)
{
	const struct vlan_tag *tag = (const void *)frame->at;

	if ((const __u8 *)(tag + 1) > frame->end)
		return not_whole(frame, PASS_TRUNCATED);
	/* Id 0 carries a priority only: the frame belongs to no VLAN (IEEE 802.1Q, 9.6). */
	*vlan = NET16(tag->control) & 0xfff;
	frame->type = tag->type;
	frame->at += sizeof(*tag);
	frame->packet_at += sizeof(*tag);
	return GO_ON;
}

INLINE int read_ethernet(struct frame *frame)
{
	const struct ethhdr *header = (const void *)frame->at;
	int reason;

	if ((const __u8 *)(header + 1) > frame->end)
		return not_whole(frame, PASS_TRUNCATED);
	frame->destination = header->h_dest;
	frame->type = header->h_proto;
	frame->at += sizeof(*header);
	frame->packet_at = sizeof(*header);
	if (!is_vlan(frame->type))
		return GO_ON;
	reason = read_tag(frame, &frame->key.outer_vlan);
	if (reason != GO_ON || !is_vlan(frame->type))
		return reason;
	reason = read_tag(frame, &frame->key.inner_vlan);
	if (reason != GO_ON || !is_vlan(frame->type))
		return reason;
	return PASS_VLAN_DEPTH;
}

/* The ports of a segment in fragments. The rest of the header may be in the next one. */
INLINE int read_ports(struct frame *frame, __u32 payload_bytes)
{
	const __be16 *ports = (const void *)frame->at;

	if ((const __u8 *)(ports + 2) > frame->end)
		return not_whole(frame, PASS_FRAGMENT);
	if (payload_bytes < 2 * sizeof(*ports))
		return PASS_FRAGMENT;
	frame->key.remote_port = ports[0];
	frame->key.local_port = ports[1];
	return GO_ON;
}

/* The first words of the TCP or UDP header, and a check of its lengths against the IP packet. */
INLINE int read_transport(struct frame *frame, __u32 payload_bytes)
{
	if (UNLIKELY(frame->is_fragment))
		return read_ports(frame, payload_bytes);
	if (frame->key.protocol == IPPROTO_UDP) {
		const struct udphdr *udp = (const void *)frame->at;

		frame->header_bytes = sizeof(*udp);
		if ((const __u8 *)(udp + 1) > frame->end)
			return not_whole(frame, PASS_BAD_TRANSPORT);
		if (payload_bytes < sizeof(*udp) || NET16(udp->len) != payload_bytes)
			return PASS_BAD_TRANSPORT;
		frame->key.remote_port = udp->source;
		frame->key.local_port = udp->dest;
		return GO_ON;
	}
	if (frame->key.protocol == IPPROTO_TCP) {
		const struct tcphdr *tcp = (const void *)frame->at;

		if ((const __u8 *)(tcp + 1) > frame->end)
			return not_whole(frame, PASS_BAD_TRANSPORT);
		if (tcp->doff < 5 || tcp->doff * 4 > payload_bytes)
			return PASS_BAD_TRANSPORT;
		frame->tcp_flags = frame->at[TCP_FLAGS_AT];
		frame->header_bytes = tcp->doff * 4u;
		frame->key.remote_port = tcp->source;
		frame->key.local_port = tcp->dest;
		return GO_ON;
	}
	return PASS_OTHER_PROTOCOL;
}

/* Source addresses that no host may have: the kernel drops and logs them as configured. */
INLINE int is_odd_ipv4_source(__be32 source)
{
	__u32 first = NET32(source) >> 24;

	return first == 0 || first == 127 || first >= 224;
}

INLINE int read_ipv4(struct frame *frame)
{
	const struct iphdr *ip = (const void *)frame->at;
	__u32 total_bytes;

	if ((const __u8 *)(ip + 1) > frame->end)
		return not_whole(frame, PASS_TRUNCATED);
	total_bytes = NET16(ip->tot_len);
	if (ip->version != 4 || ip->ihl < 5 || total_bytes < ip->ihl * 4u ||
	    total_bytes > bytes_left(frame))
		return PASS_BAD_IP;
	/* More fragments follow, or it is not the first one. The kernel reassembles datagrams; the ports of a segment
	 * are in its first fragment. */
	if (UNLIKELY(ip->frag_off & NET16(0x3fff))) {
		if (ip->protocol != IPPROTO_TCP || ip->frag_off & NET16(0x1fff))
			return PASS_FRAGMENT;
		frame->is_fragment = 1;
	}
	/* TCP ignores options (RFC 9293, 3.9.2), and the kernel would reset the connection. */
	if (UNLIKELY(ip->ihl != 5) && ip->protocol != IPPROTO_TCP)
		return PASS_IP_OPTIONS;
	if (ip->protocol == IPPROTO_ICMP)
		return PASS_ICMP;
	if (is_odd_ipv4_source(ip->saddr))
		return PASS_ODD_SOURCE;
	frame->key.family = FAMILY_IPV4;
	frame->key.protocol = ip->protocol;
	__builtin_memcpy(frame->key.local, &ip->daddr, 4);
	__builtin_memcpy(frame->key.remote, &ip->saddr, 4);
	frame->packet_bytes = total_bytes;
	frame->transport_at = frame->packet_at + ip->ihl * 4u;
	frame->at += ip->ihl * 4u;
	return read_transport(frame, total_bytes - ip->ihl * 4u);
}

/* Extension headers between the IPv6 header and TCP or UDP (RFC 8200 and IANA's list); ESP hides what follows. */
INLINE int is_extension(__u8 next)
{
	return next == 0 || next == 43 || next == 51 || next == 60 || next == 135 || next == 139 || next == 140;
}

/* RFC 8200, 4.5. */
struct fragment_header {
	__u8 next;
	__u8 reserved;
	__be16 place;
	__be32 number;
};

/* As with IPv4; a header of an atomic fragment hides nothing (RFC 6946). */
INLINE int read_fragment_header(struct frame *frame, __u32 *payload_bytes)
{
	const struct fragment_header *header = (const void *)frame->at;

	if ((const __u8 *)(header + 1) > frame->end)
		return not_whole(frame, PASS_FRAGMENT);
	if (*payload_bytes < sizeof(*header))
		return PASS_FRAGMENT;
	if (header->next != IPPROTO_TCP || header->place & NET16(0xfff8))
		return PASS_FRAGMENT;
	frame->is_fragment = (header->place & NET16(1)) != 0;
	frame->key.protocol = IPPROTO_TCP;
	frame->at += sizeof(*header);
	frame->transport_at += sizeof(*header);
	*payload_bytes -= sizeof(*header);
	return GO_ON;
}

INLINE int is_odd_ipv6_source(const struct in6_addr *source)
{
	const __u32 *words = source->in6_u.u6_addr32;

	if (source->in6_u.u6_addr8[0] == 0xff)
		return 1;
	/* Unspecified, loopback, and embedded IPv4: no packet of ::/64 is on a wire. */
	return words[0] == 0 && words[1] == 0;
}

INLINE int read_ipv6(struct frame *frame)
{
	const struct ipv6hdr *ip = (const void *)frame->at;
	__u32 payload_bytes;
	int reason;

	if ((const __u8 *)(ip + 1) > frame->end)
		return not_whole(frame, PASS_TRUNCATED);
	payload_bytes = NET16(ip->payload_len);
	if (ip->version != 6 || payload_bytes + sizeof(*ip) > bytes_left(frame))
		return PASS_BAD_IP;
	if (is_extension(ip->nexthdr))
		return PASS_IPV6_EXTENSION;
	if (ip->nexthdr == IPPROTO_ICMPV6)
		return PASS_ICMP;
	if (is_odd_ipv6_source(&ip->saddr))
		return PASS_ODD_SOURCE;
	frame->key.family = FAMILY_IPV6;
	frame->key.protocol = ip->nexthdr;
	__builtin_memcpy(frame->key.local, &ip->daddr, 16);
	__builtin_memcpy(frame->key.remote, &ip->saddr, 16);
	frame->packet_bytes = payload_bytes + sizeof(*ip);
	frame->transport_at = frame->packet_at + sizeof(*ip);
	frame->at += sizeof(*ip);
	if (UNLIKELY(ip->nexthdr == IPPROTO_FRAGMENT)) {
		reason = read_fragment_header(frame, &payload_bytes);
		if (reason != GO_ON)
			return reason;
	}
	return read_transport(frame, payload_bytes);
}

INLINE int read_frame(struct frame *frame)
{
	int reason = read_ethernet(frame);

	if (reason != GO_ON)
		return reason;
	if (frame->type == NET16(ETH_P_IP))
		return read_ipv4(frame);
	if (frame->type == NET16(ETH_P_IPV6))
		return read_ipv6(frame);
	return PASS_NOT_IP;
}

#endif
