/*
 * A producer of broadcast rings in C: for BPF programs, the kernel module, and programs without the library.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * It writes what crate `ring` writes, byte for byte (ABI 1, kind broadcast, cells of 64 bytes; ring_layout.h). It needs
 * no library, no allocation and no reader: it loads nothing from the ring but the word behind the record, so a reader
 * that writes into the memory can disturb readers only. Per message: begin, write, publish.
 *
 *     at = sidestep_ring_begin(&producer, base, cells, length);
 *     sidestep_ring_write(base, at, data, length);
 *     sidestep_ring_publish(&producer, base, cells, length);
 *
 * One writer at a time: the caller keeps others out. `length` is the same in both calls, at most
 * SIDESTEP_RING_MESSAGE_BYTES_MAX(cells). A producer that is all zeroes is that of an empty ring. It must not lie in the
 * ring: what readers could write there would be offsets of the writer.
 *
 * `cells` is a power of two from SIDESTEP_RING_CELLS_MIN to SIDESTEP_RING_CELLS_MAX, and a constant in BPF: the verifier
 * then sees that each offset is inside. It does not see that a record ends before the ring's end: behind the cells there
 * must be as many bytes as the longest message has, which nothing is ever stored to.
 *
 * Memory order is in three macros, which a kernel defines before it includes this header:
 *
 *     SIDESTEP_RING_STORE(word, value)          a store of 64 bits that is not torn
 *     SIDESTEP_RING_STORE_RELEASE(word, value)  the same, after all stores before it
 *     SIDESTEP_RING_FENCE(word)                 stores before it come before stores after it; `word` was stored last
 *
 * SIDESTEP_RING_FETCH(word) is a hint to the CPU: the line will be written soon.
 */
#ifndef SIDESTEP_RING_PRODUCER_H
#define SIDESTEP_RING_PRODUCER_H

#include "ring_layout.h"

#if defined(SIDESTEP_RING_STORE)
/* Given by the includer. */
#elif defined(__KERNEL__)
#include <asm/barrier.h>
#include <linux/compiler.h>
#define SIDESTEP_RING_STORE(word, value) WRITE_ONCE(*(word), value)
#define SIDESTEP_RING_STORE_RELEASE(word, value) smp_store_release(word, value)
#define SIDESTEP_RING_FENCE(word) smp_wmb()
#elif defined(__bpf__)
#define SIDESTEP_RING_STORE(word, value) (*(volatile uint64_t *)(word) = (value))
#if defined(__TARGET_ARCH_x86)
/* Stores stay in order on x86: the compiler alone must be kept from moving them. */
#define SIDESTEP_RING_FENCE(word) __asm__ volatile("" ::: "memory")
#define SIDESTEP_RING_STORE_RELEASE(word, value) \
    do { \
        SIDESTEP_RING_FENCE(word); \
        SIDESTEP_RING_STORE(word, value); \
    } while (0)
#else
/* BPF_XCHG and BPF_FETCH are full barriers (Linux 5.12, -mcpu=v3); a plain atomic add is none. */
#define SIDESTEP_RING_FENCE(word) __asm__ volatile("" ::"r"(__sync_fetch_and_add(word, 0)) : "memory")
#define SIDESTEP_RING_STORE_RELEASE(word, value) \
    __asm__ volatile("" ::"r"(__sync_lock_test_and_set(word, value)) : "memory")
#endif
#else
#define SIDESTEP_RING_STORE(word, value) __atomic_store_n(word, value, __ATOMIC_RELAXED)
#define SIDESTEP_RING_STORE_RELEASE(word, value) __atomic_store_n(word, value, __ATOMIC_RELEASE)
#define SIDESTEP_RING_FENCE(word) __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

#if defined(SIDESTEP_RING_FETCH)
/* Given by the includer. */
#elif defined(__bpf__)
/* No such instruction: a load that nothing waits for. */
#define SIDESTEP_RING_FETCH(word) ((void)*(volatile uint64_t *)(word))
#else
#define SIDESTEP_RING_FETCH(word) __builtin_prefetch(word, 1)
#endif

#define SIDESTEP_RING_INLINE static inline __attribute__((always_inline, unused))

