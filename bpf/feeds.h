/* SPDX-License-Identifier: GPL-2.0 */
/* Feeds: packets copied into rings that processes map read-only (docs/decisions/0036-rings-fed-by-the-kernel.md). */
#ifndef SIDESTEP_FEEDS_H
#define SIDESTEP_FEEDS_H

#include "frame.h"
#include "maps.h"
#include "steer.h"

static __u64 (*const precise_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const output)(void *ring, const void *data, __u64 bytes, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;

/* Attempts to begin with a ring that another CPU writes: a publish takes some 100 ns. */
#define BUSY_TURNS_MAX 32

/* A packet that is to be copied. */
struct packet {
	struct ring_packet facts;
	__u32 at; /* offset of the IP header in the frame */
	__u32 bytes;
	__u8 destination[6]; /* the frame's Ethernet address */
	__u16 zero;
};

#ifdef XDP_FRAGS
INLINE int copy_packet(struct xdp_md *context, __u32 at, __u8 *to, __u32 bytes)
{
	static long (*const load)(struct xdp_md *context, __u32 at, void *to, __u32 bytes) =
		(void *)BPF_FUNC_xdp_load_bytes;

	return load(context, at, to, bytes) == 0;
}
#else
/* Words of the longest frame of one page. */
#define COPY_WORDS_MAX 440

/* Without the helper, which is of Linux 5.18. The odd bytes come first: behind a loop the verifier goes on once for each
 * turn by which it may have been left. */
INLINE int copy_packet(struct xdp_md *context, __u32 at, __u8 *to, __u32 bytes)
{
	const __u8 *end = (const void *)(long)context->data_end;
	const __u8 *from = (const __u8 *)(long)context->data + (at & 0x3f);
	__u32 whole = bytes & 0xff8;
	__u32 byte, word;

	if (bytes > COPY_WORDS_MAX * 8)
		return 0;
	for (byte = 0; byte < 7; byte++) {
		if (byte >= (bytes & 7))
			break;
		if (from + whole + byte + 1 > end)
			return 0;
		to[whole + byte] = from[whole + byte];
	}
	for (word = 0; word < COPY_WORDS_MAX; word++) {
		if (word * 8 + 8 > bytes)
			break;
		if (from + 8 > end)
			return 0;
		*(volatile __u64 *)(to + word * 8) = *(const __u64 *)from;
		from += 8;
	}
	return 1;
}
#endif

/* The number of the lowest bit that is set. Without a branch: the verifier walks both ways of each. */
INLINE __u32 lowest_bit(__u64 set)
{
	__u64 below = (set & -set) - 1;

	below -= below >> 1 & 0x5555555555555555;
	below = (below & 0x3333333333333333) + (below >> 2 & 0x3333333333333333);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return below * 0x0101010101010101 >> 56;
}

/* Keeps a second writer out, as a queue's packets may be on several CPUs in generic mode. */
INLINE int begin_with(struct ring_state *state)
{
	int turn;

	for (turn = 0; turn < BUSY_TURNS_MAX; turn++)
		if (!__sync_lock_test_and_set(&state->busy, (__u64)1))
			return 1;
	return 0;
}

INLINE void end_with(struct ring_state *state)
{
	SIDESTEP_RING_STORE_RELEASE(&state->busy, 0);
}

/* Wakes the readers that sleep. To be called after the packet is published: the swap is a full barrier. */
INLINE void ring_doorbells(__u32 feed, __u64 which)
{
	struct doorbell *doorbell;
	__u32 bell, index, first = 0;
	void *page, *ring;
	__u64 one = 1;

	for (bell = 0; bell < DOORBELLS_MAX; bell++) {
		if (!(which >> bell & 1))
			continue;
		index = feed * DOORBELLS_MAX + bell;
		page = lookup(&doorbells, &index);
		if (!page)
			continue;
		doorbell = lookup(page, &first);
		if (!doorbell || !__sync_lock_test_and_set(&doorbell->asleep, 0))
			continue;
		ring = lookup(&doorbell_rings, &index);
		if (ring)
			output(ring, &one, sizeof(one), BPF_RB_FORCE_WAKEUP);
	}
}

/* Writes a packet into a ring; returns whether it is there. */
INLINE int write_packet(struct xdp_md *context, const struct packet *packet, struct sidestep_ring_producer *producer,
			__u8 *ring)
{
	__u32 bytes = packet->bytes;
	__u64 length, at;

	/* The verifier takes the bounds from these comparisons, each of its own: the compiler would make one of both, which
	 * the verifier of Linux 6.1 does not follow. The first one is always false. */
	__asm__ volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct iphdr))
		return 0;
	__asm__ volatile("" : "+r"(bytes));
	if (bytes > RING_PACKET_BYTES_MAX) {
		sidestep_ring_drop(producer, ring, 1);
		return 0;
	}
	length = sizeof(packet->facts) + bytes;
	at = sidestep_ring_begin(producer, ring, FEED_CELLS, length);
	*(struct ring_packet *)(ring + at) = packet->facts;
	if (!copy_packet(context, packet->at, ring + at + sizeof(packet->facts), bytes)) {
		sidestep_ring_abort(producer, ring);
		sidestep_ring_drop(producer, ring, 1);
		return 0;
	}
	sidestep_ring_publish(producer, ring, FEED_CELLS, length);
	return 1;
}

