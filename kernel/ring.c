// SPDX-License-Identifier: GPL-2.0
/* The memory of the ring: written by one source, mapped by processes that cannot write it, read by read(2). */

#include <linux/minmax.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "ring.h"

/* A copy of a checkpoint is stored anew with every second message: a reader that is slower than that tries again. */
#define CHECKPOINT_TRIES 16
/* Laps that a read tolerates before it says that there is nothing yet. */
#define LAPS_MAX 4

int ring_make(struct ring *ring, u64 cells)
{
	memset(ring, 0, sizeof(*ring));
	ring->cells = cells;
	ring->bytes = SIDESTEP_RING_BYTES(cells);
	ring->message_bytes_max = min_t(u64, RING_MESSAGE_BYTES_MAX, SIDESTEP_RING_MESSAGE_BYTES_MAX(cells));
	spin_lock_init(&ring->writer);
	init_waitqueue_head(&ring->sleepers);
	/* Zeroed, and of whole pages: a mapping shows nothing else. */
	ring->base = vmalloc_user(ring->bytes);
	if (!ring->base)
		return -ENOMEM;
	sidestep_ring_format(ring->base, cells);
	return 0;
}

void ring_free(struct ring *ring)
{
	vfree(ring->base);
	ring->base = NULL;
}

void ring_drop(struct ring *ring, u32 count)
{
	lockdep_assert_held(&ring->writer);
	sidestep_ring_drop(&ring->producer, ring->base, count);
	WRITE_ONCE(ring->dropped, ring->producer.dropped);
}

u64 ring_begin(struct ring *ring, u32 length)
{
	lockdep_assert_held(&ring->writer);
	if (length > ring->message_bytes_max) {
		ring_drop(ring, 1);
		return 0;
	}
	return sidestep_ring_begin(&ring->producer, ring->base, ring->cells, length);
}

void ring_publish(struct ring *ring, u32 length)
{
	sidestep_ring_publish(&ring->producer, ring->base, ring->cells, length);
	smp_store_release(&ring->published, ring->producer.sequence);
}

void ring_abort(struct ring *ring)
{
	sidestep_ring_abort(&ring->producer, ring->base);
	ring_drop(ring, 1);
}

void ring_wake(struct ring *ring)
{
	/* wq_has_sleeper has the barrier between `published` and its look at the queue. */
	if (wq_has_sleeper(&ring->sleepers))
		wake_up_interruptible_poll(&ring->sleepers, EPOLLIN | EPOLLRDNORM);
}

static const u64 *word_at(const struct ring *ring, u64 at)
{
	return ring->base + at;
}

static const u64 *word_of_cell(const struct ring *ring, u64 position)
{
	return word_at(ring, SIDESTEP_RING_CELL_AT(position, ring->cells));
}

/* The newer copy of the checkpoint at this offset; false if the writer was always faster. A copy is filled anew only after
 * the other one has got a greater number: both numbers must have stayed. */
static bool checkpoint(const struct ring *ring, u64 at, struct ring_position *to)
{
	unsigned int tries;

	for (tries = 0; tries < CHECKPOINT_TRIES; tries++) {
		u64 first = smp_load_acquire(word_at(ring, at));
		u64 second = smp_load_acquire(word_at(ring, at + 24));

		to->sequence = max(first, second);
		to->cell = smp_load_acquire(word_at(ring, (first > second ? at : at + 24) + 8));
		if (READ_ONCE(*word_at(ring, at)) == first && READ_ONCE(*word_at(ring, at + 24)) == second)
			return true;
		cpu_relax();
	}
	return false;
}

struct ring_position ring_latest(struct ring *ring)
{
	struct ring_position latest;

	spin_lock_bh(&ring->writer);
	latest.cell = ring->producer.next;
	latest.sequence = ring->producer.sequence;
	spin_unlock_bh(&ring->writer);
	return latest;
}

/* True if the writer cannot have touched what was read at this position before. */
static bool is_intact(const struct ring *ring, u64 position)
{
	smp_rmb();
	return READ_ONCE(*word_at(ring, offsetof(sidestep_ring_header, horizon))) <= position + ring->cells;
}

/* Moves a reader that was overtaken to the last crossing of a half of the ring. */
static bool skip(const struct ring *ring, struct ring_position *at, u64 *lost)
{
	struct ring_position mark;

	if (!checkpoint(ring, offsetof(sidestep_ring_header, mark), &mark) || mark.sequence < at->sequence)
		return false;
	*lost += mark.sequence - at->sequence;
	*at = mark;
	return true;
}

int ring_read(const struct ring *ring, struct ring_position *at, void *buffer, u64 *lost)
{
	unsigned int laps = 0;

	while (laps < LAPS_MAX) {
		u64 word = smp_load_acquire(word_of_cell(ring, at->cell));
		u64 length = SIDESTEP_RING_WORD_LENGTH(word);
		u64 kind = SIDESTEP_RING_WORD_KIND(word);
		bool is_there = SIDESTEP_RING_WORD_IS_AT(word, at->cell);

		/* The word of a record that was overtaken may be bytes of a message: it must not lead beyond the ring. */
		if (is_there && kind == SIDESTEP_RING_KIND_MESSAGE && length <= ring->message_bytes_max &&
		    SIDESTEP_RING_CELLS(length) <= ring->cells - (at->cell & (ring->cells - 1)))
			memcpy(buffer, word_of_cell(ring, at->cell) + 1, length);
		if (!is_intact(ring, at->cell)) {
			laps++;
			if (!skip(ring, at, lost))
				return -EAGAIN;
			continue;
		}
		if (!is_there)
			return -EAGAIN;
		if (kind == SIDESTEP_RING_KIND_PADDING) {
			at->cell = round_up(at->cell + 1, ring->cells);
			continue;
		}
		at->cell += SIDESTEP_RING_CELLS(length);
		at->sequence++;
		return length;
	}
	return -EAGAIN;
}
