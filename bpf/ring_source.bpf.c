// SPDX-License-Identifier: GPL-2.0
/*
 * Sources of events for `sidestep bench ring --source`: a timer, and datagrams at XDP. Each event is stamped once, at
 * the top of its program, and then goes to the one sink that the settings name. crates/kernel_ring/src/source loads it.
 *
 * Timer: Linux 5.15. source_cost: Linux 5.17 (bpf_loop). XDP: Linux 5.14.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include "maps_form.h"
#include "ring_source.h"

#define INLINE static inline __attribute__((always_inline))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NET16(value) ((__be16)__builtin_bswap16(value))
#else
#define NET16(value) ((__be16)(value))
#endif

/* CLOCK_MONOTONIC of time.h. */
#define CLOCK_OF_EVENTS 1
/* An option of IP would move the UDP header: the sender of the bench sets none. */
#define IP_WORDS_WITHOUT_OPTIONS 5

static void *(*const lookup)(const void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __u64 (*const monotonic_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static void *(*const reserve)(void *ringbuf, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*const submit)(void *data, __u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static long (*const output)(void *ringbuf, void *data, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static long (*const timer_init)(struct bpf_timer *timer, void *map, __u64 flags) = (void *)BPF_FUNC_timer_init;
static long (*const timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)BPF_FUNC_timer_set_callback;
static long (*const timer_start)(struct bpf_timer *timer, __u64 ns, __u64 flags) = (void *)BPF_FUNC_timer_start;
static long (*const timer_cancel)(struct bpf_timer *timer) = (void *)BPF_FUNC_timer_cancel;
static long (*const loop)(__u32 turns, void *callback, void *context, __u64 flags) = (void *)BPF_FUNC_loop;

struct page {
	__u64 words[SOURCE_PAGE_BYTES / 8];
};

struct timer_value {
	struct bpf_timer timer;
};

/* A ring as a value; the process replaces the map by one that it has made and frozen. */
struct ring_memory {
	__u8 bytes[RING_ELEMENT_BYTES(SOURCE_CELLS)];
};

/* The state of a ring's writer, where no reader can see it. */
struct ring_writer {
	struct sidestep_ring_producer producer;
	__u64 is_busy;
};

ARRAY_MAP(settings, 1, struct source_settings);
ARRAY_MAP(counts, 1, struct source_counts);
ARRAY_MAP(timers, 1, struct timer_value);
ARRAY_MAP(writers, SOURCE_RINGS, struct ring_writer);

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, SOURCE_RINGS);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct ring_memory);
} rings SEC(".maps");

/* The flag that a reader sets before it sleeps, at the page's first word. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct page);
} bell_flags SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, SOURCE_PAGE_BYTES);
} bell SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, SOURCE_RINGBUF_BYTES);
} ringbuf SEC(".maps");

INLINE struct source_counts *own_counts(void)
{
	__u32 first = 0;

	return lookup(&counts, &first);
}

INLINE void count_refused(void)
{
	struct source_counts *own = own_counts();

	if (own)
		__sync_fetch_and_add(&own->refused, 1);
}

INLINE void to_ring(__u32 which, const struct source_event *event)
{
	void *base = lookup(&rings, &which);
	struct ring_writer *writer = lookup(&writers, &which);
	__u64 at;

	if (!base || !writer)
		return;
	/* In generic mode datagrams of one queue may be on two CPUs. */
	if (__sync_lock_test_and_set(&writer->is_busy, 1)) {
		struct source_counts *own = own_counts();

		if (own)
			__sync_fetch_and_add(&own->contended, 1);
		return;
	}
	at = sidestep_ring_begin(&writer->producer, base, SOURCE_CELLS, SOURCE_EVENT_BYTES);
	sidestep_ring_write(base, at, event, SOURCE_EVENT_BYTES);
	sidestep_ring_publish(&writer->producer, base, SOURCE_CELLS, SOURCE_EVENT_BYTES);
	SIDESTEP_RING_STORE_RELEASE((__u64 *)&writer->is_busy, 0);
}

INLINE void to_ringbuf(const struct source_event *event, __u64 flags)
{
	struct source_event *slot = reserve(&ringbuf, sizeof(*slot), 0);

	if (!slot) {
		count_refused();
		return;
	}
	*slot = *event;
	submit(slot, flags);
}

/* The swap is a full barrier: a reader that set the flag before it has seen no event that the swap does not follow. */
INLINE void ring_bell(void)
{
	__u32 first = 0;
	struct page *flag = lookup(&bell_flags, &first);
	__u64 one = 1;

	if (flag && __sync_lock_test_and_set(&flag->words[0], 0))
		output(&bell, &one, sizeof(one), BPF_RB_FORCE_WAKEUP);
}

