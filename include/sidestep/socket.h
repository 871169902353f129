/*
 * Accelerated UDP, with a kernel socket for each socket: the C ABI of sidestep.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An engine is one queue of one interface with all its sockets. Datagrams are lent, not copied: receive returns a
 * pointer into the memory that the device wrote, release takes it back; reserve returns the memory that is sent. If
 * acceleration is not possible the same calls use the kernel's socket, and sidestep_udp_path has the reason.
 *
 * Link with -lsidestep_c. C99 or C++11, with the system's <netinet/in.h>.
 *
 * ERRORS. As in error.h: 0 or a negative SIDESTEP_E* code; sidestep_last_error() has the thing, the reason and the next
 * step, sidestep_last_errno() the errno that a kernel socket would have given.
 *
 * LIFETIME. An engine is yours until you free it, and everything of it ends with it: sockets, datagrams, reservations.
 * A socket is a number of its engine; 0 is never valid, and the number of a closed socket is refused, not confused with
 * a later one. Datagrams and reservations outlive their socket.
 *
 * THREADS. An engine is used by one thread at a time, with everything of it. Different engines are independent. The
 * library runs a thread, mostly asleep, beside each engine that is connected to the control plane.
 *
 * POLLING. Call receive or poll at least every few hundred milliseconds: an owner that is silent for a second counts as
 * stopped, and the kernel gets its packets until it calls again. Neither call waits.
 *
 * PROCESSES. An engine belongs to the process that opened it: after fork(2) the child's calls are refused.
 */
#ifndef SIDESTEP_SOCKET_H
#define SIDESTEP_SOCKET_H

#include <netinet/in.h>
#include <sidestep/error.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* mode: the way frames pass between the device and memory, best first. */
#define SIDESTEP_MODE_ZERO_COPY 0
#define SIDESTEP_MODE_COPY 1
#define SIDESTEP_MODE_GENERIC 2 /* the kernel's own XDP, for drivers without any */

/* queue: a receive queue of the interface. An accelerated port or group needs every one. */
#define SIDESTEP_QUEUE_ANY (-1)   /* one free queue */
#define SIDESTEP_QUEUE_EVERY (-2) /* every one that is free */

/* kick: the thread that sends. All but the first save the caller the system call, and cost a CPU or a wake-up. */
#define SIDESTEP_KICK_CALLER 0
#define SIDESTEP_KICK_THREAD_SPIN 1 /* a thread that never sleeps */
#define SIDESTEP_KICK_THREAD_PARK 2 /* a thread that sleeps when there is nothing to send */
#define SIDESTEP_KICK_SQPOLL 3      /* a kernel thread (io_uring) */

/* checksums of received frames */
#define SIDESTEP_CHECKSUMS_AUTO 0 /* verified, except those that senders of this machine leave unfinished on a veth */
#define SIDESTEP_CHECKSUMS_VERIFY 1
#define SIDESTEP_CHECKSUMS_TRUST 2

/* multicast_out: the interface by which datagrams to groups are sent. */
#define SIDESTEP_OUT_ENGINE 0 /* the engine's interface */
#define SIDESTEP_OUT_ROUTES 1 /* according to the routes */

