/* SPDX-License-Identifier: GPL-2.0 */
/* The maps of the steering program. Their sizes are in steer.h; crates/xdp_steering/src/maps.rs checks their shapes. */
#ifndef SIDESTEP_MAPS_H
#define SIDESTEP_MAPS_H

#include <linux/bpf.h>

#include "maps_form.h"
#include "steer.h"

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct config);
} config SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, FLOWS_MAX);
	MAP_TYPE(key, struct flow_key);
	MAP_TYPE(value, struct owner);
} flows SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, LISTENERS_MAX);
	MAP_TYPE(key, struct listener_key);
	MAP_TYPE(value, struct owner);
} listeners SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, GROUPS_MAX);
	MAP_TYPE(key, struct group_key);
	MAP_TYPE(value, struct owner);
} groups SEC(".maps");

/* Control maps it: it scans and changes whole tables of ports without a system call per port. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, PORTS);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct port_owner);
} ports SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, STACKS_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct stack);
} stacks SEC(".maps");

/* A map per stack instead of a row per stack: a mapping covers a whole map, and a stack must not reach another's word.
 * */
struct heartbeat_map {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	/* Sizes instead of types: behind a pointer in an array clang describes a structure by name only. */
	MAP_NUMBER(key_size, sizeof(__u32));
	MAP_NUMBER(value_size, sizeof(struct heartbeat));
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, STACKS_MAX);
	MAP_TYPE(key, __u32);
	struct heartbeat_map *values[];
} heartbeats SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, RING_FLOWS_MAX);
	MAP_TYPE(key, struct flow_key);
	MAP_TYPE(value, struct feed_set);
} ring_flows SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, RING_LISTENERS_MAX);
	MAP_TYPE(key, struct listener_key);
	MAP_TYPE(value, struct feed_set);
} ring_listeners SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, RING_GROUPS_MAX);
	MAP_TYPE(key, struct group_key);
	MAP_TYPE(value, struct feed_set);
} ring_groups SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, FEEDS_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct feed);
} feeds SEC(".maps");

/* The rings of a feed, one in each element. Made by crates/kernel_ring with as many as the device has queues. */
struct rings_map {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	MAP_NUMBER(key_size, sizeof(__u32));
	MAP_NUMBER(value_size, RING_ELEMENT_BYTES(FEED_CELLS));
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, FEEDS_MAX);
	MAP_TYPE(key, __u32);
	struct rings_map *values[];
} feed_rings SEC(".maps");

/* [feed * QUEUES_MAX + receive queue]. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, FEEDS_MAX * QUEUES_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct ring_state);
} ring_states SEC(".maps");

/* [feed * DOORBELLS_MAX + doorbell]: pages of readers, as with heartbeats. */
struct doorbell_map {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(key_size, sizeof(__u32));
	MAP_NUMBER(value_size, sizeof(struct doorbell));
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, FEEDS_MAX * DOORBELLS_MAX);
	MAP_TYPE(key, __u32);
	struct doorbell_map *values[];
} doorbells SEC(".maps");

/* What the readers' epoll waits for. */
struct doorbell_ring {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, DOORBELL_RING_BYTES);
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, FEEDS_MAX * DOORBELLS_MAX);
	MAP_TYPE(key, __u32);
	struct doorbell_ring *values[];
} doorbell_rings SEC(".maps");

/* [stack * QUEUES_MAX + receive queue]. The kernel removes a socket when it is closed. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_XSKMAP);
	MAP_NUMBER(max_entries, STACKS_MAX * QUEUES_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u32);
} sockets SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, COUNTERS_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} counters SEC(".maps");

#endif