/* The longest message, bytes: a quarter of the ring, so that padding and horizon leave the records before it intact. */
#define SIDESTEP_RING_MESSAGE_BYTES_MAX(cells) ((cells) / 4 * SIDESTEP_RING_CELL_BYTES - SIDESTEP_RING_WORD_BYTES)
/* The size of a ring. */
#define SIDESTEP_RING_BYTES(cells) (SIDESTEP_RING_HEADER_BYTES + (cells) * SIDESTEP_RING_CELL_BYTES)
/* The horizon advances by this part of the ring at a time, so that readers keep its line in their cache. */
#define SIDESTEP_RING_HORIZON_PART 16
/* The most lines that are fetched after a message. */
#define SIDESTEP_RING_FETCHED_MAX 4

/* The state of a writer; nobody else may see or change it. */
struct sidestep_ring_producer {
    uint64_t next;     /* the position of the next record, cells */
    uint64_t sequence; /* messages published */
    uint64_t bytes;    /* of these messages */
    uint64_t horizon;  /* the position up to which it may be writing */
    uint64_t dropped;  /* messages that the caller could not publish */
    uint32_t newer_written; /* offset of the newer copy of each checkpoint: 0 or 24 */
    uint32_t newer_mark;
};

SIDESTEP_RING_INLINE uint64_t *sidestep_ring_word(void *base, uint64_t at)
{
    return (uint64_t *)((char *)base + at);
}

/* Padding before a record that does not fit before the ring's end, cells. */
SIDESTEP_RING_INLINE uint64_t sidestep_ring_padding(uint64_t position, uint64_t cells, uint64_t record_cells)
{
    uint64_t to_end = cells - (position & (cells - 1));

    return record_cells > to_end ? to_end : 0;
}

SIDESTEP_RING_INLINE uint64_t sidestep_ring_record_word(uint64_t position, uint64_t kind, uint64_t length)
{
    return position << 32 | SIDESTEP_RING_COMMITTED | kind << SIDESTEP_RING_LENGTH_BITS | length;
}

/* The newer of two copies always is whole: the older one is filled, its sequence number last. */
SIDESTEP_RING_INLINE void sidestep_ring_checkpoint_store(const struct sidestep_ring_producer *producer, void *base,
                                                         uint64_t copy)
{
    SIDESTEP_RING_STORE_RELEASE(sidestep_ring_word(base, copy + 8), producer->next);
    SIDESTEP_RING_STORE_RELEASE(sidestep_ring_word(base, copy + 16), producer->bytes);
    SIDESTEP_RING_STORE_RELEASE(sidestep_ring_word(base, copy), producer->sequence);
}

/* Makes zeroed memory an empty ring, the magic last. Its words have no pids (namespace 0, owner 0): the writer's life is
 * that of the descriptor. No futex is woken (waking 0). */
SIDESTEP_RING_INLINE void sidestep_ring_format(void *base, uint64_t cells)
{
    SIDESTEP_RING_STORE(sidestep_ring_word(base, 8), SIDESTEP_RING_ABI_VERSION | UINT64_C(2) << 32);
    SIDESTEP_RING_STORE(sidestep_ring_word(base, 16),
                        SIDESTEP_RING_BYTE_ORDER_MARK | (uint64_t)SIDESTEP_RING_HEADER_BYTES << 32);
    SIDESTEP_RING_STORE(sidestep_ring_word(base, 24), SIDESTEP_RING_LAYOUT_HASH);
    SIDESTEP_RING_STORE(sidestep_ring_word(base, 32), cells);
    SIDESTEP_RING_STORE_RELEASE(sidestep_ring_word(base, 0), SIDESTEP_RING_MAGIC);
}

/* Begins a message and returns the offset of its first byte from `base`. Readers see nothing of it yet. */
SIDESTEP_RING_INLINE uint64_t sidestep_ring_begin(struct sidestep_ring_producer *producer, void *base, uint64_t cells,
                                                  uint64_t length)
{
    uint64_t record_cells = SIDESTEP_RING_CELLS(length);
    uint64_t position = producer->next + sidestep_ring_padding(producer->next, cells, record_cells);
    /* The cell behind the record is looked at, and may be cleared. */
    uint64_t end = position + record_cells + 1;

    if (end > producer->horizon) {
        producer->horizon = end + cells / SIDESTEP_RING_HORIZON_PART;
        /* A reader that sees a byte stored after this sees this horizon after its own fence. */
        SIDESTEP_RING_STORE(sidestep_ring_word(base, offsetof(sidestep_ring_header, horizon)), producer->horizon);
        SIDESTEP_RING_FENCE(sidestep_ring_word(base, offsetof(sidestep_ring_header, horizon)));
    }
    SIDESTEP_RING_STORE(sidestep_ring_word(base, offsetof(sidestep_ring_header, intent)), producer->sequence + 1);
    return SIDESTEP_RING_CELL_AT(position, cells) + SIDESTEP_RING_WORD_BYTES;
}

