/*
 * The calls of /dev/sidestep-ring, the device of the kernel module in kernel/: one broadcast ring (ring_layout.h) that a
 * module of the kernel fills.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * mmap(2), read-only, from offset 0: the ring itself. No call is needed per message, and the device does not know its
 * readers. To sleep: SIDESTEP_RING_SEEN with the number of messages read or lost, then poll(2) or epoll(7), which say
 * POLLIN when there are more, then look at the ring again.
 *
 * read(2): the next message, behind a struct sidestep_ring_read. The first one is the first that is published after
 * open(2). Without a message it waits, or fails with EAGAIN (O_NONBLOCK). EMSGSIZE: the buffer is too short, the message
 * stays. A descriptor that reads needs no SIDESTEP_RING_SEEN; use each descriptor one way.
 */
#ifndef SIDESTEP_RING_DEVICE_H
#define SIDESTEP_RING_DEVICE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SIDESTEP_RING_DEVICE "/dev/sidestep-ring"
/* The version of the calls; another one has others. */
#define SIDESTEP_RING_DEVICE_ABI 1
/* Shortest and longest interval of the timer: a shorter one leaves a CPU no time for anything else. */
#define SIDESTEP_RING_INTERVAL_NS_MIN 10000ULL
#define SIDESTEP_RING_INTERVAL_NS_MAX 1000000000ULL

/* In front of each message that read(2) returns. */
struct sidestep_ring_read {
    __u64 sequence; /* messages of the ring before this one */
    __u64 lost;     /* of these, overwritten before this descriptor could read them, since its last read */
};

/* A message of the source `timer`. */
struct sidestep_ring_tick {
    __u64 stamp_ns; /* CLOCK_MONOTONIC, taken first */
    __u64 sequence; /* ticks before this one */
    __u64 missed;   /* intervals without a tick, because the timer was late, since the module was loaded */
};

/* A message of the source `udp`: this, and the IP packet from its first header byte to its total length. Native order. */
struct sidestep_ring_datagram {
    __u64 received_ns;   /* CLOCK_MONOTONIC */
    __u16 payload_at;    /* from the first byte of the message */
    __u16 payload_bytes; /* of the datagram's payload */
    __u16 vlan;          /* 0: none */
    __u8 family;         /* 4 or 6 */
    __u8 protocol;       /* 17 */
};

struct sidestep_ring_info {
    __u32 abi; /* SIDESTEP_RING_DEVICE_ABI */
    __u32 reserved;
    __u64 bytes; /* that can be mapped */
    __u64 cells;
};

struct sidestep_ring_stats {
    __u64 ticks;       /* of the timer */
    __u64 missed;      /* intervals without one */
    __u64 published;   /* messages */
    __u64 dropped;     /* messages that could not be published: too long, or not one datagram in one piece */
    __u64 interval_ns; /* 0: the source is not the timer */
    __u64 readers;     /* open descriptors */
};

#define SIDESTEP_RING_INFO _IOR('s', 1, struct sidestep_ring_info)
#define SIDESTEP_RING_STATS _IOR('s', 2, struct sidestep_ring_stats)
/* Messages read or lost through the mapping: poll(2) is about later ones. */
#define SIDESTEP_RING_SEEN _IOW('s', 3, __u64)
/* The timer's interval, ns. For descriptors that are open for writing, and with CAP_SYS_ADMIN. ENODEV: another source. */
#define SIDESTEP_RING_SET_INTERVAL _IOW('s', 4, __u64)

#endif
