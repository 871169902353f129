// SPDX-License-Identifier: GPL-2.0
/*
 * Steers received frames: hot flows to the AF_XDP socket of the stack that owns them, everything else to the kernel.
 *
 * The verdicts are XDP_REDIRECT and XDP_PASS; whatever is not plainly an owned flow is passed, with a counter that says
 * why. One frame alone is dropped: the first fragment of a segment that a stack owns, as the kernel would put the segment
 * together and reset a connection that it does not know. Nothing is changed. docs/decisions/0009-steering.md gives the reasons.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "maps.h"
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

static void *(*const lookup)(const void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __u64 (*const monotonic_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const ask_route)(void *context, struct bpf_fib_lookup *question, int bytes, __u32 flags) =
	(void *)BPF_FUNC_fib_lookup;
static long (*const redirect)(const void *map, __u64 index, __u64 otherwise) = (void *)BPF_FUNC_redirect_map;

struct vlan_tag {
	__be16 control;
	__be16 type;
};

/* What is known of a frame, and how far it has been read. */
struct frame {
	const __u8 *at;
	const __u8 *end;
	const __u8 *destination;
	__be16 type;
	__u16 is_fragment; /* the first of several, of TCP: its ports are there, its segment is not */
	struct flow_key key;
};

/* A step of the way either settles what becomes of the frame or lets it go on. */
#define GO_ON (-1)

INLINE int is_vlan(__be16 type)
{
	return type == NET16(ETH_P_8021Q) || type == NET16(ETH_P_8021AD);
}

INLINE int read_tag(struct frame *frame, __u16 *vlan)
{
	const struct vlan_tag *tag = (const void *)frame->at;

	if ((const __u8 *)(tag + 1) > frame->end)
		return PASS_TRUNCATED;
	/* Number 0 carries a priority only: the frame belongs to no VLAN (IEEE 802.1Q, 9.6). */
	*vlan = NET16(tag->control) & 0xfff;
	frame->type = tag->type;
	frame->at += sizeof(*tag);
	return GO_ON;
}

INLINE int read_ethernet(struct frame *frame)
{
	const struct ethhdr *header = (const void *)frame->at;
	int reason;

	if ((const __u8 *)(header + 1) > frame->end)
		return PASS_TRUNCATED;
	frame->destination = header->h_dest;
	frame->type = header->h_proto;
	frame->at += sizeof(*header);
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

/* Of a segment in fragments: who it is for. The rest of the header may be in the next one. */
INLINE int read_ports(struct frame *frame, __u32 payload_bytes)
{
	const __be16 *ports = (const void *)frame->at;

	if ((const __u8 *)(ports + 2) > frame->end || payload_bytes < 2 * sizeof(*ports))
		return PASS_FRAGMENT;
	frame->key.remote_port = ports[0];
	frame->key.local_port = ports[1];
	return GO_ON;
}

/* The first words of the TCP or UDP header, and whether its lengths are those of the IP packet around it. */
INLINE int read_transport(struct frame *frame, __u32 payload_bytes)
{
	if (UNLIKELY(frame->is_fragment))
		return read_ports(frame, payload_bytes);
	if (frame->key.protocol == IPPROTO_UDP) {
		const struct udphdr *udp = (const void *)frame->at;

		if ((const __u8 *)(udp + 1) > frame->end || payload_bytes < sizeof(*udp) ||
		    NET16(udp->len) != payload_bytes)
			return PASS_BAD_TRANSPORT;
		frame->key.remote_port = udp->source;
		frame->key.local_port = udp->dest;
		return GO_ON;
	}
	if (frame->key.protocol == IPPROTO_TCP) {
		const struct tcphdr *tcp = (const void *)frame->at;

		if ((const __u8 *)(tcp + 1) > frame->end || tcp->doff < 5 || tcp->doff * 4 > payload_bytes)
			return PASS_BAD_TRANSPORT;
		frame->key.remote_port = tcp->source;
		frame->key.local_port = tcp->dest;
		return GO_ON;
	}
	return PASS_OTHER_PROTOCOL;
}

/* Senders that no host may have: the kernel drops and logs them as it is set up to. */
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
		return PASS_TRUNCATED;
	total_bytes = NET16(ip->tot_len);
	if (ip->version != 4 || ip->ihl < 5 || total_bytes < ip->ihl * 4u ||
	    total_bytes > (__u64)(frame->end - frame->at))
		return PASS_BAD_IP;
	/* More fragments to come, or not the first one. Datagrams are the kernel's to put together, and who a segment is for
	 * stands in its first fragment. */
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
	frame->at += ip->ihl * 4u;
	return read_transport(frame, total_bytes - ip->ihl * 4u);
}

