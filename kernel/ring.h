/* SPDX-License-Identifier: GPL-2.0 */
/* The ring of the device, and what its parts share. */
#ifndef SIDESTEP_KERNEL_RING_H
#define SIDESTEP_KERNEL_RING_H

#include <linux/atomic.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include <sidestep/ring_device.h>
#include <sidestep/ring_producer.h>

/* A reader has a page at the least, and needs time to read: 64 cells are 4 KiB. Above: 4 MiB that are never given back. */
#define RING_CELLS_MIN 64
#define RING_CELLS_MAX 65536
/* A jumbo frame's packet and the facts before it. A reader's buffer in the kernel is as long. */
#define RING_MESSAGE_BYTES_MAX 9232U

struct ring {
	void *base;
	u64 bytes;
	u64 cells;
	u32 message_bytes_max;

	/* Keeps the second writer out: sources run in softirqs, possibly on several CPUs. Readers do not take it. */
	spinlock_t writer;
	struct sidestep_ring_producer producer;

	/* Messages published. Stored after the message; those who sleep compare with it. */
	u64 published;
	/* Messages that could not be published. */
	u64 dropped;
	wait_queue_head_t sleepers;
};

/* A position of a reader in the ring. */
struct ring_position {
	u64 cell;
	u64 sequence;
};

int ring_make(struct ring *ring, u64 cells);
void ring_free(struct ring *ring);

/* The offset for a message of this length, to be filled and then published, with the writer's lock held. 0: it is too
 * long, and has been counted. */
u64 ring_begin(struct ring *ring, u32 length);
void ring_publish(struct ring *ring, u32 length);
void ring_abort(struct ring *ring);
/* Counts messages that do not get into the ring, with the writer's lock held. */
void ring_drop(struct ring *ring, u32 count);
/* Wakes who sleeps: after the lock is released. */
void ring_wake(struct ring *ring);

/* The position behind the newest message. */
struct ring_position ring_latest(struct ring *ring);
/* Copies the next message, at most RING_MESSAGE_BYTES_MAX; returns its length, -EAGAIN if there is none. What was
 * overwritten is added to `lost`. */
int ring_read(const struct ring *ring, struct ring_position *at, void *buffer, u64 *lost);

/* device.c */
int ring_device_register(struct ring *ring);
void ring_device_unregister(void);

/* timer.c. `cpu` -1: the one that it is called on. */
int timer_start(struct ring *ring, u64 interval_ns, int cpu);
void timer_stop(void);
int timer_set_interval(u64 interval_ns);
void timer_stats(struct sidestep_ring_stats *stats);

/* udp.c */
int udp_start(struct ring *ring, u16 port);
void udp_stop(void);

#endif
