/*
 * Rings in shared memory: the C ABI of sidestep. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * SPSC: one writer, one reader, messages of any size, written and read in place.
 * Broadcast: one writer that never waits, any number of readers that know exactly which messages they lost.
 *
 * Link with -lsidestep_c. C99 or C++11. ring_layout.h has the layout of the shared bytes, for readers without the
 * library.
 *
 * ERRORS. As in error.h: 0 or a negative SIDESTEP_E* code; sidestep_last_error() has the thing, the reason and the next
 * step.
 *
 * LIFETIME. A handle made by *_new, *_create, *_open, *_memfd, *_from_fd is yours until you free it. Freeing the
 * segment does not end its producers, consumers, publishers, subscribers: each keeps the memory mapped until it is
 * freed, and the memory (for a named ring: the file) outlives all of them. Remove a named ring with unlink(2).
 *
 * THREADS. A segment may be used by several threads at a time, any other handle by one at a time; it may move from
 * thread to thread. Different handles of one ring need no lock between them.
 *
 * PROCESSES. A side belongs to the process that took it. After fork(2) the child may use no handle of its parent: it
 * opens the ring anew. A process that dies, by any signal, keeps its side only until another takes it: messages that it
 * had published stay, those that it had only claimed are lost and counted. Bytes from the other process are untrusted:
 * copy them before you check and use them.
 */
#ifndef SIDESTEP_RING_H
#define SIDESTEP_RING_H

#include <sidestep/error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the API. It rises when a program built against the older header is incompatible with the newer
 * library; it is also in the SONAME. Additions without a new version: calls, codes, and fields at the end of structures
 * whose size you pass. */
#define SIDESTEP_RING_API_VERSION 1

/* kind; or SIDESTEP_SPSC | SIDESTEP_SMALL_CELLS: a ring for streams of messages of up to 24 bytes. Its cells have 16
 * bytes instead of 64, so that up to four messages travel in one cache line. */
#define SIDESTEP_SPSC 1
#define SIDESTEP_BROADCAST 2
#define SIDESTEP_SMALL_CELLS 0x100

/* waking: the method by which sleepers (SIDESTEP_PARK) are noticed. BARRIER costs the sending side nothing and becomes
 * FENCE if membarrier(2) is refused; FENCE costs some ten nanoseconds per message; NEVER wakes no sleeper. */
#define SIDESTEP_WAKE_NEVER 0
#define SIDESTEP_WAKE_BARRIER 1
#define SIDESTEP_WAKE_FENCE 2

/* access */
#define SIDESTEP_READ_ONLY 0 /* enough for stat and subscribers */
#define SIDESTEP_READ_WRITE 1

/* waiting: spin; spin for ten microseconds and then yield; or spin and then sleep until woken. */
#define SIDESTEP_SPIN 0
#define SIDESTEP_YIELD 1
#define SIDESTEP_PARK 2

/* from: the start position of a reader. */
#define SIDESTEP_FROM_UNREAD 0 /* consumers: the first message that was not released */
#define SIDESTEP_FROM_LATEST 1 /* after all messages */
#define SIDESTEP_FROM_OLDEST 2 /* subscribers: the oldest known record boundary, up to half the ring back */

/* state of the peer */
#define SIDESTEP_PEER_ABSENT 0  /* not taken yet, or left in an orderly way */
#define SIDESTEP_PEER_PRESENT 1 /* its process lives */
#define SIDESTEP_PEER_CLOSED 2  /* it has closed */
#define SIDESTEP_PEER_GONE 3    /* its process has ended without leaving */

/* A timeout in nanoseconds that never ends, as every negative one. 0 checks once or a few times. */
#define SIDESTEP_FOREVER (-1)

typedef struct sidestep_segment sidestep_segment;
typedef struct sidestep_producer sidestep_producer;
typedef struct sidestep_consumer sidestep_consumer;
typedef struct sidestep_publisher sidestep_publisher;
typedef struct sidestep_subscriber sidestep_subscriber;

/* The traffic of one side. */
typedef struct sidestep_ring_flow {
    uint64_t messages;
    uint64_t bytes; /* of these messages */
    uint64_t cells; /* of `cell_bytes`, including words and padding */
} sidestep_ring_flow;

/* One side of a ring. */
typedef struct sidestep_ring_holder {
    uint64_t start_ticks; /* start of the process, clock ticks since boot: unique together with the pid */
    int64_t beat_age_ns;  /* since its last heartbeat; -1: none yet */
    uint32_t pid;         /* 0: not held */
    uint32_t is_alive;
    uint32_t sleeps; /* broadcast readers: whether any does */
    uint32_t is_closed;
} sidestep_ring_holder;