/* What may stand between the IPv6 header and TCP or UDP (RFC 8200 and IANA's list); ESP hides what follows. */
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

/* As with IPv4; and a header that makes no fragment hides nothing (RFC 6946). */
INLINE int read_fragment_header(struct frame *frame, __u32 *payload_bytes)
{
	const struct fragment_header *header = (const void *)frame->at;

	if ((const __u8 *)(header + 1) > frame->end || *payload_bytes < sizeof(*header))
		return PASS_FRAGMENT;
	if (header->next != IPPROTO_TCP || header->place & NET16(0xfff8))
		return PASS_FRAGMENT;
	frame->is_fragment = (header->place & NET16(1)) != 0;
	frame->key.protocol = IPPROTO_TCP;
	frame->at += sizeof(*header);
	*payload_bytes -= sizeof(*header);
	return GO_ON;
}

INLINE int is_odd_ipv6_source(const struct in6_addr *source)
{
	const __u32 *words = source->in6_u.u6_addr32;

	if (source->in6_u.u6_addr8[0] == 0xff)
		return 1;
	/* Unspecified, loopback, and IPv4 in disguise: nothing of ::/64 is on a wire. */
	return words[0] == 0 && words[1] == 0;
}

INLINE int read_ipv6(struct frame *frame)
{
	const struct ipv6hdr *ip = (const void *)frame->at;
	__u32 payload_bytes;
	int reason;

	if ((const __u8 *)(ip + 1) > frame->end)
		return PASS_TRUNCATED;
	payload_bytes = NET16(ip->payload_len);
	if (ip->version != 6 || payload_bytes + sizeof(*ip) > (__u64)(frame->end - frame->at))
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

INLINE int is_multicast(const struct flow_key *key)
{
	return key->family == FAMILY_IPV4 ? (key->local[0] & 0xf0) == 0xe0 : key->local[0] == 0xff;
}

/* RFC 1112, 6.4: 01:00:5e and 23 bits of the group. RFC 2464, 7: 33:33 and 32 bits of it. */
INLINE int is_mac_of_group(const __u8 *mac, const struct flow_key *key)
{
	const __u8 *group = key->local;

	if (key->family == FAMILY_IPV4)
		return mac[0] == 0x01 && mac[1] == 0x00 && mac[2] == 0x5e && mac[3] == (group[1] & 0x7f) &&
		       mac[4] == group[2] && mac[5] == group[3];
	return mac[0] == 0x33 && mac[1] == 0x33 && mac[2] == group[12] && mac[3] == group[13] &&
	       mac[4] == group[14] && mac[5] == group[15];
}

INLINE int is_mac_of_host(const __u8 *mac, const struct config *settings)
{
	const __u8 *own = settings->mac;

	return mac[0] == own[0] && mac[1] == own[1] && mac[2] == own[2] && mac[3] == own[3] && mac[4] == own[4] &&
	       mac[5] == own[5];
}

#define FAMILY_OF_IPV4_ROUTES 2 /* AF_INET */
#define FAMILY_OF_IPV6_ROUTES 10 /* AF_INET6 */

/* Whether the kernel would send the packet on, to a container or another host: it is to our Ethernet address, but not to
 * an address of ours. Only a listener for any address can match such a packet; only an interface that forwards asks its
 * routes. A packet that is neither ours nor forwarded is the stack's to ignore, as it would be the kernel's. */
INLINE int is_forwarded(struct xdp_md *context, const struct flow_key *flow)
{
	struct bpf_fib_lookup question = {
		.l4_protocol = flow->protocol,
		.sport = flow->remote_port,
		.dport = flow->local_port,
		.ifindex = context->ingress_ifindex,
	};
	long answer;

	if (flow->family == FAMILY_IPV4) {
		question.family = FAMILY_OF_IPV4_ROUTES;
		__builtin_memcpy(&question.ipv4_src, flow->remote, 4);
		__builtin_memcpy(&question.ipv4_dst, flow->local, 4);
	} else {
		question.family = FAMILY_OF_IPV6_ROUTES;
		__builtin_memcpy(question.ipv6_src, flow->remote, 16);
		__builtin_memcpy(question.ipv6_dst, flow->local, 16);
	}
	answer = ask_route(context, &question, sizeof(question), 0);
	return answer != BPF_FIB_LKUP_RET_NOT_FWDED && answer != BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* The most specific entry wins, as with the kernel's sockets: address before VLAN before neither. */
INLINE const struct owner *find_listener(const struct flow_key *flow, int *any_address)
{
	struct listener_key key = {
		.local_port = flow->local_port,
		.outer_vlan = flow->outer_vlan,
		.inner_vlan = flow->inner_vlan,
		.protocol = flow->protocol,
		.family = flow->family,
	};
	const struct owner *owner;

	__builtin_memcpy(key.local, flow->local, ADDRESS_BYTES);
	owner = lookup(&listeners, &key);
	if (owner)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	owner = lookup(&listeners, &key);
	if (owner)
		return owner;
	*any_address = 1;
	__builtin_memset(key.local, 0, ADDRESS_BYTES);
	key.outer_vlan = flow->outer_vlan;
	key.inner_vlan = flow->inner_vlan;
	owner = lookup(&listeners, &key);
	if (owner)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	return lookup(&listeners, &key);
}

/* The channel with its sender before the group from anybody (RFC 4607). */
INLINE const struct owner *find_group(const struct flow_key *flow)
{
	struct group_key key = {
		.port = flow->local_port,
		.outer_vlan = flow->outer_vlan,
		.inner_vlan = flow->inner_vlan,
		.family = flow->family,
	};
	const struct owner *owner;

	__builtin_memcpy(key.group, flow->local, ADDRESS_BYTES);
	__builtin_memcpy(key.source, flow->remote, ADDRESS_BYTES);
	owner = lookup(&groups, &key);
	if (owner)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	owner = lookup(&groups, &key);
	if (owner)
		return owner;
	__builtin_memset(key.source, 0, ADDRESS_BYTES);
	key.outer_vlan = flow->outer_vlan;
	key.inner_vlan = flow->inner_vlan;
	owner = lookup(&groups, &key);
	if (owner)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	return lookup(&groups, &key);
}

/* Who gets the frame; a reason to pass it when nobody does. */
INLINE int find_owner(struct xdp_md *context, const struct frame *frame, const struct config *settings,
		      const struct owner **owner)
{
	int any_address = 0;

	if (is_multicast(&frame->key)) {
		if (!is_mac_of_group(frame->destination, &frame->key))
			return PASS_FOREIGN_MAC;
		if (frame->key.protocol != IPPROTO_UDP)
			return PASS_NO_GROUP;
		*owner = find_group(&frame->key);
		return *owner ? REDIRECT_GROUP : PASS_NO_GROUP;
	}
	/* Broadcast, multicast, and what a promiscuous interface sees of others: never ours to take. */
	if (!is_mac_of_host(frame->destination, settings))
		return PASS_FOREIGN_MAC;
	*owner = lookup(&flows, &frame->key);
	if (*owner)
		return REDIRECT_FLOW;
	*owner = find_listener(&frame->key, &any_address);
	if (!*owner)
		return PASS_NO_ENTRY;
	if (any_address && is_forwarded(context, &frame->key)) {
		*owner = 0;
		return PASS_FORWARDED;
	}
	return REDIRECT_LISTENER;
}

/* Stale: further away from now than the deadline. Clocks of two processors may differ a little, so a beat may lie ahead;
 * one that lies far ahead was not taken from the clock. */
INLINE int is_stale(__u32 stack, __u64 deadline_ns)
{
	const struct heartbeat *heartbeat;
	void *own_map = lookup(&heartbeats, &stack);
	__u32 first = 0;
	__u64 now_ns, beat_ns;

	if (!own_map)
		return 1;
	heartbeat = lookup(own_map, &first);
	if (!heartbeat)
		return 1;
	beat_ns = *(const volatile __u64 *)&heartbeat->beat_ns;
	now_ns = monotonic_ns();
	return now_ns - beat_ns > deadline_ns && beat_ns - now_ns > deadline_ns;
}

/* A datagram is better with the kernel's socket than in a ring that nobody reads. A segment is not: the kernel knows none of
 * the connections and resets them, so segments wait in the ring, and are sent again, until the owner is taken for lost. One
 * that has died has no socket any more. */
INLINE __u64 patience_ns(const struct config *settings, const struct flow_key *flow)
{
	return flow->protocol == IPPROTO_TCP ? TCP_DEADLINES * settings->deadline_ns : settings->deadline_ns;
}

/* The reason `found` if the owner can have the frame now, else why it cannot. */
INLINE int deliver(struct xdp_md *context, const struct config *settings, const struct flow_key *flow,
		   const struct owner *owner, int found)
{
	__u32 stack = owner->stack;
	__u32 queue = context->rx_queue_index;
	const struct stack *row = lookup(&stacks, &stack);

	if (UNLIKELY(!row || !row->live))
		return PASS_STACK_GONE;
	if (UNLIKELY(context->data_end - context->data > row->frame_bytes_max))
		return PASS_TOO_LONG;
	if (UNLIKELY(is_stale(stack, patience_ns(settings, flow))))
		return PASS_STALE;
	if (UNLIKELY(queue >= QUEUES_MAX))
		return PASS_QUEUE;
	/* Without a socket at this index the helper returns its last argument. */
	if (redirect(&sockets, stack * QUEUES_MAX + queue, XDP_PASS) != XDP_REDIRECT)
		return PASS_NO_SOCKET;
	return found;
}

INLINE int judge(struct xdp_md *context)
{
	struct frame frame = {
		.at = (const void *)(long)context->data,
		.end = (const void *)(long)context->data_end,
	};
	const struct owner *owner = 0;
	const struct config *settings;
	__u32 first = 0;
	int reason;

	settings = lookup(&config, &first);
	if (!settings || !settings->enabled)
		return PASS_DISABLED;
	reason = read_frame(&frame);
	if (reason != GO_ON)
		return reason;
	reason = find_owner(context, &frame, settings, &owner);
	if (!owner)
		return frame.is_fragment ? PASS_FRAGMENT : reason;
	reason = deliver(context, settings, &frame.key, owner, reason);
	/* Who would have the segment lives, and its sender sends again what is not acknowledged. */
	if (UNLIKELY(frame.is_fragment) && reason <= REDIRECT_GROUP)
		return DROP_FRAGMENT;
	return reason;
}

SEC("xdp")
int sidestep_steer(struct xdp_md *context)
{
	__u32 reason = judge(context);
	__u64 *counter = lookup(&counters, &reason);

	if (counter)
		++*counter;
	if (reason <= REDIRECT_GROUP)
		return XDP_REDIRECT;
	return reason == DROP_FRAGMENT ? XDP_DROP : XDP_PASS;
}

char licence_for_kernel[] SEC("license") = "GPL";