INLINE void deliver(__u32 sink, const struct source_event *event)
{
	switch (sink) {
	case SINK_RING:
		to_ring(SOURCE_RING_EVENTS, event);
		break;
	case SINK_RINGBUF:
		to_ringbuf(event, BPF_RB_NO_WAKEUP);
		break;
	case SINK_RINGBUF_WAKE:
		to_ringbuf(event, BPF_RB_FORCE_WAKEUP);
		break;
	case SINK_DOORBELL:
		to_ring(SOURCE_RING_EVENTS, event);
		ring_bell();
		break;
	}
}

static int tick(void *map, __u32 *key, struct timer_value *value)
{
	struct source_event event = { .stamp_ns = monotonic_ns() };
	__u32 first = 0;
	struct source_settings *asked = lookup(&settings, &first);
	struct source_counts *own = own_counts();

	(void)map;
	(void)key;
	if (!asked || !own || !asked->is_running)
		return 0;
	event.number = own->events++;
	deliver(asked->sink, &event);
	timer_start(&value->timer, asked->interval_ns, asked->timer_flags);
	return 0;
}

/* Starts the timer on the CPU on which it is run. The result is that of the last helper. */
SEC("syscall")
int source_start(void *context)
{
	__u32 first = 0;
	struct timer_value *value = lookup(&timers, &first);
	struct source_settings *asked = lookup(&settings, &first);

	(void)context;
	if (!value || !asked)
		return -1;
	/* EBUSY where it was initialised before. */
	timer_init(&value->timer, &timers, CLOCK_OF_EVENTS);
	if (timer_set_callback(&value->timer, tick))
		return -1;
	return timer_start(&value->timer, asked->interval_ns, asked->timer_flags);
}

/* Stops the timer, after a callback that runs. */
SEC("syscall")
int source_stop(void *context)
{
	__u32 first = 0;
	struct timer_value *value = lookup(&timers, &first);

	(void)context;
	if (value)
		timer_cancel(&value->timer);
	return 0;
}

struct cost {
	__u32 sink;
	struct source_event event;
};

static long publish_one(__u32 turn, struct cost *cost)
{
	cost->event.number = turn;
	if (cost->sink == SINK_RING)
		to_ring(SOURCE_RING_COST, &cost->event);
	else if (cost->sink == SINK_RINGBUF)
		to_ringbuf(&cost->event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Publishes to the sink of the settings, and stores the time that took. */
SEC("syscall")
int source_cost(void *context)
{
	__u32 first = 0;
	struct source_settings *asked = lookup(&settings, &first);
	struct source_counts *own = own_counts();
	struct cost cost = {};
	__u64 begin;

	(void)context;
	if (!asked || !own)
		return -1;
	cost.sink = asked->sink;
	begin = monotonic_ns();
	cost.event.stamp_ns = begin;
	loop(asked->publishes, publish_one, &cost, 0);
	own->cost_ns = monotonic_ns() - begin;
	return 0;
}

struct datagram {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	struct source_event event;
} __attribute__((packed));

INLINE int is_event(const struct datagram *datagram, const struct source_settings *asked)
{
	return datagram->ethernet.h_proto == NET16(ETH_P_IP) && datagram->ip.ihl == IP_WORDS_WITHOUT_OPTIONS &&
	       datagram->ip.protocol == IPPROTO_UDP && datagram->udp.dest == NET16(asked->port) &&
	       datagram->udp.len == NET16(sizeof(struct udphdr) + SOURCE_EVENT_BYTES);
}

SEC("xdp")
int source_datagram(struct xdp_md *context)
{
	__u64 stamp_ns = monotonic_ns();
	struct datagram *datagram = (void *)(long)context->data;
	__u32 first = 0;
	struct source_settings *asked = lookup(&settings, &first);
	struct source_event event;

	if (!asked || (void *)(datagram + 1) > (void *)(long)context->data_end || !is_event(datagram, asked))
		return XDP_PASS;
	if (asked->sink == SINK_SOCKET) {
		datagram->event.stamp_ns = stamp_ns;
		/* No checksum (RFC 768): its sum would have to change with the stamp. */
		datagram->udp.check = 0;
		return XDP_PASS;
	}
	event = datagram->event;
	event.stamp_ns = stamp_ns;
	deliver(asked->sink, &event);
	return XDP_DROP;
}

char licence_for_kernel[] SEC("license") = "GPL";
