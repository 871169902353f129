/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions shared by the steering program and the control plane: limits, keys, values, reasons.
 *
 * crates/xdp_steering/src/layout.rs and reason.rs mirror this file; their tests compare them with the BTF of the
 * compiled program. Any change here but an addition at the end of `enum reason` raises LAYOUT_VERSION: a restarted
 * control plane adopts only maps of its own layout.
 *
 * Numbers in keys are in network byte order if they come from the wire unchanged (addresses, ports), in host byte order
 * otherwise (VLAN). An IPv4 address takes the first four of the sixteen bytes, the rest is zero; `family` distinguishes
 * it from an IPv6 address with the same first bytes. Every byte of padding is named and zero: hash maps compare them,
 * too.
 */
#ifndef SIDESTEP_STEER_H
#define SIDESTEP_STEER_H

#include <linux/types.h>

#include "ring.h"

#define STEER_MAGIC 0x50455453 /* "STEP" in memory of a little-endian machine */
#define LAYOUT_VERSION 6

#define ADDRESS_BYTES 16
#define LABEL_BYTES 48

#define STACKS_MAX 64      /* one per accelerated process and interface; a host has fewer cores to poll them */
#define QUEUES_MAX 64      /* receive queues of one interface that can be steered; queues above it stay with the kernel */
#define FLOWS_MAX 16384    /* preallocated, about 2 MB: connections of one interface that are hot at the same time */
#define LISTENERS_MAX 1024 /* bound ports of one interface */
#define GROUPS_MAX 4096    /* multicast channels of one interface; the largest feeds have some hundreds */
#define PORTS 65536        /* an array: a lookup is an index, without a hash */
#define COUNTERS_MAX 64    /* more than there are reasons, so that a new reason does not change the map */

#define FEEDS_MAX 64           /* bits of a set; a host has fewer cores to read them */
#define FEED_CELLS 16384       /* of one ring: 1 MiB, some 700 packets of 1,500 bytes, 5,400 of 100; it fits an L2 cache */
#define DOORBELLS_MAX 16       /* of one feed: each is looked at for every packet */
#define RING_FLOWS_MAX 4096    /* taps on connections */
#define RING_LISTENERS_MAX 1024
#define RING_GROUPS_MAX 4096

#define VLAN_ANY 0xffff /* in `outer_vlan` of a listener or group: any tagging, none included */
#define FAMILY_IPV4 4
#define FAMILY_IPV6 6

/* 44 bytes. One TCP connection or one connected pair of UDP addresses; a `vlan` is 0 if there is no tag. */
struct flow_key {
	__u8 local[ADDRESS_BYTES];
	__u8 remote[ADDRESS_BYTES];
	__be16 local_port;
	__be16 remote_port;
	__u16 outer_vlan;
	__u16 inner_vlan;
	__u8 protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	__u8 family;
	__u16 zero;
};

/* 24 bytes. A bound port; an all-zero `local` is any address of this host in the family. */
struct listener_key {
	__u8 local[ADDRESS_BYTES];
	__be16 local_port;
	__u16 outer_vlan;
	__u16 inner_vlan;
	__u8 protocol;
	__u8 family;
};

/* 40 bytes. A multicast channel (UDP); an all-zero `source` is any sender. */
struct group_key {
	__u8 group[ADDRESS_BYTES];
	__u8 source[ADDRESS_BYTES];
	__be16 port;
	__u16 outer_vlan;
	__u16 inner_vlan;
	__u8 family;
	__u8 zero;
};

/* The value of flows, listeners and groups: the owner of the frame. A frame is redirected once, so there is one owner.
 * */
struct owner {
	__u32 stack; /* or OWNER_KERNEL; of a flow that is being handed over with SHARED */
};

/* The owner of a flow whose connection was handed over: the kernel has it, whoever owns the port. */
#define OWNER_KERNEL 0xffffffff

/* A bit beside the stack's number: the kernel gets the segments as soon as it has the connection, the stack until then. */
#define SHARED 0x80000000

/* The value of ring_flows, ring_listeners and ring_groups. */
struct feed_set {
	__u64 feeds; /* bit n: feed n gets a copy */
	__u32 drops; /* 1: nobody else gets the packet, if all entries that match say so and control's heartbeat is fresh */
	__u32 zero;
};

/* A row of the table of feeds. */
struct feed {
	__u32 live;
	__u32 rings;     /* one for each receive queue; packets of further queues are in the first one */
	__u64 doorbells; /* bit n: doorbell n is there */
	__u8 label[LABEL_BYTES]; /* for display */
};

