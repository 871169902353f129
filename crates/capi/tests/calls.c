/* Every call of ring.h, as a C program makes them. Argument: a folder for a named ring. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <sidestep/ring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(60000000000)

#define CHECK(is)                                                                                        \
    do {                                                                                                 \
        if (!(is)) {                                                                                     \
            fprintf(stderr, "%s:%d: not so: %s\nlast error: %s\n", __FILE__, __LINE__, #is, sidestep_last_error()); \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)
#define SAYS(words) CHECK(strstr(sidestep_last_error(), words) != NULL)

static void spsc_in_place(sidestep_segment *segment) {
    sidestep_producer *producer, *second = NULL;
    sidestep_consumer *consumer;
    sidestep_ring_info info;
    sidestep_ring_peer peer;
    const void *read;
    void *bytes;
    size_t length;

    CHECK(sidestep_consumer_new(segment, SIDESTEP_FROM_UNREAD, &consumer) == 0);
    CHECK(sidestep_producer_new(segment, &producer) == 0);
    CHECK(sidestep_producer_new(segment, &second) == SIDESTEP_EFAILED && second == NULL);
    SAYS("holds this side and lives");
    CHECK(sidestep_producer_peer(producer, &peer) == 0 && peer.state == SIDESTEP_PEER_PRESENT);

    CHECK(sidestep_producer_commit(producer) == SIDESTEP_EUSAGE);
    SAYS("nothing is claimed");
    CHECK(sidestep_producer_try_claim(producer, 5, &bytes) == 0 && (uintptr_t)bytes % 8 == 0);
    CHECK(sidestep_producer_abort(producer) == 0 && sidestep_producer_abort(producer) == SIDESTEP_EUSAGE);
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == SIDESTEP_EEMPTY);
    CHECK(sidestep_producer_try_claim(producer, 5, &bytes) == 0);
    memcpy(bytes, "35=D|", 5);
    CHECK(sidestep_producer_commit_prefix(producer, 6) == SIDESTEP_ETOOLONG);
    SAYS("only 5 bytes are claimed");
    CHECK(sidestep_producer_commit_prefix(producer, 4) == 0);
    CHECK(sidestep_producer_try_claim(producer, 100, &bytes) == 0);
    memset(bytes, 'x', 100);
    CHECK(sidestep_producer_commit(producer) == 0);
    CHECK(sidestep_producer_send(producer, NULL, 0) == 0);

    CHECK(sidestep_consumer_release(consumer) == SIDESTEP_EUSAGE);
    CHECK(sidestep_consumer_wait(consumer, SIDESTEP_SPIN, PATIENCE_NS) == 0);
    CHECK(sidestep_consumer_release(consumer) == SIDESTEP_EUSAGE); /* a wait lends nothing */
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == 0 && length == 4 && memcmp(read, "35=D", 4) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == 0 && length == 4);
    CHECK(sidestep_consumer_release(consumer) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == 0 && length == 100);
    CHECK(((const char *)read)[99] == 'x' && sidestep_consumer_release(consumer) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == 0 && length == 0);
    CHECK(sidestep_consumer_release(consumer) == 0);
    CHECK(sidestep_consumer_info(consumer, &info, sizeof info) == 0 && info.sequence == 3 && info.replaced_pid == 0);
    CHECK(sidestep_producer_info(producer, &info, sizeof info) == 0 && info.sequence == 3 && info.abandoned == 0);
    CHECK(sidestep_producer_beat(producer) == 0 && sidestep_consumer_beat(consumer) == 0);
    CHECK(sidestep_consumer_wait(consumer, SIDESTEP_PARK, 1000) == SIDESTEP_ETIMEDOUT);
    CHECK(sidestep_consumer_wait(consumer, 77, 0) == SIDESTEP_EUSAGE);

    CHECK(sidestep_producer_send(producer, "", (size_t)info.message_bytes_max + 1) == SIDESTEP_ETOOLONG);
    CHECK(sidestep_producer_send(producer, "", SIZE_MAX) == SIDESTEP_ETOOLONG);
    CHECK(sidestep_producer_wait(producer, SIZE_MAX, SIDESTEP_SPIN, SIDESTEP_FOREVER) == SIDESTEP_ETOOLONG);
    while (sidestep_producer_send(producer, "filler", 6) == 0) {
    }
    CHECK(sidestep_producer_send(producer, "filler", 6) == SIDESTEP_EFULL);
    SAYS("sidestep_producer_send: the ring is full\n  next: ");
    while (sidestep_producer_send_or_drop(producer, "filler", 6) == 0) {
    }
    CHECK(sidestep_producer_wait(producer, 6, SIDESTEP_YIELD, 0) == SIDESTEP_ETIMEDOUT);
    CHECK(sidestep_consumer_close(consumer) == 0);
    CHECK(sidestep_producer_peer(producer, &peer) == 0 && peer.state == SIDESTEP_PEER_CLOSED && peer.pid == 0);
    CHECK(sidestep_producer_send(producer, "filler", 6) == SIDESTEP_ECLOSED);
    CHECK(sidestep_producer_close(producer) == 0);
    sidestep_consumer_free(consumer);
    CHECK(sidestep_consumer_new(segment, SIDESTEP_FROM_OLDEST, &consumer) == SIDESTEP_EUSAGE);
    CHECK(sidestep_consumer_new(segment, SIDESTEP_FROM_LATEST, &consumer) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &read, &length) == SIDESTEP_ECLOSED);
    CHECK(sidestep_consumer_peer(consumer, &peer) == 0 && peer.state == SIDESTEP_PEER_PRESENT);
    sidestep_consumer_free(consumer);
    sidestep_producer_free(producer);
}