/* Copies a message, or a part of it, to the offset `at`, a multiple of 8: word by word, as a reader that fell behind may
 * be reading there. The last word is filled up with zeroes. BPF programs use a helper instead. */
SIDESTEP_RING_INLINE void sidestep_ring_write(void *base, uint64_t at, const void *data, uint64_t length)
{
    const unsigned char *bytes = (const unsigned char *)data;
    uint64_t done, word;

    for (done = 0; done + 8 <= length; done += 8) {
        __builtin_memcpy(&word, bytes + done, 8);
        SIDESTEP_RING_STORE(sidestep_ring_word(base, at + done), word);
    }
    if (done < length) {
        word = 0;
        __builtin_memcpy(&word, bytes + done, length - done);
        SIDESTEP_RING_STORE(sidestep_ring_word(base, at + done), word);
    }
}

/* Publishes the message that was begun with this length. */
SIDESTEP_RING_INLINE void sidestep_ring_publish(struct sidestep_ring_producer *producer, void *base, uint64_t cells,
                                                uint64_t length)
{
    uint64_t record_cells = SIDESTEP_RING_CELLS(length);
    uint64_t begin = producer->next;
    uint64_t padding = sidestep_ring_padding(begin, cells, record_cells);
    uint64_t position = begin + padding;
    uint64_t next = position + record_cells;
    uint64_t *behind = sidestep_ring_word(base, SIDESTEP_RING_CELL_AT(next, cells));
    uint64_t *first = sidestep_ring_word(base, SIDESTEP_RING_CELL_AT(begin, cells));
    uint64_t word = sidestep_ring_record_word(position, SIDESTEP_RING_KIND_MESSAGE, length);
    uint64_t ahead;

    if (padding) {
        SIDESTEP_RING_STORE(sidestep_ring_word(base, SIDESTEP_RING_CELL_AT(position, cells)), word);
        word = sidestep_ring_record_word(begin, SIDESTEP_RING_KIND_PADDING, 0);
    }
    /* Bytes of an old message may stand behind the record: they must not look like the next one. */
    if (SIDESTEP_RING_WORD_IS_AT(*(volatile uint64_t *)behind, next))
        SIDESTEP_RING_STORE(behind, UINT64_C(0));
    /* A reader that sees this store sees all before it. */
    SIDESTEP_RING_STORE_RELEASE(first, word);
    producer->next = next;
    producer->sequence += 1;
    producer->bytes += length;
    producer->newer_written = 24 - producer->newer_written;
    sidestep_ring_checkpoint_store(producer, base,
                                   offsetof(sidestep_ring_header, written) + (producer->newer_written ? 24 : 0));
    if ((begin ^ next) & cells / 2) {
        producer->newer_mark = 24 - producer->newer_mark;
        sidestep_ring_checkpoint_store(producer, base,
                                       offsetof(sidestep_ring_header, mark) + (producer->newer_mark ? 24 : 0));
    }
    /* Lines of the message after the next one, if both are as long as this one: nobody has had them for a lap, and the
     * next publish would wait for the cell behind its record. The reader polls the first line of the next message. */
    for (ahead = 1; ahead <= SIDESTEP_RING_FETCHED_MAX && ahead <= record_cells; ahead++)
        SIDESTEP_RING_FETCH(sidestep_ring_word(base, SIDESTEP_RING_CELL_AT(next + record_cells + ahead, cells)));
}

/* Takes back what was begun. */
SIDESTEP_RING_INLINE void sidestep_ring_abort(const struct sidestep_ring_producer *producer, void *base)
{
    SIDESTEP_RING_STORE(sidestep_ring_word(base, offsetof(sidestep_ring_header, intent)), producer->sequence);
}

/* Counts messages that could not be published: too long, or begun while another one was being written. */
SIDESTEP_RING_INLINE void sidestep_ring_drop(struct sidestep_ring_producer *producer, void *base, uint64_t count)
{
    producer->dropped += count;
    SIDESTEP_RING_STORE(sidestep_ring_word(base, offsetof(sidestep_ring_header, dropped)), producer->dropped);
}

#endif
