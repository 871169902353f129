/*
 * Market data: a feed handler with order books, and readers of what one publishes: the C ABI of sidestep.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A feed joins the lines of an ITCH feed over MoldUDP64, past the kernel where that is possible, merges them by message
 * sequence, asks for what is missing, and keeps the books. With a folder it also publishes every event and the best bid
 * and offer of each instrument; any number of processes of the host read them by sidestep_quotes, a late one from the
 * present state on.
 *
 * Link with -lsidestep_c. C99 or C++11.
 *
 * ERRORS. As in error.h: 0 or a negative SIDESTEP_E* code; sidestep_last_error() has the thing, the reason and the next
 * step.
 *
 * LIFETIME. A feed and quotes are yours until you free them.
 *
 * THREADS. Each is used by one thread at a time. Poll a feed at least every few hundred milliseconds.
 *
 * PROCESSES. A feed belongs to the process that opened it: a child after fork(2) may not use it.
 *
 * PRICES are integers, in units of 10^-4.
 */
#ifndef SIDESTEP_MARKET_H
#define SIDESTEP_MARKET_H

#include <sidestep/ring.h>

#ifdef __cplusplus
extern "C" {
#endif

/* side */
#define SIDESTEP_BUY 1
#define SIDESTEP_SELL 2

/* state */
#define SIDESTEP_FEED_UNKNOWN 0    /* nothing was told yet */
#define SIDESTEP_FEED_LIVE 1       /* no message is missing */
#define SIDESTEP_FEED_STALE 2      /* messages are lost, or none come: prices may be wrong */
#define SIDESTEP_FEED_RECOVERING 3 /* messages are missing, and asked for: prices are behind */

/* update */
#define SIDESTEP_UPDATE_EVENT 1        /* an event, in its turn */
#define SIDESTEP_UPDATE_TOP 2          /* the present state of an instrument: bid, offer, state */
#define SIDESTEP_UPDATE_SYNCHRONISED 3 /* the present state of all instruments has come; events follow */
#define SIDESTEP_UPDATE_RESET 4        /* what was known is void; the present state of all instruments follows */

typedef struct sidestep_feed sidestep_feed;
typedef struct sidestep_quotes sidestep_quotes;

/* Options of a feed. Fill it with sidestep_feed_options_default and change what you want otherwise. */
typedef struct sidestep_feed_options {
    const char *lines;     /* INTERFACE:GROUP:PORT, for one sender with @SOURCE behind it; several with blanks between them */
    const char *rerequest; /* re-request servers, ADDRESS:PORT, with blanks between them; null: none */
    const char *glimpse;   /* snapshot server, HOST:PORT; null: none */
    const char *publish;   /* folder, as /dev/shm/feed; null: nothing is published */
    uint32_t orders;       /* live orders of all instruments; 0: 4,194,304 */
    uint32_t instruments;  /* the highest locate, 65,535 at most; 0: 16,384 */
    uint32_t levels;       /* price levels of all instruments; 0: 2,097,152 */
    uint32_t accelerate;   /* 0: kernel sockets alone */
} sidestep_feed_options;

/* State and counters of a feed. */
typedef struct sidestep_feed_status {
    uint64_t next_sequence; /* the next message to be delivered */
    uint64_t messages;      /* applied */
    uint64_t gaps;          /* times at which a message was missing although a later one had come */
    uint64_t lost;          /* messages that were never delivered */
    uint32_t state;         /* SIDESTEP_FEED_ */
    uint32_t reserved;
    char session[16];       /* of the feed; empty before the first packet */
} sidestep_feed_status;

/* A price level. */
typedef struct sidestep_level {
    int64_t price;
    uint64_t quantity; /* 0: there is none */
    uint32_t orders;
    uint32_t reserved;
} sidestep_level;

/* An update. Price, quantity and reference are an event's; bid and offer a top's. */
typedef struct sidestep_update {
    uint64_t sequence;   /* of the message in its session */
    uint64_t time_ns;    /* at the venue, since its midnight */
    uint64_t arrived_ns; /* receipt of the datagram, CLOCK_MONOTONIC */
    uint64_t reference;  /* order, match or letters, by the kind */
    int64_t price;       /* INT64_MIN: none is told */
    uint64_t quantity;
    uint32_t update; /* SIDESTEP_UPDATE_ */
    uint32_t kind;   /* of an event: 1 add, 2 execute, 3 reduce, 4 delete, 5 replace, 6 trade, 7 cross, 8 broken, 9 status,
                        10 system, 11 instrument, 12 top, 13 state, 14 reset, 15 void */
    uint32_t locate; /* 0: the whole channel */
    uint32_t side;   /* SIDESTEP_BUY, SIDESTEP_SELL; 0: none is told */
    uint32_t flags;  /* 1 last of its message, 2 recovered, 4 stale, 8 not printable, 16 time of software */
    uint32_t state;  /* SIDESTEP_FEED_ */
    sidestep_level bid;
    sidestep_level offer;
} sidestep_update;

/* Stores the defaults. */
int sidestep_feed_options_default(sidestep_feed_options *options, size_t options_bytes);

/* Joins the lines, and takes all memory: 410 MB by default. */
int sidestep_feed_open(const sidestep_feed_options *options, size_t options_bytes, sidestep_feed **feed);

/* Handles what has come and what is due; stores the number of things done, 0 if there was nothing. Does not wait. */
int sidestep_feed_poll(sidestep_feed *feed, uint32_t *done);

/* Sleeps until something has come or is due, at most so long and at most 50 ms. */
int sidestep_feed_sleep(sidestep_feed *feed, uint64_t longest_ns);

/* Stores state and counters. */
int sidestep_feed_read_status(const sidestep_feed *feed, sidestep_feed_status *status, size_t status_bytes);

/* Stores the number of an instrument on this day. SIDESTEP_EEMPTY: the feed has not named it. Looks at all of them. */
int sidestep_feed_find(const sidestep_feed *feed, const char *symbol, uint32_t *locate);

/* Stores whether a book is the exchange's now: SIDESTEP_FEED_LIVE only if the feed is live and nothing was lost of this
 * instrument. A live feed may have books that are not: a message was refused, or what came before the join is not known. */
int sidestep_feed_read_book_state(const sidestep_feed *feed, uint32_t locate, uint32_t *state);

/* Stores the levels of one side of a book, the best first, as many as there is room for, and their number. */
int sidestep_feed_levels(const sidestep_feed *feed, uint32_t locate, uint32_t side, sidestep_level *levels, size_t room,
                         size_t *count);

/* Ends the feed; null is ignored. */
void sidestep_feed_free(sidestep_feed *feed);

/* Reads what a feed handler of this host publishes in a folder. The first updates are the present state. */
int sidestep_quotes_open(const char *folder, sidestep_quotes **quotes);

/* As sidestep_feed_find. */
int sidestep_quotes_find(const sidestep_quotes *quotes, const char *symbol, uint32_t *locate);

/* Stores the best bid and offer of an instrument as they are now, whatever was read of the ring. */
int sidestep_quotes_top(const sidestep_quotes *quotes, uint32_t locate, sidestep_update *top);

/* Stores the next update. SIDESTEP_EEMPTY: there is none now. SIDESTEP_ELOST: events were overwritten before they were
 * read; the present state of all instruments follows. SIDESTEP_ECLOSED: the feed handler has ended. */
int sidestep_quotes_next(sidestep_quotes *quotes, sidestep_update *update);

/* Waits until next has something: SIDESTEP_SPIN, SIDESTEP_YIELD or SIDESTEP_PARK; SIDESTEP_FOREVER is no timeout. */
int sidestep_quotes_wait(sidestep_quotes *quotes, int waiting, int64_t timeout_ns);

/* Ends the reader; null is ignored. */
void sidestep_quotes_free(sidestep_quotes *quotes);

#ifdef __cplusplus
}
#endif

#endif