static void counters(const sidestep_segment *segment) {
    sidestep_ring_stat stat;
    unsigned char larger[sizeof stat + 8];

    memset(&stat, 0xee, sizeof stat);
    CHECK(sidestep_segment_stat(segment, &stat, sizeof stat) == 0);
    CHECK(stat.kind == SIDESTEP_SPSC && stat.fault == 0);
    CHECK(stat.capacity_bytes == 4096 && stat.cell_bytes == 64 && stat.message_bytes_max == 2040);
    CHECK(stat.written.messages > 3 && stat.read.messages == stat.written.messages && stat.read.bytes > 104);
    CHECK(stat.dropped == 1 && stat.abandoned == 0 && stat.lost == stat.written.messages - 3);
    CHECK(stat.writer.pid == 0 && stat.writer.is_alive == 0 && stat.writer.is_closed == 1);
    CHECK(stat.writer.beat_age_ns >= 0);
    memset(larger, 0xee, sizeof larger);
    CHECK(sidestep_segment_stat(segment, (sidestep_ring_stat *)(void *)larger, sizeof larger) == 0);
    CHECK(larger[sizeof stat] == 0 && larger[sizeof larger - 1] == 0);
    memset(&stat, 0xee, sizeof stat);
    CHECK(sidestep_segment_stat(segment, &stat, 8) == 0 && stat.kind == SIDESTEP_SPSC);
    CHECK(stat.capacity_bytes == UINT64_C(0xeeeeeeeeeeeeeeee));
}

/* A writer that is killed between claim and commit. */
static void a_death(const char *path) {
    sidestep_segment *segment;
    sidestep_producer *producer;
    sidestep_consumer *consumer;
    sidestep_ring_info info;
    sidestep_ring_peer peer;
    struct pollfd death = {0, POLLIN, 0};
    const void *message;
    void *bytes;
    size_t length;
    int claimed[2];
    char byte;
    pid_t child;

    CHECK(pipe(claimed) == 0);
    child = fork();
    if (child == 0) {
        CHECK(sidestep_segment_open(path, SIDESTEP_READ_WRITE, &segment) == 0);
        CHECK(sidestep_producer_new(segment, &producer) == 0);
        CHECK(sidestep_producer_send(producer, "last words", 10) == 0);
        CHECK(sidestep_producer_try_claim(producer, 100, &bytes) == 0);
        CHECK(write(claimed[1], "!", 1) == 1);
        pause();
        _exit(1);
    }
    CHECK(sidestep_segment_open(path, SIDESTEP_READ_WRITE, &segment) == 0);
    CHECK(sidestep_consumer_new(segment, SIDESTEP_FROM_UNREAD, &consumer) == 0);
    CHECK(sidestep_consumer_peer_pidfd(consumer, NULL) == SIDESTEP_EUSAGE);
    CHECK(close(claimed[1]) == 0 && read(claimed[0], &byte, 1) == 1 && close(claimed[0]) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &message, &length) == 0);
    CHECK(length == 10 && memcmp(message, "last words", 10) == 0 && sidestep_consumer_release(consumer) == 0);
    CHECK(sidestep_consumer_peer_pidfd(consumer, &death.fd) == 0);
    CHECK(poll(&death, 1, 0) == 0);
    CHECK(sidestep_consumer_wait(consumer, SIDESTEP_PARK, 1000000) == SIDESTEP_ETIMEDOUT);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(poll(&death, 1, 60000) == 1 && close(death.fd) == 0);
    CHECK(sidestep_consumer_wait(consumer, SIDESTEP_PARK, SIDESTEP_FOREVER) == SIDESTEP_EPEERGONE);
    CHECK(sidestep_consumer_peer(consumer, &peer) == 0);
    CHECK(peer.state == SIDESTEP_PEER_GONE && peer.pid == (uint32_t)child);
    CHECK(sidestep_producer_new(segment, &producer) == 0);
    CHECK(sidestep_producer_info(producer, &info, sizeof info) == 0);
    CHECK(info.abandoned == 1 && info.replaced_pid == (uint32_t)child);
    CHECK(waitpid(child, NULL, 0) == child);
    sidestep_segment_free(segment); /* the handles keep the memory */
    CHECK(sidestep_producer_send(producer, "next", 4) == 0);
    CHECK(sidestep_consumer_try_read(consumer, &message, &length) == 0 && length == 4);
    CHECK(sidestep_producer_peer_pidfd(producer, &death.fd) == 0 && close(death.fd) == 0);
    sidestep_producer_free(producer);
    sidestep_consumer_free(consumer);
}

