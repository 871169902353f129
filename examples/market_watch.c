/*
 * Prints the best bid and offer of an instrument, as a feed handler of this host publishes them: a strategy's way in. A late one
 * begins with the present state.
 *
 *     sidestep market watch --line lo:239.192.0.1:26400 --glimpse 127.0.0.1:26402 --publish /dev/shm/feed
 *     cc examples/market_watch.c -o market_watch -lsidestep_c
 *     ./market_watch /dev/shm/feed AAAA 10
 */
#include <inttypes.h>
#include <sidestep/market.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(void) {
    fprintf(stderr, "%s\n", sidestep_last_error());
    exit(1);
}

static void show(const sidestep_update *top) {
    printf("%" PRIu64 " %s %" PRIu64 " at %.4f | %.4f for %" PRIu64 "\n", top->sequence,
           top->state == SIDESTEP_FEED_LIVE ? "live" : "stale", top->bid.quantity, (double)top->bid.price / 1e4,
           (double)top->offer.price / 1e4, top->offer.quantity);
}

/* ANCHOR: read */
int main(int count, char **words) {
    sidestep_quotes *quotes;
    sidestep_update update, top;
    uint32_t locate = 0;
    long shown = 0, most = count > 3 ? atol(words[3]) : 0;
    if (count < 3) {
        fprintf(stderr, "usage: market_watch FOLDER SYMBOL [COUNT]\n");
        return 2;
    }
    if (sidestep_quotes_open(words[1], &quotes) != 0) fail();
    while (most == 0 || shown < most) {
        int code = sidestep_quotes_next(quotes, &update);
        if (code == SIDESTEP_EEMPTY) {
            sidestep_quotes_wait(quotes, SIDESTEP_PARK, 100000000);
            if (locate == 0) sidestep_quotes_find(quotes, words[2], &locate);
            continue;
        }
        if (code == SIDESTEP_ECLOSED) break;
        /* What was lost comes again, as the present state. */
        if (code == SIDESTEP_ELOST) continue;
        if (code != 0) fail();
        if (locate == 0) sidestep_quotes_find(quotes, words[2], &locate);
        /* 12: one side's best price has changed; the array has both. */
        if (update.locate != locate || locate == 0) continue;
        if (update.update == SIDESTEP_UPDATE_TOP || (update.update == SIDESTEP_UPDATE_EVENT && update.kind == 12)) {
            if (sidestep_quotes_top(quotes, locate, &top) != 0) continue;
            show(&top);
            shown++;
        }
    }
    sidestep_quotes_free(quotes);
    return 0;
}
/* ANCHOR_END: read */
