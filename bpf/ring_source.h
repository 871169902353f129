/* SPDX-License-Identifier: GPL-2.0 */
/* The interface between ring_source.bpf.c and crates/kernel_ring/src/source/layout.rs. */
#ifndef SIDESTEP_RING_SOURCE_H
#define SIDESTEP_RING_SOURCE_H

#include <linux/types.h>

#include "ring.h"

/* Cells of each ring: 256 KiB, the size of the BPF ring buffer that it is compared with. */
#define SOURCE_CELLS 4096
/* Bytes of the BPF ring buffer. */
#define SOURCE_RINGBUF_BYTES (SOURCE_CELLS * SIDESTEP_RING_CELL_BYTES)
/* The rings of the map: that of the events, and that in which publishing is measured. */
#define SOURCE_RING_EVENTS 0
#define SOURCE_RING_COST 1
#define SOURCE_RINGS 2
/* Bytes of an event: it travels in one cache line. */
#define SOURCE_EVENT_BYTES 48
/* Bytes of a page, the least memory of a map that is mapped. */
#define SOURCE_PAGE_BYTES 4096

/* The destination of an event. */
enum source_sink {
	SINK_RING,
	SINK_RINGBUF,      /* the BPF ring buffer, without a wake-up */
	SINK_RINGBUF_WAKE, /* with one */
	SINK_DOORBELL,     /* the ring, and the doorbell of a reader that sleeps */
	SINK_SOCKET,       /* XDP: the stamp is stored in the datagram, which passes */
	SINK_NOTHING,      /* for the time of the loop in which publishing is measured */
};

/* Written by the process, read by the programs. */
struct source_settings {
	__u64 interval_ns;
	__u32 sink;
	__u32 is_running;
	__u32 timer_flags;
	__u32 port;      /* UDP, host order */
	__u32 publishes; /* of one run of source_cost */
	__u32 reserved;
};

/* Written by the programs. */
struct source_counts {
	__u64 events;     /* of the timer; also the number of its next one */
	__u64 cost_ns;    /* of the last run of source_cost */
	__u64 refused;    /* by a full BPF ring buffer */
	__u64 contended;  /* two writers at one time */
};

struct source_event {
	__u64 stamp_ns; /* CLOCK_MONOTONIC, taken at the top of the program */
	__u64 number;
	__u64 rest[4];
};

#endif