/* reason: the reason why traffic goes by the kernel; sidestep_reason_text has the text. More may be appended. */
#define SIDESTEP_ACCELERATED 0 /* it does not: it is accelerated */
#define SIDESTEP_REASON_NOT_WANTED 1
#define SIDESTEP_REASON_CONTROL_ABSENT 2
#define SIDESTEP_REASON_CONTROL_SILENT 3
#define SIDESTEP_REASON_NOT_ALLOWED 4
#define SIDESTEP_REASON_NO_INTERFACE 5
#define SIDESTEP_REASON_INTERFACE_DOWN 6
#define SIDESTEP_REASON_INTERFACE_KIND 7
#define SIDESTEP_REASON_NO_FREE_QUEUE 8
#define SIDESTEP_REASON_NO_XDP 9
#define SIDESTEP_REASON_REFUSED 10
#define SIDESTEP_REASON_REVOKED 11
#define SIDESTEP_REASON_TAKEN 12
#define SIDESTEP_REASON_GROUP_TAKEN 13
#define SIDESTEP_REASON_LOOPBACK_OR_LOCAL 14
#define SIDESTEP_REASON_ROUTE_NOT_ON_INTERFACE 15
#define SIDESTEP_REASON_NO_ROUTE 16
#define SIDESTEP_REASON_ROUTE_UNKNOWN 17
#define SIDESTEP_REASON_NEIGHBOUR_PENDING 18
#define SIDESTEP_REASON_NEIGHBOUR_FAILED 19
#define SIDESTEP_REASON_BROADCAST 20
#define SIDESTEP_REASON_TOO_BIG 21
#define SIDESTEP_REASON_MULTICAST_LOOP 22
#define SIDESTEP_REASON_TOO_MANY_ENTRIES 23
#define SIDESTEP_REASON_GROUP_ELSEWHERE 24
#define SIDESTEP_REASON_CAME_BY_KERNEL 25
#define SIDESTEP_REASON_KERNEL_CONNECTIONS 26
#define SIDESTEP_REASON_OFFLOAD 27
#define SIDESTEP_REASON_QUEUE_ELSEWHERE 28 /* its packets may come by a queue of the device that is not this program's */
#define SIDESTEP_REASON_OPENING 29
#define SIDESTEP_REASON_HANDED_OVER 30 /* the live connection was handed over to the kernel */
#define SIDESTEP_REASON_RELEASED 31 /* the administrator, or the end of the control plane, has given the traffic to the kernel */
#define SIDESTEP_REASON_GROUP_SHARED 32 /* another program has a socket at the port of this group, too, and the kernel gives both a copy */
#define SIDESTEP_REASON_PORT_SHARED 33 /* several sockets may have the port (SO_REUSEADDR), of which the kernel selects the receiver */

typedef struct sidestep_engine sidestep_engine;

/* A socket of an engine. */
typedef uint64_t sidestep_udp;

/* An address with its port. Where a call takes one, it takes every struct sockaddr of IPv4 or IPv6. */
typedef union sidestep_address {
    struct sockaddr any; /* any.sa_family is AF_INET or AF_INET6 */
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} sidestep_address;

/* Options of an engine. Fill it with sidestep_engine_options_default and change what you want otherwise. */
typedef struct sidestep_engine_options {
    const char *interface_name;
    const char *control; /* path of the control plane's socket; null: that of this network namespace */
    const char *name;    /* name of the engine in `sidestep ps`; null: the program's name */
    int32_t queue;       /* its number, or SIDESTEP_QUEUE_ANY, SIDESTEP_QUEUE_EVERY */
    uint32_t frames;     /* of 2 KiB for each queue, a power of two: half for the device, half for unread and sent datagrams */
    uint32_t ring_entries;      /* of each ring: a power of two */
    uint32_t receive_frames;    /* lent to the device by each queue; 0: half of all. Few of them stay in the cache */
    uint32_t transmit_budget;   /* frames that one kick may send in copy mode (Linux 6.17); 0: the kernel's choice */
    uint32_t mode;              /* the best one wanted */
    uint32_t kick;
    int32_t kick_cpu;           /* of the sending thread; -1: not pinned */
    uint32_t sqpoll_idle_ms;    /* SIDESTEP_KICK_SQPOLL sleeps after this time without a frame */
    int32_t control_agent_cpu;         /* of the control agent, a thread that nearly always sleeps; -1: not pinned */
    uint32_t busy_poll_us;      /* poll the device by this thread's calls (SO_BUSY_POLL); 0: do not */
    uint32_t busy_poll_budget;  /* frames per such call */
    uint32_t checksums;
    uint32_t timestamps;        /* 1: datagrams get their software_ns, some 25 ns each; off by default */
    uint32_t accelerate;        /* 0: the kernel's path alone */
    uint32_t reserved;
    uint64_t queues;            /* bit i: queue i is wanted; 0: see `queue`. A port needs every queue by which its packets may come */
} sidestep_engine_options;