/* The writer's side of a ring, which no process can map. */
struct ring_state {
	struct sidestep_ring_producer producer;
	__u64 busy;    /* 1 while a program writes the ring */
	__u64 refused; /* packets that found it busy since the last one that did not */
};

/* What stands before the IP packet in a message of a feed. Byte order of this machine. */
struct ring_packet {
	__u64 received_ns;   /* CLOCK_MONOTONIC, read by the program */
	__u16 payload_at;    /* from the message's first byte */
	__u16 payload_bytes;
	__u16 outer_vlan;    /* 0: none */
	__u8 family;
	__u8 protocol;
};

/* The longest IP packet that is copied: a jumbo frame's, with room. It fits the slack. */
#define RING_PACKET_BYTES_MAX 16320

/* A word that a reader sets before it sleeps, in a page of its own. */
struct doorbell {
	__u64 asleep;
	__u64 reserved[7];
};

/* The size of a doorbell's BPF ring buffer in the template: a page of any kernel. Control makes them of one page of this
 * one. */
#define DOORBELL_RING_BYTES 65536

/* A TCP port that control has reserved for a stack, in the array of ports. Control writes all of it, the program only
 * the second word. */
struct port_owner {
	__u32 stack_plus_one; /* 0: not reserved */
	__u32 is_shared;      /* the kernel has had a socket on it: each segment is looked up there */
};

/* A row of the table of stacks. The program reads the first four words. */
struct stack {
	__u32 live;
	__u32 frame_bytes_max; /* the longest frame that its sockets accept, over all buffers; the kernel drops longer ones */
	__u32 first_queue;     /* a queue with a socket of it, which lives as long as the process */
	__u32 tcp_deadlines;   /* the deadlines that it may miss before TCP goes to the kernel, which resets its connections */
	__u8 label[LABEL_BYTES]; /* for display */
};

/* One page that only this stack (and control) can map and write. A cache line of its own. */
struct heartbeat {
	__u64 beat_ns; /* CLOCK_MONOTONIC */
	__u64 reserved[7];
};

struct config {
	__u32 magic;
	__u32 layout;
	__u32 enabled;
	__u32 ifindex;
	__u64 deadline_ns; /* a heartbeat further away from now is stale; for TCP, several deadlines away */
	__u64 generation;  /* +1 with every control plane that takes over */
	__u8 mac[6];       /* the interface's own address */
	__u8 generic;      /* 1: attached in generic mode */
	__u8 none;         /* NONE_...: kinds of entries that no table has, so that they are not looked up */
	__u64 control_beat_ns; /* CLOCK_MONOTONIC: control's heartbeat, without which no feed has a packet for itself */
};

/* Bits whose default 0 is safe: without knowledge every table is looked up. */
#define NONE_OF_ANY_VLAN 1 /* no listener and no group of VLAN_ANY */
#define NONE_WITH_SOURCE 2 /* no group of one source */
#define NONE_IN_RING_FLOWS 4
#define NONE_IN_RING_LISTENERS 8
#define NONE_IN_RING_GROUPS 16
#define NONE_IN_RINGS (NONE_IN_RING_FLOWS | NONE_IN_RING_LISTENERS | NONE_IN_RING_GROUPS)

/* The outcome of a frame: the index of its counter. reason.rs has the displayed names. */
enum reason {
	REDIRECT_FLOW,
	REDIRECT_LISTENER,
	REDIRECT_GROUP,
	REDIRECT_PORT,
	PASS_DISABLED,
	PASS_TRUNCATED,
	PASS_VLAN_DEPTH,
	PASS_NOT_IP,
	PASS_BAD_IP,
	PASS_FRAGMENT,
	PASS_IP_OPTIONS,
	PASS_IPV6_EXTENSION,
	PASS_ICMP,
	PASS_OTHER_PROTOCOL,
	PASS_BAD_TRANSPORT,
	PASS_ODD_SOURCE,
	PASS_FOREIGN_MAC,
	PASS_NO_ENTRY,
	PASS_NO_GROUP,
	PASS_STACK_GONE,
	PASS_TOO_LONG,
	PASS_STALE,
	PASS_QUEUE,
	PASS_NO_SOCKET,
	PASS_FORWARDED,
	DROP_FRAGMENT,
	DROP_QUEUE,
	PASS_SPLIT_HEADER,
	DROP_TOO_LONG,
	PASS_KERNEL_SOCKET,
	PASS_HANDED_OVER,
	DROP_RING,
	REASONS, /* their number: at most COUNTERS_MAX */
};

#endif