static void broadcast(void) {
    sidestep_segment *made, *seen;
    sidestep_publisher *publisher;
    sidestep_subscriber *subscriber;
    sidestep_ring_info info;
    sidestep_ring_peer peer;
    unsigned char buffer[64];
    size_t length;
    uint64_t number, read = 0;
    int fd, code;

    CHECK(sidestep_segment_memfd(SIDESTEP_BROADCAST, SIDESTEP_WAKE_FENCE, 4096, &made) == 0);
    CHECK(sidestep_segment_fd(made, &fd) == 0 && fd >= 0);
    CHECK(sidestep_segment_from_fd(fd, SIDESTEP_READ_ONLY, &seen) == 0);
    CHECK(sidestep_publisher_new(made, &publisher) == 0);
    CHECK(sidestep_publisher_new(seen, &publisher) == SIDESTEP_EFAILED);
    SAYS("read-only");
    CHECK(sidestep_subscriber_new(seen, SIDESTEP_FROM_OLDEST, &subscriber) == 0);
    CHECK(sidestep_subscriber_try_read(subscriber, buffer, sizeof buffer, &length) == SIDESTEP_EEMPTY);
    CHECK(sidestep_publisher_publish(publisher, "tick", 4) == 0 && sidestep_publisher_beat(publisher) == 0);
    CHECK(sidestep_subscriber_wait(subscriber, SIDESTEP_PARK, PATIENCE_NS) == 0);
    CHECK(sidestep_subscriber_try_read(subscriber, buffer, 3, &length) == SIDESTEP_ETOOSHORT && length == 4);
    CHECK(sidestep_subscriber_try_read(subscriber, buffer, SIZE_MAX, &length) == 0 && memcmp(buffer, "tick", 4) == 0);
    CHECK(sidestep_publisher_publish(publisher, "", 5000) == SIDESTEP_ETOOLONG);
    for (number = 1; number <= 1000; number++) {
        CHECK(sidestep_publisher_publish(publisher, &number, sizeof number) == 0);
    }
    CHECK(sidestep_subscriber_peer(subscriber, &peer) == 0 && peer.state == SIDESTEP_PEER_PRESENT);
    CHECK(sidestep_subscriber_peer_pidfd(subscriber, &fd) == 0 && close(fd) == 0);
    CHECK(sidestep_publisher_info(publisher, &info, sizeof info) == 0 && info.sequence == 1001);
    CHECK(sidestep_publisher_close(publisher) == 0);
    while ((code = sidestep_subscriber_try_read(subscriber, buffer, sizeof buffer, &length)) != SIDESTEP_ECLOSED) {
        CHECK(code == 0 || code == SIDESTEP_ELOST);
        CHECK(sidestep_subscriber_info(subscriber, &info, sizeof info) == 0);
        if (code == 0) {
            memcpy(&number, buffer, sizeof number);
            CHECK(length == sizeof number && number == ++read + info.lost_messages);
        }
    }
    CHECK(read > 0 && info.lost_messages > 900 && read + info.lost_messages == 1000 && info.sequence == 1001);
    CHECK(info.lost_bytes == 8 * info.lost_messages);
    CHECK(sidestep_subscriber_wait(subscriber, SIDESTEP_SPIN, SIDESTEP_FOREVER) == SIDESTEP_ECLOSED);
    sidestep_subscriber_free(subscriber);
    sidestep_publisher_free(publisher);
    sidestep_segment_free(made);
    sidestep_segment_free(seen);
}