/* The state of a ring. Each flow is exact; the flows of the two sides are from slightly different moments. */
typedef struct sidestep_ring_stat {
    uint32_t kind;  /* SIDESTEP_SPSC or SIDESTEP_BROADCAST */
    uint32_t fault; /* the reason why the ring is out of use (SIDESTEP_RING_FAULT_ in ring_layout.h); 0: none */
    uint64_t capacity_bytes;
    uint64_t message_bytes_max;
    sidestep_ring_flow written;
    sidestep_ring_flow read;  /* SPSC: released messages */
    uint64_t published_cells; /* SPSC: the position that the reader has published to the writer */
    uint64_t dropped;         /* by the writer, because the ring was full */
    uint64_t abandoned;       /* begun by writers that died before they published */
    uint64_t lost;            /* skipped by a new reader on request */
    sidestep_ring_holder writer;
    sidestep_ring_holder reader; /* SPSC */
    uint64_t cell_bytes;         /* 64, or 16 in a ring of small cells */
} sidestep_ring_stat;

/* The state of a handle. */
typedef struct sidestep_ring_info {
    uint64_t sequence; /* number of the next message, counted from 0 since the ring was made */
    uint64_t message_bytes_max;
    uint64_t abandoned;     /* writers: messages that the last writer had begun and not published */
    uint64_t lost_messages; /* subscribers: messages that this one has lost */
    uint64_t lost_bytes;
    uint32_t replaced_pid; /* the process that held this side before and ended without leaving; 0: none */
    uint32_t reserved;
} sidestep_ring_info;

/* The state of the other side. */
typedef struct sidestep_ring_peer {
    uint32_t state;
    uint32_t pid; /* of the process that is gone; else 0 */
} sidestep_ring_peer;

/* ---- Segments --------------------------------------------------------------------------------------------------- */

/* A new ring of at least `bytes` (including 8 bytes before each message, rounded up to cells), at most 4 GiB, 1 GiB
 * with small cells. It lies in a memfd whose size is sealed, to be handed over by its descriptor; or in a new file,
 * readable and writable by its owner alone, which appears when the ring is complete. An existing file is refused. */
int sidestep_segment_memfd(int kind, int waking, size_t bytes, sidestep_segment **segment);
int sidestep_segment_create(const char *path, int kind, int waking, size_t bytes, sidestep_segment **segment);

/* Attaches to a ring. A file that is not a ring, has another version, or could be truncated by other users is refused.
 * The descriptor is duplicated: yours stays yours. */
int sidestep_segment_open(const char *path, int access, sidestep_segment **segment);
int sidestep_segment_from_fd(int fd, int access, sidestep_segment **segment);

/* Attaches read-only to a broadcast ring that the kernel fills, `bytes` long from `offset` (a multiple of 4096) on: in a BPF array
 * (BPF_F_MMAPABLE), in the module's device, or written by ring_producer.h in a sealed memfd. No side of it can be taken;
 * subscribers read it, and their peer is absent. */
int sidestep_segment_foreign(int fd, uint64_t offset, size_t bytes, sidestep_segment **segment);

/* The descriptor to hand over. It stays the segment's: do not close it. */
int sidestep_segment_fd(const sidestep_segment *segment, int *fd);

/* Fills `stat_bytes` (pass sizeof) of `stat`; fields unknown to this library become 0. Only loads from the ring. */
int sidestep_segment_stat(const sidestep_segment *segment, sidestep_ring_stat *stat, size_t stat_bytes);
void sidestep_segment_free(sidestep_segment *segment);

/* ---- SPSC: the writing side ------------------------------------------------------------------------------------- */

/* Takes the side, if it is free or its process has ended; refused while a living process holds it. */
int sidestep_producer_new(const sidestep_segment *segment, sidestep_producer **producer);

/* Claims space for one message inside the ring, aligned to 8 bytes, its content undefined. It is yours until the next
 * commit, abort, send, close or free of this producer, or until it claims again. The reader sees nothing before the
 * commit. */
int sidestep_producer_try_claim(sidestep_producer *producer, size_t length, void **bytes);
int sidestep_producer_commit(sidestep_producer *producer);
/* Publishes the first `length` bytes only; more than the claim is SIDESTEP_ETOOLONG, and the claim stays open. */
int sidestep_producer_commit_prefix(sidestep_producer *producer, size_t length);
int sidestep_producer_abort(sidestep_producer *producer);

/* Sends a copy. If the ring is full, both return SIDESTEP_EFULL: `send` can be retried, `send_or_drop` has counted the
 * message as dropped. `message` may be null if `length` is 0. */
int sidestep_producer_send(sidestep_producer *producer, const void *message, size_t length);
int sidestep_producer_send_or_drop(sidestep_producer *producer, const void *message, size_t length);

/* Waits until a message of `length` bytes fits. */
int sidestep_producer_wait(sidestep_producer *producer, size_t length, int waiting, int64_t timeout_ns);

/* Marks the end of the stream. An open claim is discarded. The next message opens the ring again. */
int sidestep_producer_close(sidestep_producer *producer);
int sidestep_producer_peer(sidestep_producer *producer, sidestep_ring_peer *peer);

/* A descriptor that poll(2) and epoll(7) report as readable when the peer's process ends. It is yours: close it. */
int sidestep_producer_peer_pidfd(sidestep_producer *producer, int *fd);

/* Stores a heartbeat for `stat`; waiting does so, too. */
int sidestep_producer_beat(sidestep_producer *producer);
int sidestep_producer_info(const sidestep_producer *producer, sidestep_ring_info *info, size_t info_bytes);

