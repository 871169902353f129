/*
 * FIX sessions over TCP, TLS, Unix sockets, shared memory and the accelerated path: the C ABI of sidestep.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An engine holds the sessions of one settings file (QuickFIX's .cfg as it is, or TOML), of acceptors and initiators.
 * One thread polls it; events are queued meanwhile and fetched one by one. Messages are sent within the call.
 *
 * Link with -lsidestep_c. C99 or C++11.
 *
 * ERRORS. As in error.h: 0 or a negative SIDESTEP_E* code; sidestep_last_error() has the thing, the reason and the next
 * step.
 *
 * LIFETIME. An engine is yours until you free it. Sessions are numbers of an engine, from 1, in the order of the file,
 * then those made from templates. The bytes of an event are valid until the next poll, also during sends.
 *
 * THREADS. An engine is used by one thread at a time. The library's own threads prepare and remove files of journals.
 */
#ifndef SIDESTEP_FIX_H
#define SIDESTEP_FIX_H

#include <sidestep/error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sidestep_fix_engine sidestep_fix_engine;

/* kind of an event. More may be appended. */
#define SIDESTEP_FIX_MESSAGE 1 /* an application message, complete, from 8= to the SOH after 10= */
#define SIDESTEP_FIX_LOGON 2   /* the session is logged on */
#define SIDESTEP_FIX_LOGOUT 3  /* the session is logged out; the bytes have the reason */
#define SIDESTEP_FIX_RESET 4   /* both sequence numbers became 1 */
#define SIDESTEP_FIX_PROBLEM 5 /* the session cannot continue; the bytes have the reason */
#define SIDESTEP_FIX_CANCEL 6  /* its open orders are to be cancelled: the peer disconnected and did not return (CancelOnDisconnect) */
#define SIDESTEP_FIX_ROOM 7    /* messages can be sent again after SIDESTEP_EFULL */

typedef struct sidestep_fix_event {
    const void *bytes; /* not ended by a zero */
    size_t length;
    uint64_t sequence; /* MsgSeqNum (34) of a message */
    uint32_t kind;     /* SIDESTEP_FIX_* */
    uint32_t session;
} sidestep_fix_event;

typedef struct sidestep_fix_state {
    uint64_t next_outbound; /* the next MsgSeqNum (34) that is sent */
    uint64_t next_inbound;  /* the next one expected */
    uint64_t sent;          /* messages, since the engine was opened */
    uint64_t received;
    uint32_t logged_on; /* 1 while messages can be sent */
    uint32_t connected; /* 1 while there is a connection */
} sidestep_fix_state;

/* Opens the sessions of a settings file. `spin` is not 0 if the thread will never sleep. Keys that are unknown or have
 * no effect are named on standard error. */
int sidestep_fix_open(const char *settings, int spin, sidestep_fix_engine **engine);

/* Ends all connections, without Logouts. Null is ignored. */
void sidestep_fix_free(sidestep_fix_engine *engine);

/* Does all work that is due, and stores the amount. Never waits. Refused while 4 MiB of events wait. */
int sidestep_fix_poll(sidestep_fix_engine *engine, size_t *work);

/* Sleeps until there is work, for at most this time, and at most a second. For use after a poll that found no work. */
int sidestep_fix_sleep(sidestep_fix_engine *engine, int64_t timeout_ns);

/* The next event; SIDESTEP_EEMPTY if there is none. `event_bytes` is sizeof(sidestep_fix_event). */
int sidestep_fix_next(sidestep_fix_engine *engine, sidestep_fix_event *event, size_t event_bytes);

/* The number of a session by its name, as in "FIX.4.4:CLIENT->EXCHANGE". */
int sidestep_fix_find(sidestep_fix_engine *engine, const char *name, uint32_t *session);

/* The state of a session. `state_bytes` is sizeof(sidestep_fix_state). */
int sidestep_fix_look(const sidestep_fix_engine *engine, uint32_t session, sidestep_fix_state *state, size_t state_bytes);

/* Sends an application message, and stores its MsgSeqNum (34). The body is fields of tag=value, each ended by SOH,
 * without those that the session writes itself (8, 9, 35, 34, 49, 56, 52, 10 ...). SIDESTEP_EFULL: the output queue is
 * full (SlowConsumerBytes); SIDESTEP_FIX_ROOM comes when half of it is sent, once for any number of refusals. */
int sidestep_fix_send(sidestep_fix_engine *engine, uint32_t session, const char *msg_type, const void *body, size_t length,
                      uint64_t *sequence);

/* Ends a session's connection by a Logout with this text, which may be empty. */
int sidestep_fix_logout(sidestep_fix_engine *engine, uint32_t session, const char *words);

/* Resets both sequence numbers to 1: by a Logon with ResetSeqNumFlag if the session is connected. */
int sidestep_fix_reset(sidestep_fix_engine *engine, uint32_t session);

/* Logs all sessions out and waits for the answers, for at most this time, and at most a minute. */
int sidestep_fix_shut_down(sidestep_fix_engine *engine, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