/* A ring as the kernel fills it: this program is the kernel, in a memfd whose header has no pids. */
static void foreign(void) {
    static const unsigned char no_pids[8];
    sidestep_segment *made, *seen = NULL;
    sidestep_publisher *publisher;
    sidestep_subscriber *subscriber;
    sidestep_ring_peer peer;
    sidestep_ring_stat stat;
    unsigned char buffer[64];
    size_t length;
    int fd, bell, may_sleep;

    CHECK(sidestep_segment_memfd(SIDESTEP_BROADCAST, SIDESTEP_WAKE_NEVER, 4096, &made) == 0);
    CHECK(sidestep_publisher_new(made, &publisher) == 0 && sidestep_segment_fd(made, &fd) == 0);
    CHECK(sidestep_segment_foreign(fd, 0, 8192, &seen) == SIDESTEP_EFAILED);
    SAYS("pid namespace");
    CHECK(pwrite(fd, no_pids, sizeof no_pids, 0x30) == (ssize_t)sizeof no_pids);
    CHECK(sidestep_segment_foreign(fd, 0, 8191, &seen) == SIDESTEP_EFAILED);
    CHECK(sidestep_segment_foreign(fd, 8, 8192, &seen) == SIDESTEP_EFAILED);
    CHECK(sidestep_segment_foreign(fd, 4096, 8192, &seen) == SIDESTEP_EFAILED);
    CHECK(sidestep_segment_foreign(-1, 0, 8192, &seen) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_foreign(fd, 0, 8192, NULL) == SIDESTEP_EUSAGE && seen == NULL);
    CHECK(sidestep_segment_foreign(fd, 0, 8192, &seen) == 0);
    CHECK(sidestep_subscriber_new(seen, SIDESTEP_FROM_LATEST, &subscriber) == 0);
    CHECK(sidestep_publisher_publish(publisher, "tick", 4) == 0);
    CHECK(sidestep_subscriber_wait(subscriber, SIDESTEP_YIELD, PATIENCE_NS) == 0);
    CHECK(sidestep_subscriber_try_read(subscriber, buffer, sizeof buffer, &length) == 0 && length == 4);
    CHECK(sidestep_subscriber_peer(subscriber, &peer) == 0 && peer.state == SIDESTEP_PEER_ABSENT);
    CHECK(sidestep_segment_stat(seen, &stat, sizeof stat) == 0 && stat.writer.pid == 0 && stat.written.messages == 1);

    CHECK(sidestep_subscriber_doorbell(subscriber, &bell) == SIDESTEP_EUSAGE);
    SAYS("has no doorbell");
    CHECK(sidestep_subscriber_request_doorbell(subscriber, &may_sleep) == SIDESTEP_EUSAGE);
    CHECK(sidestep_subscriber_set_doorbell(subscriber, fd, fd) == SIDESTEP_EFAILED);
    SAYS("its flag is not a BPF map");
    CHECK(sidestep_subscriber_set_device(subscriber, fd) == SIDESTEP_EFAILED);
    SAYS("not sidestep's device");
    CHECK(sidestep_subscriber_set_device(subscriber, -1) == SIDESTEP_EUSAGE);
    sidestep_subscriber_free(subscriber);
    sidestep_publisher_free(publisher);
    sidestep_segment_free(seen);
    sidestep_segment_free(made);
}

/* Four messages of eight bytes in a line. */
static void small_cells(void) {
    sidestep_segment *segment;
    sidestep_producer *producer;
    sidestep_consumer *consumer;
    sidestep_ring_stat stat;
    const void *bytes;
    size_t length;
    uint64_t number, found;

    CHECK(sidestep_segment_memfd(SIDESTEP_SPSC | SIDESTEP_SMALL_CELLS, SIDESTEP_WAKE_FENCE, 4096, &segment) == 0);
    CHECK(sidestep_producer_new(segment, &producer) == 0);
    CHECK(sidestep_consumer_new(segment, SIDESTEP_FROM_UNREAD, &consumer) == 0);
    for (number = 0; number < 100; number++) {
        CHECK(sidestep_producer_send(producer, &number, sizeof number) == 0);
    }
    for (number = 0; number < 100; number++) {
        CHECK(sidestep_consumer_try_read(consumer, &bytes, &length) == 0 && length == sizeof found);
        memcpy(&found, bytes, sizeof found);
        CHECK(found == number && sidestep_consumer_release(consumer) == 0);
    }
    CHECK(sidestep_segment_stat(segment, &stat, sizeof stat) == 0 && stat.kind == SIDESTEP_SPSC);
    CHECK(stat.capacity_bytes == 4096 && stat.cell_bytes == 16 && stat.written.cells == 100);
    sidestep_consumer_free(consumer);
    sidestep_producer_free(producer);
    sidestep_segment_free(segment);
}