/* Closes and leaves the side. */
void sidestep_producer_free(sidestep_producer *producer);

/* ---- SPSC: the reading side ------------------------------------------------------------------------------------- */

/* `from` is SIDESTEP_FROM_UNREAD (a message on loan when the last reader died comes again) or SIDESTEP_FROM_LATEST. */
int sidestep_consumer_new(const sidestep_segment *segment, int from, sidestep_consumer **consumer);

/* The next message, in place in the ring, aligned to 8 bytes; on loan until it is released. Without a release the same
 * message is returned again. To spin, wait with SIDESTEP_SPIN: polling inside the library is cheaper than a call. */
int sidestep_consumer_try_read(sidestep_consumer *consumer, const void **bytes, size_t *length);
int sidestep_consumer_release(sidestep_consumer *consumer);

/* Waits until a message is there. */
int sidestep_consumer_wait(sidestep_consumer *consumer, int waiting, int64_t timeout_ns);

/* Closes this side: it will not read any more. */
int sidestep_consumer_close(sidestep_consumer *consumer);
int sidestep_consumer_peer(sidestep_consumer *consumer, sidestep_ring_peer *peer);
int sidestep_consumer_peer_pidfd(sidestep_consumer *consumer, int *fd);
int sidestep_consumer_beat(sidestep_consumer *consumer);
int sidestep_consumer_info(const sidestep_consumer *consumer, sidestep_ring_info *info, size_t info_bytes);
void sidestep_consumer_free(sidestep_consumer *consumer);

/* ---- Broadcast: the writing side -------------------------------------------------------------------------------- */

int sidestep_publisher_new(const sidestep_segment *segment, sidestep_publisher **publisher);

/* Sends a copy to all readers; never full. `message` may be null if `length` is 0. */
int sidestep_publisher_publish(sidestep_publisher *publisher, const void *message, size_t length);
int sidestep_publisher_close(sidestep_publisher *publisher);
int sidestep_publisher_beat(sidestep_publisher *publisher);
int sidestep_publisher_info(const sidestep_publisher *publisher, sidestep_ring_info *info, size_t info_bytes);
void sidestep_publisher_free(sidestep_publisher *publisher);

/* ---- Broadcast: a reading side, and an observer of an SPSC ring ------------------------------------------------- */

/* `from` is SIDESTEP_FROM_LATEST or SIDESTEP_FROM_OLDEST. Read-only access is enough; no side is disturbed. */
int sidestep_subscriber_new(const sidestep_segment *segment, int from, sidestep_subscriber **subscriber);

/* Copies the next message to `buffer` and stores its length; for SIDESTEP_ETOOSHORT, stores the length needed.
 * SIDESTEP_ELOST: the buffer's content is invalid; the loss is the difference of `lost_messages` and `lost_bytes` of the
 * info before and after. */
int sidestep_subscriber_try_read(sidestep_subscriber *subscriber, void *buffer, size_t buffer_bytes, size_t *length);

/* Waits until try_read has an answer: a message or a loss. A reader that sleeps (SIDESTEP_PARK) costs the writer the
 * call that wakes it; a read-only one cannot sleep and yields. */
int sidestep_subscriber_wait(sidestep_subscriber *subscriber, int waiting, int64_t timeout_ns);

/* The kernel cannot wake a sleeper by the ring itself. A doorbell can: the array with the flag and the ring buffer of a BPF
 * program, or an open file of the module's device that is this subscriber's alone. With one, SIDESTEP_PARK sleeps. The
 * descriptors are duplicated. Each subscriber needs its own. */
int sidestep_subscriber_set_doorbell(sidestep_subscriber *subscriber, int flag_fd, int ring_buffer_fd);
int sidestep_subscriber_set_device(sidestep_subscriber *subscriber, int device_fd);

/* To sleep in poll(2) or epoll(7): before each sleep, request the doorbell. If `may_sleep` is 1, the descriptor becomes readable
 * with the next message, until the next request; if it is 0, something is there: read it. The descriptor stays the
 * subscriber's: do not close it. Without a doorbell both are SIDESTEP_EUSAGE. */
int sidestep_subscriber_request_doorbell(sidestep_subscriber *subscriber, int *may_sleep);
int sidestep_subscriber_doorbell(const sidestep_subscriber *subscriber, int *fd);

int sidestep_subscriber_peer(sidestep_subscriber *subscriber, sidestep_ring_peer *peer);
int sidestep_subscriber_peer_pidfd(sidestep_subscriber *subscriber, int *fd);
int sidestep_subscriber_info(const sidestep_subscriber *subscriber, sidestep_ring_info *info, size_t info_bytes);
void sidestep_subscriber_free(sidestep_subscriber *subscriber);

/* ---- Versions --------------------------------------------------------------------------------------------------- */

/* SIDESTEP_RING_API_VERSION of the library that the program runs with. */
uint32_t sidestep_ring_api_version(void);

/* SIDESTEP_RING_LAYOUT_HASH of the library that the program runs with. */
uint64_t sidestep_ring_layout_hash(void);

#ifdef __cplusplus
}
#endif

#endif