/* Counts packets that found the ring busy where the readers look. */
INLINE void count_refused(struct ring_state *state, __u8 *ring)
{
	__u64 refused = __sync_lock_test_and_set(&state->refused, 0);

	if (refused)
		sidestep_ring_drop(&state->producer, ring, refused);
}

/* Copies a packet into the ring of its queue, or into the first one if that has none; returns whether it is there. Not
 * static: the verifier then looks at it once, and not once for each way that leads here (Linux 5.12 for the pointer). */
__attribute__((noinline)) int sidestep_copy(struct xdp_md *context, const struct packet *packet, __u32 feed)
{
	const struct feed *row = lookup(&feeds, &feed);
	struct ring_state *state;
	void *rings, *ring;
	__u32 queue, index;
	int is_there;

	if (!packet || !row || !row->live)
		return 0;
	rings = lookup(&feed_rings, &feed);
	queue = context->rx_queue_index;
	/* The device may have got more queues, or has more than there can be rings. */
	if (queue >= row->rings || queue >= QUEUES_MAX)
		queue = 0;
	index = feed * QUEUES_MAX + queue;
	state = lookup(&ring_states, &index);
	if (!rings || !state)
		return 0;
	ring = lookup(rings, &queue);
	if (!ring)
		return 0;
	if (!begin_with(state)) {
		__sync_fetch_and_add(&state->refused, 1);
		return 0;
	}
	if (UNLIKELY(state->refused))
		count_refused(state, ring);
	is_there = write_packet(context, packet, &state->producer, ring);
	end_with(state);
	if (is_there && row->doorbells)
		ring_doorbells(feed, row->doorbells);
	return is_there;
}

/* The feeds that get a copy of a packet. Unlike owners, where the most specific entry wins, all entries that match count: a
 * copy takes nothing away from others. */
struct copies {
	__u64 feeds;
	__u32 passes; /* an entry that matches does not have the packet for itself */
};

INLINE void add_set(struct copies *copies, const struct feed_set *set)
{
	if (set) {
		copies->feeds |= set->feeds;
		copies->passes |= !set->drops;
	}
}

/* The entry of one connection or pair of addresses. */
INLINE void add_flow(struct copies *copies, const struct flow_key *flow)
{
	/* Before Linux 6.2 a key cannot be where an argument points. */
	struct flow_key key = *flow;

	add_set(copies, lookup(&ring_flows, &key));
}

/* The entries of one source or of any, and of the frame's VLAN or of any. */
INLINE void add_groups(struct copies *copies, const struct flow_key *flow, __u8 none)
{
	struct group_key key = { .port = flow->local_port, .family = flow->family };
	int of_any_source, of_any_vlan;

	__builtin_memcpy(key.group, flow->local, ADDRESS_BYTES);
	for (of_any_source = !!(none & NONE_WITH_SOURCE); of_any_source < 2; of_any_source++) {
		if (of_any_source)
			__builtin_memset(key.source, 0, ADDRESS_BYTES);
		else
			__builtin_memcpy(key.source, flow->remote, ADDRESS_BYTES);
		for (of_any_vlan = 0; of_any_vlan < 2; of_any_vlan++) {
			if (of_any_vlan && none & NONE_OF_ANY_VLAN)
				break;
			key.outer_vlan = of_any_vlan ? VLAN_ANY : flow->outer_vlan;
			key.inner_vlan = of_any_vlan ? 0 : flow->inner_vlan;
			add_set(copies, lookup(&ring_groups, &key));
		}
	}
}

