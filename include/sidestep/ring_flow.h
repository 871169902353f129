/*
 * Packets that the steering program copies into rings, read by polling memory: the C ABI of sidestep.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A flow is a reader on one interface, with entries: UDP groups, UDP ports of this host, and taps on the traffic of
 * others. Any number of flows receive the same packets, each with exact counts of what it lost in the rings. Where no
 * ring can carry an entry the same calls read a kernel socket, and sidestep_flow_path has the reason.
 *
 * Link with -lsidestep_c. C99 or C++11, with the system's <netinet/in.h>.
 *
 * ERRORS. As in error.h: 0 or a negative SIDESTEP_E* code; sidestep_last_error() has the thing, the reason and the next
 * step, sidestep_last_errno() the errno that a kernel socket would have given.
 *
 * LIFETIME. A flow is yours until you free it; its packets and descriptors are valid until the next call with it. An
 * entry is a number of its flow; 0 is never valid.
 *
 * THREADS. A flow is used by one thread at a time. Different flows are independent. The library runs a thread, mostly
 * asleep, beside each flow.
 *
 * WAITING. Only open, join, bind, tap and leave ask the control plane, and wait for it: ten seconds at most.
 *
 * PROCESSES. A flow belongs to the process that opened it: a child after fork(2) may not use it.
 */
#ifndef SIDESTEP_RING_FLOW_H
#define SIDESTEP_RING_FLOW_H

#include <sidestep/ring.h>
#include <sidestep/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* verdict: what happens to a packet after it was copied into the ring. */
#define SIDESTEP_VERDICT_PASS 0 /* it goes on, to the kernel or to its owner */
#define SIDESTEP_VERDICT_DROP 1 /* it goes nowhere else, if nobody else on the host would lose it */

/* The way of an entry's packets, besides a ring and a kernel socket: none, for a tap without a ring. */
#define SIDESTEP_FLOW_RING 0
#define SIDESTEP_FLOW_KERNEL 1
#define SIDESTEP_FLOW_NOTHING 2

/* The queue of a packet that a kernel socket delivered. */
#define SIDESTEP_NO_QUEUE UINT32_C(0xffffffff)

typedef struct sidestep_flow sidestep_flow;

/* Options of a flow. Fill it with sidestep_flow_options_default and change what you want otherwise. */
typedef struct sidestep_flow_options {
    const char *interface_name;
    const char *feed;    /* flows of this user that give the same name share rings, and receive the packets of all; null: own rings */
    const char *control; /* path of the control plane's socket; null: that of this network namespace */
    const char *name;    /* name of the flow in `sidestep ps`; null: the program's name */
    uint32_t doorbell;   /* 1: it can sleep until a packet comes (SIDESTEP_PARK, sidestep_flow_wakeup_fd) */
    uint32_t checksums;  /* SIDESTEP_CHECKSUMS_ */
    uint32_t receive_buffer; /* bytes, of each kernel socket; 0: the kernel's default */
    uint32_t accelerate;     /* 0: kernel sockets alone */
} sidestep_flow_options;

/* The way of an entry's packets. */
typedef struct sidestep_flow_way {
    uint32_t way;     /* SIDESTEP_FLOW_ */
    uint32_t reason;  /* why it is no ring: sidestep_reason_text; 0: it is one */
    uint32_t verdict; /* of a ring: the one in force */
    uint32_t mode;    /* of a ring: SIDESTEP_MODE_ of the steering program */
} sidestep_flow_way;

/* A packet, valid until the next call with its flow. */
typedef struct sidestep_packet {
    const void *payload;
    size_t length;
    const void *ip;       /* the whole IP packet; null: a kernel socket delivered it */
    size_t ip_length;
    uint64_t received_ns; /* when the driver handed it over, CLOCK_MONOTONIC; when it was read, from a kernel socket */
    uint64_t lost_before; /* packets of its queue that this flow lost directly before it */
    sidestep_address source;
    sidestep_address destination; /* of a kernel socket: the address that it is bound to */
    uint32_t queue;               /* or SIDESTEP_NO_QUEUE */
    uint16_t vlan;                /* 0: none */
    uint8_t protocol;             /* IPPROTO_UDP or IPPROTO_TCP */
    uint8_t reserved;
} sidestep_packet;

