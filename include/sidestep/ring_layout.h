/*
 * The layout of a ring, for readers without the library.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * All numbers are little-endian. A field described as one word is stored by one 64-bit store: load it by one 64-bit
 * load with acquire ordering (GCC, clang: __atomic_load_n(&header->pid_namespace, __ATOMIC_ACQUIRE)). A peer can write
 * anything to the memory: check every position and length against the ring before you use it.
 *
 * To follow a ring: take the newer of the two checkpoints of `written` (or `mark`, the last crossing of a half of the
 * ring) as position; then at each position load the word of its cell.
 *   - SIDESTEP_RING_WORD_IS_AT: a record. Its length and kind are in the word, the message behind it. Next position:
 *     SIDESTEP_RING_CELLS further for a message, the next multiple of `cells` for padding.
 *   - else nothing is there yet, or the writer is a lap ahead.
 * The writer never waits for you. After each load, message included: acquire fence, then load `horizon`; the data is
 * intact if horizon <= position + cells, else it was overwritten: resume at `mark`.
 *
 * The library writes rings, and producers in C by ring_producer.h: BPF programs, the kernel module, other programs.
 */
#ifndef SIDESTEP_RING_LAYOUT_H
#define SIDESTEP_RING_LAYOUT_H

#if defined(__KERNEL__)
#include <linux/stddef.h>
#include <linux/types.h>
#elif defined(__bpf__)
#include <linux/types.h>
typedef __u8 uint8_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
#define offsetof(type, member) __builtin_offsetof(type, member)
#else
#include <stddef.h>
#include <stdint.h>
#endif
#if defined(__KERNEL__) || defined(__bpf__)
#ifndef UINT64_C
#define UINT32_C(value) value##U
#define UINT64_C(value) value##ULL
#endif
#endif

#define SIDESTEP_RING_MAGIC UINT64_C(0x5045545345444953) /* "SIDESTEP" */
#define SIDESTEP_RING_ABI_VERSION UINT32_C(1)            /* other versions have another layout: refuse them */
#define SIDESTEP_RING_BYTE_ORDER_MARK UINT32_C(0x01020304)
#define SIDESTEP_RING_LAYOUT_HASH UINT64_C(0x36da1d6bfbb77aec) /* FNV-1a over the offsets below: refuse others... */
#define SIDESTEP_RING_SMALL_LAYOUT_HASH UINT64_C(0x6e9370769e2d671c) /* ... except this: the same with cells of 16 bytes */

#define SIDESTEP_RING_CELL_BYTES 64
#define SIDESTEP_RING_SMALL_CELL_BYTES 16
#define SIDESTEP_RING_WORD_BYTES 8
#define SIDESTEP_RING_ONE_LINE_BYTES 56 /* the longest message that travels in one cache line */
#define SIDESTEP_RING_HEADER_BYTES 4096 /* the first cell */
#define SIDESTEP_RING_CELLS_MIN UINT64_C(4)
#define SIDESTEP_RING_CELLS_MAX UINT64_C(67108864)

/* The word in front of each message: low half of the position | committed | kind | length. */
#define SIDESTEP_RING_LENGTH_BITS 29
#define SIDESTEP_RING_KIND_BITS 2
#define SIDESTEP_RING_COMMITTED UINT64_C(0x80000000)
#define SIDESTEP_RING_KIND_MESSAGE UINT64_C(0)
#define SIDESTEP_RING_KIND_PADDING UINT64_C(1) /* padding up to the end of the ring */
#define SIDESTEP_RING_KIND_CLOSE UINT64_C(2)   /* the writer has closed; the next one overwrites this record */

/* True if `word`, loaded from the cell of `position`, marks a record that is committed there. */
#define SIDESTEP_RING_WORD_IS_AT(word, position) ((word) >> 31 == ((position) << 32 | SIDESTEP_RING_COMMITTED) >> 31)
#define SIDESTEP_RING_WORD_KIND(word) ((word) >> SIDESTEP_RING_LENGTH_BITS & 3)
#define SIDESTEP_RING_WORD_LENGTH(word) ((word) & ((UINT64_C(1) << SIDESTEP_RING_LENGTH_BITS) - 1))
/* The number of cells of a message of `length` bytes. */
#define SIDESTEP_RING_CELLS(length) (((length) + SIDESTEP_RING_WORD_BYTES + 63) / 64)
#define SIDESTEP_RING_SMALL_CELLS(length) (((length) + SIDESTEP_RING_WORD_BYTES + 15) / 16)
/* The offset of the cell at `position` in a ring of `cells` cells, a power of two. */
#define SIDESTEP_RING_CELL_AT(position, cells) \
    (SIDESTEP_RING_HEADER_BYTES + ((position) & ((cells) - 1)) * SIDESTEP_RING_CELL_BYTES)
#define SIDESTEP_RING_SMALL_CELL_AT(position, cells) \
    (SIDESTEP_RING_HEADER_BYTES + ((position) & ((cells) - 1)) * SIDESTEP_RING_SMALL_CELL_BYTES)

/* An owner word: pid in the low bits, the start time of the process in clock ticks above. 0: free. */
#define SIDESTEP_RING_PID_BITS 22

