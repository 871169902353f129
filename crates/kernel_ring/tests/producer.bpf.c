// SPDX-License-Identifier: GPL-2.0
/* Publishes the first bytes of each frame in the ring of element 2, and rings the doorbell of a reader that sleeps. */
#include "../../../bpf/ring.h"

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

#define CELLS 64
#define MESSAGE_BYTES 48

struct element {
	char bytes[RING_ELEMENT_BYTES(CELLS)];
};

struct page {
	__u64 flag;
	char rest[4088];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 3);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct element);
} rings SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct sidestep_ring_producer);
} producers SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct page);
} flags SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 4096);
} doorbell SEC(".maps");

static void *(*const lookup)(const void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const load)(struct xdp_md *context, __u32 offset, void *buffer, __u32 bytes) =
	(void *)BPF_FUNC_xdp_load_bytes;
static long (*const output)(void *ring, void *data, __u64 bytes, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;

SEC("xdp") int publish(struct xdp_md *context)
{
	__u32 zero = 0, ring = 2;
	__u64 note = 1;
	struct sidestep_ring_producer *producer = lookup(&producers, &zero);
	struct page *page = lookup(&flags, &zero);
	void *base = lookup(&rings, &ring);
	__u64 at;

	if (!producer || !page || !base)
		return XDP_ABORTED;
	at = sidestep_ring_begin(producer, base, CELLS, MESSAGE_BYTES);
	if (load(context, 0, base + at, MESSAGE_BYTES)) {
		sidestep_ring_abort(producer, base);
		return XDP_DROP;
	}
	sidestep_ring_publish(producer, base, CELLS, MESSAGE_BYTES);
	if (__sync_lock_test_and_set(&page->flag, 0))
		output(&doorbell, &note, sizeof(note), BPF_RB_FORCE_WAKEUP);
	return XDP_PASS;
}

char licence[] SEC("license") = "GPL";