/* The facts of an engine. */
typedef struct sidestep_engine_facts {
    uint64_t calls;       /* system calls of this thread to send or to be given frames */
    uint32_t reason;      /* why all traffic goes by the kernel; SIDESTEP_ACCELERATED: it does not */
    uint32_t interface;   /* its index; this and the following fields are 0 if nothing is accelerated */
    uint32_t queue;       /* of several the first */
    uint32_t mode;        /* of several queues the slowest */
    uint32_t frames;
    uint32_t frame_bytes; /* memory of each */
    uint64_t queues;      /* bit i: queue i is the engine's */
} sidestep_engine_facts;

/* Options of a UDP socket. Fill it with sidestep_udp_options_default and change what you want otherwise. */
typedef struct sidestep_udp_options {
    uint32_t reuse_address;       /* 1: SO_REUSEADDR, several sockets may bind a group's port */
    uint32_t reuse_port;          /* 1: SO_REUSEPORT; the port is still steered to one program alone */
    uint32_t only_v6;             /* 1: IPV6_V6ONLY */
    uint32_t hop_limit;           /* 1 to 255, to hosts */
    uint32_t multicast_hop_limit; /* 0 to 255, to groups */
    uint32_t type_of_service;     /* DSCP and ECN, 0 to 255 */
    uint32_t multicast_out;
    uint32_t multicast_loop; /* 1: members on this host get what is sent to groups, and then the kernel sends it */
    uint32_t may_fragment;   /* 1: the kernel may fragment what exceeds the path's MTU; 0: that is SIDESTEP_ETOOLONG */
    uint32_t receive_buffer; /* bytes, of the kernel's socket; 0: the kernel's default */
    uint32_t keep_errors;    /* 1: IP_RECVERR, errors about all sent datagrams are queued for sidestep_udp_next_error */
} sidestep_udp_options;

/* The path of traffic. */
typedef struct sidestep_path {
    uint32_t reason; /* SIDESTEP_ACCELERATED, or why it goes by the kernel */
    uint32_t mode;   /* of the accelerated traffic */
} sidestep_path;

/* A datagram on loan. Pass the same structure back: a release or a reply finds it by its token. */
typedef struct sidestep_datagram {
    const void *bytes;
    size_t length;
    uint64_t software_ns; /* when it was taken from the ring or the kernel, CLOCK_REALTIME; 0: timestamps are off */
    uint64_t hardware_ns; /* when the device received it, on the device's clock; 0: not reported */
    uint64_t token;       /* the library's; 0 once given back */
    sidestep_address source;
    sidestep_address destination; /* if it came by the kernel: the address that the socket is bound to */
    uint32_t interface;           /* that it came by; 0: the kernel delivered it */
    uint8_t time_to_live;         /* 0: the kernel delivered it; so for the next */
    uint8_t type_of_service;
    uint8_t reserved[10];
} sidestep_datagram;

/* Memory for a payload to send. Pass the same structure back. */
typedef struct sidestep_reservation {
    void *bytes; /* not aligned, its content undefined */
    size_t length;
    uint64_t token; /* the library's; 0 once sent or discarded */
} sidestep_reservation;

/* One of several datagrams to send. */
typedef struct sidestep_message {
    const void *bytes; /* may be null if `length` is 0 */
    size_t length;
    const struct sockaddr *to; /* null: the peer of a connected socket */
    socklen_t to_bytes;
} sidestep_message;

/* Counters of a socket, in datagrams. */
typedef struct sidestep_udp_counts {
    uint64_t received; /* accelerated */
    uint64_t received_by_kernel;
    uint64_t sent; /* accelerated */
    uint64_t sent_by_kernel;
    uint64_t dropped; /* not fetched in time */
} sidestep_udp_counts;

/* A datagram that was not delivered. */
typedef struct sidestep_undelivered {
    sidestep_address destination; /* its destination */
    int32_t error;                /* why, an errno */
    uint32_t mtu;                 /* with EMSGSIZE: the path MTU, bytes; else 0 */
} sidestep_undelivered;

/* ---- Engines ---------------------------------------------------------------------------------------------------- */

