/* The twin of ring.rs: two programs that share a ring in a file, either of them in either role.
 *
 *   make build install PREFIX=$PWD/out/c
 *   cc examples/ring.c -o ring -I out/c/include -L out/c/lib -Wl,-rpath,$PWD/out/c/lib -lsidestep_c
 *   ./ring receive /dev/shm/orders & ./ring send /dev/shm/orders 1000000 */
#define _POSIX_C_SOURCE 200809L
#include <sidestep/ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "ring: %s\n", sidestep_last_error());
        exit(1);
    }
}

static uint64_t checksum(const unsigned char *bytes, size_t length) { /* FNV-1a */
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    while (length-- > 0) sum = (sum ^ *bytes++) * UINT64_C(0x100000001b3);
    return sum;
}

/* ANCHOR: send */
/* Sends on until the ring has seen `count` messages: number, checksum, and bytes that follow from the number. */
static void send_all(sidestep_producer *producer, uint64_t count) {
    const struct timespec a_while = {0, 1000000};
    sidestep_ring_info info;
    void *place;

    for (;;) {
        must(sidestep_producer_info(producer, &info, sizeof info));
        if (info.sequence >= count) return;
        size_t length = 16 + info.sequence * 37 % 500;
        int code = sidestep_producer_wait(producer, length, SIDESTEP_PARK, SIDESTEP_FOREVER);
        if (code == SIDESTEP_EPEERGONE || code == SIDESTEP_ECLOSED) {
            nanosleep(&a_while, NULL); /* the reader has died or left; another one will come */
            continue;
        }
        must(code);
        must(sidestep_producer_try_claim(producer, length, &place));
        unsigned char *message = place;
        for (size_t at = 16; at < length; at++) message[at] = (unsigned char)(info.sequence + at - 16);
        uint64_t sum = checksum(message + 16, length - 16);
        memcpy(message, &info.sequence, 8);
        memcpy(message + 8, &sum, 8);
        must(sidestep_producer_commit(producer));
    }
}
/* ANCHOR_END: send */

/* Reads until a sender has closed the ring, and checks each message. */
static void receive_all(sidestep_consumer *consumer) {
    sidestep_ring_info info;

    for (;;) {
        int code = sidestep_consumer_wait(consumer, SIDESTEP_PARK, SIDESTEP_FOREVER);
        must(sidestep_consumer_info(consumer, &info, sizeof info));
        if (code == SIDESTEP_EPEERGONE) continue; /* what it had published is read; another sender will come */
        if (code == SIDESTEP_ECLOSED) break;
        must(code);
        const void *message;
        size_t length;
        must(sidestep_consumer_try_read(consumer, &message, &length));
        uint64_t sum = checksum((const unsigned char *)message + 16, length - 16), head[2];
        memcpy(head, message, sizeof head);
        if (head[0] != info.sequence || head[1] != sum) {
            fprintf(stderr, "ring: message %llu is damaged\n", (unsigned long long)info.sequence);
            exit(1);
        }
        must(sidestep_consumer_release(consumer));
    }
    printf("%llu messages, all of them whole\n", (unsigned long long)info.sequence);
}

int main(int count, char **words) {
    sidestep_segment *ring;
    sidestep_producer *producer;
    sidestep_consumer *consumer;

    if (count < 3) {
        fprintf(stderr, "usage: ring send FILE COUNT, or ring receive FILE\n");
        return 2;
    }
    if (sidestep_segment_create(words[2], SIDESTEP_SPSC, SIDESTEP_WAKE_BARRIER, 64 << 10, &ring) != 0) {
        must(sidestep_segment_open(words[2], SIDESTEP_READ_WRITE, &ring)); /* somebody else came first */
    }
    if (strcmp(words[1], "send") == 0) {
        must(sidestep_producer_new(ring, &producer));
        send_all(producer, count > 3 ? strtoull(words[3], NULL, 10) : 0);
        sidestep_producer_free(producer);
    } else {
        must(sidestep_consumer_new(ring, SIDESTEP_FROM_UNREAD, &consumer));
        receive_all(consumer);
        sidestep_consumer_free(consumer);
    }
    sidestep_segment_free(ring);
    return 0;
}