static void refusals(const char *path, sidestep_segment *segment) {
    sidestep_segment *other = NULL;
    sidestep_producer *producer;
    size_t length;
    void *bytes;

    CHECK(sidestep_segment_create(path, SIDESTEP_SPSC, SIDESTEP_WAKE_BARRIER, 4096, &other) == SIDESTEP_EFAILED);
    SAYS("exists");
    CHECK(sidestep_segment_open("/no/such/ring", SIDESTEP_READ_ONLY, &other) == SIDESTEP_EFAILED);
    SAYS("sidestep_segment_open: cannot attach to the ring in /no/such/ring: No such file");
    CHECK(sidestep_segment_open("/dev/null", SIDESTEP_READ_ONLY, &other) == SIDESTEP_EFAILED);
    SAYS("regular file");
    CHECK(sidestep_segment_from_fd(-1, SIDESTEP_READ_ONLY, &other) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_from_fd(1000000, SIDESTEP_READ_ONLY, &other) == SIDESTEP_EFAILED);
    CHECK(sidestep_segment_memfd(SIDESTEP_SMALL_CELLS, SIDESTEP_WAKE_BARRIER, 4096, &other) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_memfd(3, SIDESTEP_WAKE_BARRIER, 4096, &other) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_memfd(SIDESTEP_SPSC, -1, 4096, &other) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_memfd(SIDESTEP_SPSC, SIDESTEP_WAKE_NEVER, SIZE_MAX, &other) == SIDESTEP_EUSAGE);
    SAYS("at most 4 GiB");
    CHECK(sidestep_segment_open(path, 2, &other) == SIDESTEP_EUSAGE && other == NULL);

    CHECK(sidestep_segment_open(NULL, SIDESTEP_READ_ONLY, &other) == SIDESTEP_EUSAGE);
    SAYS("`path` is a null pointer");
    CHECK(sidestep_segment_memfd(SIDESTEP_SPSC, SIDESTEP_WAKE_NEVER, 0, NULL) == SIDESTEP_EUSAGE);
    CHECK(sidestep_segment_stat(segment, NULL, 8) == SIDESTEP_EUSAGE);
    CHECK(sidestep_producer_new(NULL, &producer) == SIDESTEP_EUSAGE);
    CHECK(sidestep_producer_try_claim(NULL, 1, &bytes) == SIDESTEP_EUSAGE);
    CHECK(sidestep_producer_new(segment, &producer) == 0);
    CHECK(sidestep_producer_try_claim(producer, 1, NULL) == SIDESTEP_EUSAGE);
    CHECK(sidestep_producer_send(producer, NULL, 1) == SIDESTEP_EUSAGE);
    sidestep_producer_free(producer);
    CHECK(sidestep_consumer_try_read(NULL, NULL, &length) == SIDESTEP_EUSAGE);
    CHECK(sidestep_publisher_publish(NULL, "", 0) == SIDESTEP_EUSAGE);
    CHECK(sidestep_subscriber_try_read(NULL, NULL, 0, &length) == SIDESTEP_EUSAGE);
    sidestep_segment_free(NULL);
    sidestep_producer_free(NULL);
    sidestep_consumer_free(NULL);
    sidestep_publisher_free(NULL);
    sidestep_subscriber_free(NULL);
}

int main(int count, char **words) {
    sidestep_segment *segment;
    char path[4096];
    int code;

    CHECK(count == 2 && strcmp(sidestep_last_error(), "") == 0);
    CHECK(sidestep_ring_api_version() == SIDESTEP_RING_API_VERSION && sidestep_ring_layout_hash() != 0);
    for (code = SIDESTEP_EBUG; code <= 0; code++) {
        CHECK(strcmp(sidestep_strerror(code), sidestep_strerror(1)) != 0);
    }
    snprintf(path, sizeof path, "%s/ring", words[1]);
    CHECK(sidestep_segment_create(path, SIDESTEP_SPSC, SIDESTEP_WAKE_BARRIER, 4096, &segment) == 0);
    spsc_in_place(segment);
    counters(segment);
    a_death(path);
    refusals(path, segment);
    sidestep_segment_free(segment);
    broadcast();
    foreign();
    small_cells();
    puts("good");
    return 0;
}