/* fault */
#define SIDESTEP_RING_FAULT_RECORD_KIND 1
#define SIDESTEP_RING_FAULT_RECORD_LENGTH 2
#define SIDESTEP_RING_FAULT_PADDING 3
#define SIDESTEP_RING_FAULT_READER_POSITION 4
#define SIDESTEP_RING_FAULT_WRITER_POSITION 5

/* Two copies, stored alternately, the sequence number last: the one with the greater number is intact if neither number
 * has changed after you have read it. */
typedef struct sidestep_ring_checkpoint {
    uint64_t sequence; /* messages */
    uint64_t position; /* cells, including padding */
    uint64_t bytes;    /* of messages */
} sidestep_ring_checkpoint;

/* The owner of a side, and its last heartbeat, ns of CLOCK_MONOTONIC_RAW. */
typedef struct sidestep_ring_role {
    uint64_t owner;
    uint64_t beat;
} sidestep_ring_role;

typedef struct sidestep_ring_header {
    /* Facts, written once, the magic last. */
    uint64_t magic;
    uint32_t abi_version;
    uint32_t kind; /* 1 SPSC, 2 broadcast */
    uint32_t byte_order;
    uint32_t header_bytes;
    uint64_t layout_hash;
    uint64_t cells;
    uint64_t waking;        /* 0 never, 1 barrier, 2 fence */
    uint64_t pid_namespace; /* inode of the namespace in which the pids are valid */
    uint8_t apart_0[72];

    sidestep_ring_role writer;
    uint8_t apart_1[112];
    sidestep_ring_role reader;
    uint8_t apart_2[112];

    /* Stored by the writer, with each message. */
    sidestep_ring_checkpoint written[2];
    uint64_t intent; /* sequence number after the last message that was begun */
    uint64_t dropped;
    uint8_t apart_3[64];

    /* Stored by the writer, seldom. */
    uint64_t horizon; /* the position up to which it may be writing now */
    uint64_t abandoned;
    uint8_t apart_4[112];
    sidestep_ring_checkpoint mark[2];
    uint8_t apart_5[80];

    /* Stored by the reader of an SPSC ring. */
    sidestep_ring_checkpoint read[2];
    uint64_t lost;
    uint8_t apart_6[72];
    uint64_t published; /* position up to which cells may be reused */
    uint64_t reader_closed;
    uint8_t apart_7[112];

    /* Futexes. Bit 0: a side sleeps on it. Bit 1: the reader has requested the doorbell. Above: the number of wake-ups;
     * a wake-up clears both bits and adds one to that. */
    uint32_t reader_sleeps;
    uint8_t apart_8[124];
    uint32_t writer_sleeps;
    uint8_t apart_9[124];

    uint64_t fault;
    uint8_t apart_10[2808];
} sidestep_ring_header;

#if defined(__cplusplus)
#define SIDESTEP_RING_HOLDS(name, what) static_assert(what, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SIDESTEP_RING_HOLDS(name, what) _Static_assert(what, #name)
#else
#define SIDESTEP_RING_HOLDS(name, what) typedef char sidestep_ring_holds_##name[(what) ? 1 : -1]
#endif

SIDESTEP_RING_HOLDS(kind, offsetof(sidestep_ring_header, kind) == 0x00c);
SIDESTEP_RING_HOLDS(header_bytes, offsetof(sidestep_ring_header, header_bytes) == 0x014);
SIDESTEP_RING_HOLDS(pid_namespace, offsetof(sidestep_ring_header, pid_namespace) == 0x030);
SIDESTEP_RING_HOLDS(writer, offsetof(sidestep_ring_header, writer) == 0x080);
SIDESTEP_RING_HOLDS(reader, offsetof(sidestep_ring_header, reader) == 0x100);
SIDESTEP_RING_HOLDS(written, offsetof(sidestep_ring_header, written) == 0x180);
SIDESTEP_RING_HOLDS(intent, offsetof(sidestep_ring_header, intent) == 0x1b0);
SIDESTEP_RING_HOLDS(dropped, offsetof(sidestep_ring_header, dropped) == 0x1b8);
SIDESTEP_RING_HOLDS(horizon, offsetof(sidestep_ring_header, horizon) == 0x200);
SIDESTEP_RING_HOLDS(abandoned, offsetof(sidestep_ring_header, abandoned) == 0x208);
SIDESTEP_RING_HOLDS(mark, offsetof(sidestep_ring_header, mark) == 0x280);
SIDESTEP_RING_HOLDS(read, offsetof(sidestep_ring_header, read) == 0x300);
SIDESTEP_RING_HOLDS(lost, offsetof(sidestep_ring_header, lost) == 0x330);
SIDESTEP_RING_HOLDS(published, offsetof(sidestep_ring_header, published) == 0x380);
SIDESTEP_RING_HOLDS(reader_closed, offsetof(sidestep_ring_header, reader_closed) == 0x388);
SIDESTEP_RING_HOLDS(reader_sleeps, offsetof(sidestep_ring_header, reader_sleeps) == 0x400);
SIDESTEP_RING_HOLDS(writer_sleeps, offsetof(sidestep_ring_header, writer_sleeps) == 0x480);
SIDESTEP_RING_HOLDS(fault, offsetof(sidestep_ring_header, fault) == 0x500);
SIDESTEP_RING_HOLDS(all, sizeof(sidestep_ring_header) == SIDESTEP_RING_HEADER_BYTES);

#endif
