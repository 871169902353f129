// SPDX-License-Identifier: GPL-2.0
/*
 * Steers received frames: hot flows to the AF_XDP socket of the stack that owns them, everything else to the kernel.
 *
 * The verdicts are XDP_REDIRECT and XDP_PASS: a frame that is not certainly of an owned flow is passed, and counted by
 * reason. Packets of feeds are copied into rings before that (feeds.h), and dropped if the feed has them for itself.
 * Three other kinds of frames are dropped, because the kernel would reset a connection that it does not know: the
 * first fragment of a stack's segment, which the kernel would reassemble; a segment that comes by a queue on which its
 * living owner has no socket; and one that is longer than that socket accepts. Frames are not modified.
 * docs/decisions/0009-steering.md has the reasons.
 *
 * It is compiled twice: with XDP_FRAGS for kernels with frames of several buffers (Linux 5.18), where a driver accepts
 * it at an MTU above a page, and without for older ones (docs/decisions/0024-jumbo-frames.md).
 */
#include <linux/bpf.h>
#include <linux/in.h>

#include "frame.h"
#include "maps.h"
#include "steer.h"

static void *(*const lookup)(const void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
/* CLOCK_MONOTONIC as of the last tick: a deadline is several ticks long, and reading the clock itself takes longer. */
static __u64 (*const monotonic_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static long (*const ask_route)(void *context, struct bpf_fib_lookup *question, int bytes, __u32 flags) =
	(void *)BPF_FUNC_fib_lookup;
/* Finds the kernel's sockets by their state, also connecting ones and those in TIME-WAIT, in the device's network
 * namespace. */
static struct bpf_sock *(*const find_socket)(void *context, struct bpf_sock_tuple *tuple, __u32 bytes, __u64 netns,
					     __u64 flags) = (void *)BPF_FUNC_skc_lookup_tcp;
static long (*const release_socket)(void *socket) = (void *)BPF_FUNC_sk_release;
static long (*const redirect)(const void *map, __u64 index, __u64 otherwise) = (void *)BPF_FUNC_redirect_map;

/* Bytes of the frame after the first buffer, the only one that the program reads. */
INLINE __u32 bytes_beyond(struct xdp_md *context)
{
#ifdef XDP_FRAGS
	static __u64 (*const whole_bytes)(struct xdp_md *context) = (void *)BPF_FUNC_xdp_get_buff_len;
	/* The verifier subtracts pointers in 64 bits only. */
	__s64 first_bytes = (const __u8 *)(long)context->data_end - (const __u8 *)(long)context->data;

	return whole_bytes(context) - first_bytes;
#else
	(void)context;
	return 0;
#endif
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

/* Returns whether the kernel would forward the packet, to a container or another host: it is to our Ethernet address,
 * but not to one of our IP addresses. Only a listener for any address can match such a packet, and only on an interface
 * that forwards are the routes looked up. A packet that is neither ours nor forwarded is for the stack to ignore, as the
 * kernel would. Not inline: its callers have little stack. */
static __attribute__((noinline)) int is_forwarded(struct xdp_md *context, const struct flow_key *flow)
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

/* The most specific entry wins, as among the kernel's sockets: address before VLAN before neither. */
INLINE const struct owner *find_listener(const struct flow_key *flow, __u8 none, int *any_address)
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
	if (!(none & NONE_OF_ANY_VLAN)) {
		key.outer_vlan = VLAN_ANY;
		key.inner_vlan = 0;
		owner = lookup(&listeners, &key);
		if (owner)
			return owner;
		key.outer_vlan = flow->outer_vlan;
		key.inner_vlan = flow->inner_vlan;
	}
	*any_address = 1;
	__builtin_memset(key.local, 0, ADDRESS_BYTES);
	owner = lookup(&listeners, &key);
	if (owner || none & NONE_OF_ANY_VLAN)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	return lookup(&listeners, &key);
}

/* The channel with its source before the group from any source (RFC 4607). */
INLINE const struct owner *find_group(const struct flow_key *flow, __u8 none)
{
	struct group_key key = {
		.port = flow->local_port,
		.outer_vlan = flow->outer_vlan,
		.inner_vlan = flow->inner_vlan,
		.family = flow->family,
	};
	const struct owner *owner;

	__builtin_memcpy(key.group, flow->local, ADDRESS_BYTES);
	if (!(none & NONE_WITH_SOURCE)) {
		__builtin_memcpy(key.source, flow->remote, ADDRESS_BYTES);
		owner = lookup(&groups, &key);
		if (owner)
			return owner;
		if (!(none & NONE_OF_ANY_VLAN)) {
			key.outer_vlan = VLAN_ANY;
			key.inner_vlan = 0;
			owner = lookup(&groups, &key);
			if (owner)
				return owner;
			key.outer_vlan = flow->outer_vlan;
			key.inner_vlan = flow->inner_vlan;
		}
		__builtin_memset(key.source, 0, ADDRESS_BYTES);
	}
	owner = lookup(&groups, &key);
	if (owner || none & NONE_OF_ANY_VLAN)
		return owner;
	key.outer_vlan = VLAN_ANY;
	key.inner_vlan = 0;
	return lookup(&groups, &key);
}

/* Returns whether the kernel has a socket for the segment. If a stack has connections on the same port: a listener gets
 * segments that open a connection, and a connecting socket those that end its SYN-SENT state, as the kernel would reset
 * the sender of any other. */
INLINE int is_kernels(struct xdp_md *context, const struct frame *frame)
{
	const struct flow_key *flow = &frame->key;
	struct bpf_sock_tuple tuple = { 0 };
	struct bpf_sock *socket;
	__u32 state;

	if (flow->family == FAMILY_IPV4) {
		__builtin_memcpy(&tuple.ipv4.saddr, flow->remote, 4);
		__builtin_memcpy(&tuple.ipv4.daddr, flow->local, 4);
		tuple.ipv4.sport = flow->remote_port;
		tuple.ipv4.dport = flow->local_port;
		socket = find_socket(context, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, flow->remote, ADDRESS_BYTES);
		__builtin_memcpy(tuple.ipv6.daddr, flow->local, ADDRESS_BYTES);
		tuple.ipv6.sport = flow->remote_port;
		tuple.ipv6.dport = flow->local_port;
		socket = find_socket(context, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	if (!socket)
		return 0;
	state = socket->state;
	release_socket(socket);
	if (state == BPF_TCP_LISTEN)
		return (frame->tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_RST | TCP_FLAG_ACK)) == TCP_FLAG_SYN;
	if (state == BPF_TCP_SYN_SENT)
		return (frame->tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_RST)) != 0;
	return 1;
}

/* Finds the stack for which control has reserved the port. A tag's device may be in another namespace, where the port
 * has another owner: connections of VLANs have flows. Control's socket keeps such a port from others. If control is
 * killed, the kernel gives the port to others: none of their connections begins without a SYN or ends that without an
 * answer, so these segments are looked up, and on a port with a kernel connection, all segments. */
INLINE int find_port(struct xdp_md *context, const struct frame *frame, struct owner *owner)
{
	const struct flow_key *flow = &frame->key;
	__u32 port = NET16(flow->local_port);
	struct port_owner *row;

	if (flow->protocol != IPPROTO_TCP || flow->outer_vlan)
		return PASS_NO_ENTRY;
	row = lookup(&ports, &port);
	if (!row || !row->stack_plus_one)
		return PASS_NO_ENTRY;
	if (UNLIKELY(row->is_shared || frame->tcp_flags & (TCP_FLAG_SYN | TCP_FLAG_RST)) &&
	    is_kernels(context, frame)) {
		/* A written cache line is taken away from the CPUs of other queues. */
		if (!row->is_shared)
			row->is_shared = 1;
		return PASS_KERNEL_SOCKET;
	}
	owner->stack = row->stack_plus_one - 1;
	return is_forwarded(context, flow) ? PASS_FORWARDED : REDIRECT_PORT;
}

/* Decides about a flow that was handed over to the kernel, or is about to be. */
INLINE int share(struct xdp_md *context, const struct frame *frame, struct owner *owner)
{
	if (owner->stack == OWNER_KERNEL || is_kernels(context, frame))
		return PASS_HANDED_OVER;
	owner->stack &= ~SHARED;
	return REDIRECT_FLOW;
}

#include "feeds.h"

INLINE int is_redirect(int reason)
{
	return reason <= REDIRECT_PORT;
}

INLINE int is_drop(int reason)
{
	return reason == DROP_FRAGMENT || reason == DROP_QUEUE || reason == DROP_TOO_LONG || reason == DROP_RING;
}

/* Finds the owner of the frame; returns a reason to pass it if there is none. */
INLINE int find_owner(struct xdp_md *context, const struct frame *frame, const struct config *settings,
		      struct owner *owner)
{
	const struct owner *found;
	int reason, any_address = 0;

	if (is_multicast(&frame->key)) {
		if (!is_mac_of_group(frame->destination, &frame->key))
			return PASS_FOREIGN_MAC;
		if (frame->key.protocol != IPPROTO_UDP)
			return PASS_NO_GROUP;
		found = find_group(&frame->key, settings->none);
		if (!found)
			return PASS_NO_GROUP;
		*owner = *found;
		return REDIRECT_GROUP;
	}
	/* Broadcast, multicast, and frames of others on a promiscuous interface: never taken. */
	if (!is_mac_of_host(frame->destination, settings))
		return PASS_FOREIGN_MAC;
	/* Control holds such a port, so no flow or listener exists for it. */
	reason = find_port(context, frame, owner);
	if (reason != PASS_NO_ENTRY)
		return reason;
	found = lookup(&flows, &frame->key);
	if (found) {
		*owner = *found;
		return UNLIKELY(owner->stack & SHARED) ? share(context, frame, owner) : REDIRECT_FLOW;
	}
	found = find_listener(&frame->key, settings->none, &any_address);
	if (!found)
		return PASS_NO_ENTRY;
	if (any_address && is_forwarded(context, &frame->key))
		return PASS_FORWARDED;
	*owner = *found;
	return REDIRECT_LISTENER;
}

/* Stale: further away from now than the deadline. Clocks of two CPUs may differ a little, so a heartbeat may lie ahead;
 * one that lies far ahead was not read from the clock. */
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

/* A datagram is better delivered to the kernel's socket than put into a ring that is not read. A segment is not: the
 * kernel does not know the connections and resets them, so segments wait in the ring, and are retransmitted, until the
 * owner counts as lost. A dead owner has no socket any more. */
INLINE __u64 patience_ns(const struct config *settings, const struct flow_key *flow, const struct stack *row)
{
	return flow->protocol == IPPROTO_TCP ? row->tcp_deadlines * settings->deadline_ns : settings->deadline_ns;
}

/* The owner has no socket on this queue. A datagram goes to the kernel's socket. A segment is better dropped than
 * passed, as long as its owner lives: its sender retransmits it, and Linux by another queue (net.core.txrehash). */
INLINE int miss(const struct stack *row, __u32 stack, __u32 queue, const struct flow_key *flow)
{
	__u32 first = stack * QUEUES_MAX + row->first_queue;

	if (flow->protocol == IPPROTO_TCP && lookup(&sockets, &first))
		return DROP_QUEUE;
	return queue >= QUEUES_MAX ? PASS_QUEUE : PASS_NO_SOCKET;
}

/* Returns `found` if the owner can have the frame now, else the reason why it cannot. */
INLINE int deliver(struct xdp_md *context, const struct config *settings, const struct frame *frame,
		   const struct owner *owner, int found)
{
	const struct flow_key *flow = &frame->key;
	__u32 stack = owner->stack;
	__u32 queue = context->rx_queue_index;
	const struct stack *row = lookup(&stacks, &stack);
	int is_too_long;

	if (UNLIKELY(!row || !row->live))
		return PASS_STACK_GONE;
	is_too_long = context->data_end - context->data + frame->beyond > row->frame_bytes_max;
	if (UNLIKELY(is_too_long) && flow->protocol != IPPROTO_TCP)
		return PASS_TOO_LONG;
	if (UNLIKELY(is_stale(stack, patience_ns(settings, flow, row))))
		return PASS_STALE;
	/* Without a socket at this index the helper returns its last argument. */
	if (UNLIKELY(queue >= QUEUES_MAX) ||
	    redirect(&sockets, stack * QUEUES_MAX + queue, XDP_PASS) != XDP_REDIRECT)
		return miss(row, stack, queue, flow);
	return UNLIKELY(is_too_long) ? DROP_TOO_LONG : found;
}

INLINE int decide(struct xdp_md *context)
{
	struct frame frame = {
		.at = (const void *)(long)context->data,
		.end = (const void *)(long)context->data_end,
		.beyond = bytes_beyond(context),
	};
	struct owner owner = { 0 };
	const struct config *settings;
	__u32 first = 0;
	int reason;

	settings = lookup(&config, &first);
	if (!settings || !settings->enabled)
		return PASS_DISABLED;
	reason = read_frame(&frame);
	if (reason != GO_ON)
		return reason;
	if (UNLIKELY(~settings->none & NONE_IN_RINGS) && copy_to_feeds(context, &frame))
		return DROP_RING;
	reason = find_owner(context, &frame, settings, &owner);
	if (!is_redirect(reason))
		return frame.is_fragment ? PASS_FRAGMENT : reason;
	reason = deliver(context, settings, &frame, &owner, reason);
	/* The owner of the segment lives, and its sender retransmits unacknowledged data. */
	if (UNLIKELY(frame.is_fragment) && is_redirect(reason))
		return DROP_FRAGMENT;
	return reason;
}

#ifdef XDP_FRAGS
SEC("xdp.frags")
#else
SEC("xdp")
#endif
int sidestep_steer(struct xdp_md *context)
{
	__u32 reason = decide(context);
	__u64 *counter = lookup(&counters, &reason);

	if (counter)
		++*counter;
	if (is_redirect(reason))
		return XDP_REDIRECT;
	return is_drop(reason) ? XDP_DROP : XDP_PASS;
}

char licence_for_kernel[] SEC("license") = "GPL";