/* The entries of one address of this host or of any, and of the frame's VLAN or of any. */
INLINE void add_listeners(struct copies *copies, const struct flow_key *flow, __u8 none, int of_any_address)
{
	struct listener_key key = { .local_port = flow->local_port, .protocol = flow->protocol, .family = flow->family };
	int of_any_vlan;

	if (!of_any_address)
		__builtin_memcpy(key.local, flow->local, ADDRESS_BYTES);
	for (of_any_vlan = 0; of_any_vlan < 2; of_any_vlan++) {
		if (of_any_vlan && none & NONE_OF_ANY_VLAN)
			break;
		key.outer_vlan = of_any_vlan ? VLAN_ANY : flow->outer_vlan;
		key.inner_vlan = of_any_vlan ? 0 : flow->inner_vlan;
		add_set(copies, lookup(&ring_listeners, &key));
	}
}

/* As with owners, frames to others' addresses have no feeds, and packets that are forwarded none of any address. */
INLINE void find_feeds(struct xdp_md *context, const struct config *settings, const struct packet *packet,
		       const struct flow_key *flow, struct copies *copies)
{
	struct copies of_any = { 0 };

	if (is_multicast(flow)) {
		if (!(settings->none & NONE_IN_RING_GROUPS) && flow->protocol == IPPROTO_UDP &&
		    is_mac_of_group(packet->destination, flow))
			add_groups(copies, flow, settings->none);
		return;
	}
	if (!is_mac_of_host(packet->destination, settings))
		return;
	if (!(settings->none & NONE_IN_RING_FLOWS))
		add_flow(copies, flow);
	if (settings->none & NONE_IN_RING_LISTENERS)
		return;
	add_listeners(copies, flow, settings->none, 0);
	add_listeners(&of_any, flow, settings->none, 1);
	if (of_any.feeds && !is_forwarded(context, flow)) {
		copies->feeds |= of_any.feeds;
		copies->passes |= of_any.passes;
	}
}

/* Control decides who else would lose a packet: without control nobody does. */
INLINE int is_control_fresh(const struct config *settings)
{
	__u64 now_ns = monotonic_ns();
	__u64 beat_ns = settings->control_beat_ns;

	/* 0: control has never been there. The clock begins at boot, so 0 may be close. */
	return beat_ns &&
	       (now_ns - beat_ns <= settings->deadline_ns || beat_ns - now_ns <= settings->deadline_ns);
}

/* Copies a packet to its feeds; returns whether nobody else is to have it. Not static, as sidestep_copy. */
__attribute__((noinline)) int sidestep_feed(struct xdp_md *context, const struct packet *packet,
					    const struct flow_key *flow)
{
	const struct config *settings;
	struct copies copies = { 0 };
	int turn, is_everywhere = 1;
	__u32 feed, first = 0;
	__u64 feeds_left;

	settings = lookup(&config, &first);
	if (!packet || !flow || !settings)
		return 0;
	find_feeds(context, settings, packet, flow, &copies);
	if (!copies.feeds)
		return 0;
	feeds_left = copies.feeds;
	for (turn = 0; turn < FEEDS_MAX && feeds_left; turn++) {
		feed = lowest_bit(feeds_left);
		feeds_left &= feeds_left - 1;
		is_everywhere &= sidestep_copy(context, packet, feed);
	}
	return is_everywhere && !copies.passes && is_control_fresh(settings);
}

/* The packet of a frame. */
INLINE int copy_to_feeds(struct xdp_md *context, const struct frame *frame)
{
	struct packet packet = {
		.at = frame->packet_at,
		.bytes = frame->packet_bytes,
	};
	__u16 header_bytes;

	if (frame->is_fragment)
		return 0;
	header_bytes = frame->transport_at - frame->packet_at + frame->header_bytes;
	packet.facts = (struct ring_packet){
		.received_ns = precise_ns(),
		.payload_at = sizeof(packet.facts) + header_bytes,
		.payload_bytes = frame->packet_bytes - header_bytes,
		.outer_vlan = frame->key.outer_vlan,
		.family = frame->key.family,
		.protocol = frame->key.protocol,
	};
	__builtin_memcpy(packet.destination, frame->destination, sizeof(packet.destination));
	return sidestep_feed(context, &packet, &frame->key);
}

#endif