/* Fills `options_bytes` (pass sizeof) of `options` with defaults for low latency on an ordinary host, without an
 * interface. */
int sidestep_engine_options_default(sidestep_engine_options *options, size_t options_bytes);

/* Opens an engine. If the control plane is absent or refuses, it opens anyway, and its sockets are the kernel's:
 * sidestep_engine_refusal has the reason. The options and their texts are yours again when this returns. */
int sidestep_engine_open(const sidestep_engine_options *options, size_t options_bytes, sidestep_engine **engine);

/* Takes received datagrams into the sockets' queues and does periodic work; stores the number of unread datagrams. A
 * program that calls receive in a loop needs no poll. */
int sidestep_engine_poll(sidestep_engine *engine, size_t *unread);

/* Sends what was put. */
int sidestep_engine_flush(sidestep_engine *engine);
int sidestep_engine_info(const sidestep_engine *engine, sidestep_engine_facts *facts, size_t facts_bytes);

/* The reason why all traffic goes by the kernel, with its text; SIDESTEP_ACCELERATED and "" if traffic can be
 * accelerated. The text is valid until the next such call with this engine. */
int sidestep_engine_refusal(sidestep_engine *engine, uint32_t *reason, const char **text);

/* Closes what is open. Null is ignored. */
void sidestep_engine_free(sidestep_engine *engine);

/* ---- UDP sockets ------------------------------------------------------------------------------------------------ */

int sidestep_udp_options_default(sidestep_udp_options *options, size_t options_bytes);

/* Binds. The kernel checks the permission, and chooses the port if `address` has 0; a group's address is allowed, too.
 * `options` may be null: the defaults.
 *
 * This and the next three wait for the control plane, 40 ms at most. After that, datagrams come by the kernel
 * (SIDESTEP_REASON_OPENING), and are accelerated as soon as it has answered, while the engine is polled. */
int sidestep_udp_bind(sidestep_engine *engine, const struct sockaddr *address, socklen_t address_bytes,
                      const sidestep_udp_options *options, size_t options_bytes, sidestep_udp *socket);

/* Sets the peer: only its datagrams are received, and null for `to` sends to it. */
int sidestep_udp_connect(sidestep_engine *engine, sidestep_udp socket, const struct sockaddr *peer,
                         socklen_t peer_bytes);

/* Joins a group (its port is ignored) on an interface, 0 for the engine's: from any source, or from one `source` unless
 * that is null. Stores the path of its datagrams. Other sockets on this host no longer see an accelerated group. */
int sidestep_udp_join(sidestep_engine *engine, sidestep_udp socket, const struct sockaddr *group, socklen_t group_bytes,
                      const struct sockaddr *source, socklen_t source_bytes, uint32_t interface, sidestep_path *path);

/* Leaves a group that was joined with the same arguments. */
int sidestep_udp_leave(sidestep_engine *engine, sidestep_udp socket, const struct sockaddr *group,
                       socklen_t group_bytes, const struct sockaddr *source, socklen_t source_bytes,
                       uint32_t interface);
int sidestep_udp_local(sidestep_engine *engine, sidestep_udp socket, sidestep_address *address);

/* The descriptor of its kernel socket, for options and facts (getsockopt, ss). It stays the engine's: do not close it
 * or read from it. Do not wait on it either: accelerated datagrams do not make it readable. */
int sidestep_udp_fd(sidestep_engine *engine, sidestep_udp socket, int *fd);

/* The path of the socket's traffic: both directions if it is connected, else the received traffic. */
int sidestep_udp_path(sidestep_engine *engine, sidestep_udp socket, sidestep_path *path);

/* The present path of datagrams to an address. The first ones to a neighbour that the kernel does not know go by the
 * kernel, which resolves it. */
int sidestep_udp_path_to(sidestep_engine *engine, sidestep_udp socket, const struct sockaddr *to, socklen_t to_bytes,
                         sidestep_path *path);
int sidestep_udp_statistics(sidestep_engine *engine, sidestep_udp socket, sidestep_udp_counts *counts,
                            size_t counts_bytes);

