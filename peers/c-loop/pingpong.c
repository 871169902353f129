/* The least that can be measured: send, receive, two readings of the TSC. No options, no checks beyond the calls' own.
 *
 *   pingpong server PORT CPU tcp|udp|udp-unconnected block|spin
 *   pingpong client ADDRESS PORT CPU tcp|udp|udp-unconnected block|spin SIZE MESSAGES
 *
 * The client prints the median round trip in nanoseconds. The server answers one client and ends with it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define WARMUP 2000
#define SIZE_MAX_BYTES 65536

static char buffer[SIZE_MAX_BYTES];
/* Where an unconnected socket sends to, and where what it receives comes from. */
static struct sockaddr_in peer;
static int unconnected;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
}

static int flags_of(const char *waiting) {
    return strcmp(waiting, "spin") == 0 ? MSG_DONTWAIT : 0;
}

static int open_socket(int udp) {
    int one = 1, fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd < 0) die("socket");
    if (!udp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return fd;
}

static inline ssize_t send_one(int fd, size_t size) {
    if (unconnected) return sendto(fd, buffer, size, 0, (struct sockaddr *)&peer, sizeof peer);
    return send(fd, buffer, size, 0);
}

static inline ssize_t receive_once(int fd, char *into, size_t size, int flags) {
    socklen_t length = sizeof peer;
    if (unconnected) return recvfrom(fd, into, size, flags, (struct sockaddr *)&peer, &length);
    return recv(fd, into, size, flags);
}

/* Receives size bytes; 0 at the end of the stream. */
static inline ssize_t receive(int fd, size_t size, int flags) {
    size_t filled = 0;
    while (filled < size) {
        ssize_t count = receive_once(fd, buffer + filled, size - filled, flags);
        if (count == 0) return 0;
        if (count > 0)
            filled += (size_t)count;
        else if (errno != EAGAIN && errno != EINTR)
            return -1;
    }
    return (ssize_t)filled;
}

static int serve(char **argument) {
    int udp = strcmp(argument[4], "tcp") != 0, flags = flags_of(argument[5]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argument[2]))};
    socklen_t length = sizeof peer;
    uint32_t size;
    int fd = open_socket(udp);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) die("bind");
    if (udp) {
        /* The first datagram gives the size and the address of the peer. */
        if (recvfrom(fd, &size, sizeof size, 0, (struct sockaddr *)&peer, &length) != sizeof size) die("recvfrom");
        if (!unconnected && connect(fd, (struct sockaddr *)&peer, length) != 0) die("connect");
    } else {
        int one = 1;
        if (listen(fd, 1) != 0) die("listen");
        fd = accept(fd, NULL, NULL);
        if (fd < 0) die("accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (recv(fd, &size, sizeof size, MSG_WAITALL) != sizeof size) die("recv");
    }
    if (size > SIZE_MAX_BYTES) return 1;
    pin(atoi(argument[3]));
    memcpy(buffer, &size, sizeof size);
    send_one(fd, sizeof size);
    while (receive(fd, size, flags) > 0)
        if (send_one(fd, size) != (ssize_t)size) break;
    return 0;
}

static double ns_per_tick(void) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC_RAW, &from);
    uint64_t begin = __rdtsc();
    usleep(200000);
    clock_gettime(CLOCK_MONOTONIC_RAW, &to);
    uint64_t end = __rdtsc();
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)(end - begin);
}

static int ascending(const void *one, const void *two) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;
    return a < b ? -1 : a > b;
}

static inline uint64_t round_trip(int fd, size_t size, int flags) {
    unsigned cpu;
    _mm_lfence();
    uint64_t begin = __rdtsc();
    if (send_one(fd, size) != (ssize_t)size) die("send");
    if (receive(fd, size, flags) <= 0) die("recv");
    uint64_t end = __rdtscp(&cpu);
    _mm_lfence();
    return end - begin;
}

static int measure(char **argument) {
    int udp = strcmp(argument[5], "tcp") != 0, flags = flags_of(argument[6]);
    uint32_t size = (uint32_t)atoi(argument[7]), messages = (uint32_t)atoi(argument[8]), answer;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argument[3]))};
    if (size == 0 || size > SIZE_MAX_BYTES || messages == 0) return 2;
    inet_pton(AF_INET, argument[2], &address.sin_addr);
    uint64_t *ticks = calloc(messages, sizeof *ticks);
    int fd = open_socket(udp);
    if (ticks == NULL) die("calloc");
    peer = address;
    if (!unconnected && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) die("connect");
    memcpy(buffer, &size, sizeof size);
    if (send_one(fd, sizeof size) != sizeof size) die("send");
    if (recv(fd, &answer, sizeof answer, MSG_WAITALL) != sizeof answer) die("recv");
    pin(atoi(argument[4]));
    double scale = ns_per_tick();
    for (int i = 0; i < WARMUP; i++) round_trip(fd, size, flags);
    for (uint32_t i = 0; i < messages; i++) ticks[i] = round_trip(fd, size, flags);
    qsort(ticks, messages, sizeof *ticks, ascending);
    printf("%.0f\n", (double)ticks[messages / 2] * scale);
    return 0;
}

int main(int count, char **argument) {
    unconnected = (count == 6 && strcmp(argument[4], "udp-unconnected") == 0) ||
                  (count == 9 && strcmp(argument[5], "udp-unconnected") == 0);
    if (count == 6 && strcmp(argument[1], "server") == 0) return serve(argument);
    if (count == 9 && strcmp(argument[1], "client") == 0) return measure(argument);
    fprintf(stderr, "usage: %s server|client ... (see the source)\n", argument[0]);
    return 2;
}