/* Counters of a flow, in packets. */
typedef struct sidestep_flow_counts {
    uint64_t packets;       /* delivered by rings */
    uint64_t by_kernel;     /* delivered by kernel sockets */
    uint64_t lost;          /* overwritten before the flow came to them */
    uint64_t lost_bytes;    /* of their messages */
    uint64_t bad_checksums; /* skipped */
    uint64_t malformed;     /* skipped */
    uint64_t fallbacks;     /* changes from rings to kernel sockets, at which packets may come twice or not at all */
    uint64_t queues;        /* with a packet or a loss: up to this one */
    uint64_t dropped;       /* of the feed: could not be put into a ring, as they were longer than 16,320 bytes or it was busy */
} sidestep_flow_counts;

/* Stores the defaults. */
int sidestep_flow_options_default(sidestep_flow_options *options, size_t options_bytes);

/* Opens a flow without entries. Without a control plane it uses kernel sockets. */
int sidestep_flow_open(const sidestep_flow_options *options, size_t options_bytes, sidestep_flow **flow);

/* Receives a UDP group, of one source or, with null, of all. Stores the entry's number, as the next two calls do. */
int sidestep_flow_join(sidestep_flow *flow, const struct sockaddr *group, socklen_t group_bytes,
                       const struct sockaddr *source, socklen_t source_bytes, uint32_t verdict, uint32_t *entry);

/* Receives the datagrams to a UDP port of this host that come by the flow's interface. */
int sidestep_flow_bind(sidestep_flow *flow, const struct sockaddr *local, socklen_t local_bytes, uint32_t verdict,
                       uint32_t *entry);

/* Receives copies of traffic without a socket, for root and for groups that the administrator has named: of one
 * connection, or with null for `remote` of a port or a group. `protocol` is IPPROTO_UDP or IPPROTO_TCP. */
int sidestep_flow_tap(sidestep_flow *flow, uint32_t protocol, const struct sockaddr *local, socklen_t local_bytes,
                      const struct sockaddr *remote, socklen_t remote_bytes, uint32_t verdict, uint32_t *entry);

/* Ends an entry; what is in the rings of it is still received. */
int sidestep_flow_leave(sidestep_flow *flow, uint32_t entry);

/* Stores the present way of an entry's packets. */
int sidestep_flow_path(const sidestep_flow *flow, uint32_t entry, sidestep_flow_way *way);

/* Stores the next packet; SIDESTEP_EEMPTY: none is there. Does not wait, and makes no system call while rings carry all
 * entries. */
int sidestep_flow_receive(sidestep_flow *flow, sidestep_packet *packet);

/* Waits until receive has a packet. Without a doorbell a flow with rings yields instead of sleeping. */
int sidestep_flow_wait(sidestep_flow *flow, int waiting, int64_t timeout_ns);

/* Asks for a wake-up with the next packet, and stores the descriptor that is readable then, for poll(2) and epoll(7). It
 * changes with the feed: call this before each sleep. Stores -1 if there is something to receive already. */
int sidestep_flow_wakeup_fd(sidestep_flow *flow, int *fd);

/* Stores the counters of the flow. */
int sidestep_flow_read_counts(const sidestep_flow *flow, sidestep_flow_counts *counts, size_t counts_bytes);

/* Stores the packets of one receive queue that were lost; exact. */
int sidestep_flow_loss(const sidestep_flow *flow, uint32_t queue, uint64_t *lost);

/* Ends the flow; null is ignored. */
void sidestep_flow_free(sidestep_flow *flow);

#ifdef __cplusplus
}
#endif

#endif