/* The error of an earlier datagram, which the kernel learned by ICMP: an errno, reported once; 0 for none. */
int sidestep_udp_take_error(sidestep_engine *engine, sidestep_udp socket, int *error);

/* A datagram that was not delivered, the oldest first, whatever path it was sent by: of sockets with keep_errors.
 * SIDESTEP_EEMPTY if there is none. A system call. */
int sidestep_udp_next_error(sidestep_engine *engine, sidestep_udp socket, sidestep_undelivered *undelivered,
                            size_t undelivered_bytes);

/* Closes; unread datagrams are dropped. */
int sidestep_udp_close(sidestep_engine *engine, sidestep_udp socket);

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

/* Lends the next datagram; SIDESTEP_EEMPTY if there is none. No system call while the traffic is accelerated. One that
 * is never returned is memory that the device lacks. */
int sidestep_udp_receive(sidestep_engine *engine, sidestep_udp socket, sidestep_datagram *datagram);
int sidestep_udp_release(sidestep_engine *engine, sidestep_datagram *datagram);

/* Lends the next datagrams, as recvmmsg(2) receives them: at most `most`, for which `datagrams` has places, and at most 64 that came past
 * the kernel. SIDESTEP_EEMPTY, and a `count` of 0, if there is none. */
int sidestep_udp_receive_many(sidestep_engine *engine, sidestep_udp socket, sidestep_datagram *datagrams, size_t most,
                              size_t *count);

/* Releases all of them that are on loan, whatever the code: those given back before, with a token of 0, are passed over. */
int sidestep_udp_release_many(sidestep_engine *engine, sidestep_datagram *datagrams, size_t count);

/* Sends it back to its source, in the same memory. It is returned even if that fails, unless the code is
 * SIDESTEP_EUSAGE for the datagram itself. */
int sidestep_udp_reply(sidestep_engine *engine, sidestep_udp socket, sidestep_datagram *datagram);

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

/* `to` is null for the peer of a connected socket. SIDESTEP_EFULL: poll frees memory. `payload` may be null if `length`
 * is 0. */

/* Sends a copy: it is sent, or is with the sending thread, when this returns. */
int sidestep_udp_send(sidestep_engine *engine, sidestep_udp socket, const void *payload, size_t length,
                      const struct sockaddr *to, socklen_t to_bytes);

/* Puts a copy, which is sent by the next flush: many of them cost one system call, or none. */
int sidestep_udp_put(sidestep_engine *engine, sidestep_udp socket, const void *payload, size_t length,
                     const struct sockaddr *to, socklen_t to_bytes);

/* Sends copies of several with one flush, in their order, as sendmmsg(2). `sent` of them are sent: fewer than `count` where one cannot be,
 * whose code the next call returns if it begins there. A failure is that of the first; nothing was sent then. */
int sidestep_udp_send_many(sidestep_engine *engine, sidestep_udp socket, const sidestep_message *messages, size_t count,
                           size_t *sent);

/* Reserves memory for a payload of up to `length` bytes, to be written in place and then sent or discarded. */
int sidestep_udp_reserve(sidestep_engine *engine, sidestep_udp socket, size_t length, const struct sockaddr *to,
                         socklen_t to_bytes, sidestep_reservation *reservation);

/* Sends the first `length` bytes. The reservation is gone even if that fails; but it stays open if `length` exceeds it
 * (SIDESTEP_ETOOLONG). */
int sidestep_udp_send_reserved(sidestep_engine *engine, sidestep_udp socket, sidestep_reservation *reservation,
                               size_t length);
int sidestep_udp_discard(sidestep_engine *engine, sidestep_reservation *reservation);

/* ---- Words ------------------------------------------------------------------------------------------------------ */

/* A reason's name in lists ("control_absent") and its sentence; they live as long as the program. */
const char *sidestep_reason_name(uint32_t reason);
const char *sidestep_reason_text(uint32_t reason);

/* Parses an address: "198.18.0.1:7000", "[2001:db8::1]:7000", "[fe80::1%2]:7000". */
int sidestep_address_parse(const char *text, sidestep_address *address);

#ifdef __cplusplus
}
#endif

#endif
