/* Streams whose bytes follow from their numbers, sent, received and waited for in the ways that there are. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    /* Bytes of a stream under way: what two sockets' buffers hold, so that both ends may send at once. */
    AHEAD_MAX = 60000,
    PART_MAX = 16000,
    /* A program that stands still for so long hangs. */
    WATCHDOG_MS = 25000,
};

/* A connection and its stream. */
struct slot {
    pthread_mutex_t lock;
    _Atomic int number; /* -1: none */
    uint64_t id, sent, got;
};

static uint64_t seed;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "soak, seed %" PRIu64 ", process %d: %s: %s\n", seed, getpid(), what, strerror(errno));
    _exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* A random number below `end`. */
static unsigned below(uint64_t *random, unsigned end)
{
    return (unsigned)(mixed((*random)++) >> 33) % end;
}

/* Bytes of the stream `id`, from position `from` on. */
static void fill(uint64_t id, uint64_t from, unsigned char *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t place = from + i;
        to[i] = (unsigned char)(mixed(id ^ (place / 8 << 20)) >> (place % 8 * 8));
    }
}

static void check(uint64_t id, uint64_t from, const unsigned char *bytes, size_t count)
{
    unsigned char wanted[PART_MAX + 1];
    fill(id, from, wanted, count);
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == wanted[i])
            continue;
        errno = 0;
        fprintf(stderr, "stream %" PRIx64 ", byte %" PRIu64 ": %02x, not %02x\n", id, from + i, bytes[i], wanted[i]);
        fail("a lost or foreign byte");
    }
}

/* Waits in one of the ways that there are. */
static void await(uint64_t *random, int number, short events)
{
    struct pollfd one = {.fd = number, .events = events};
    int ready = 1;
    /* Not at all, in one case of five: the call itself waits. One that is about to be connected is waited for. */
    switch (below(random, events & POLLIN ? 5 : 4)) {
    case 0:
        ready = poll(&one, 1, WATCHDOG_MS);
        break;
    case 1:
        if (number < FD_SETSIZE) {
            fd_set in, out;
            struct timeval longest = {.tv_sec = WATCHDOG_MS / 1000};
            FD_ZERO(&in);
            FD_ZERO(&out);
            FD_SET(number, events & POLLIN ? &in : &out);
            ready = select(number + 1, &in, &out, NULL, &longest);
        }
        break;
    case 2: {
        int set = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = (uint32_t)events};
        if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, number, &event) != 0)
            fail("epoll");
        /* A signal that is ignored may end it, too: one that another thread has blocked (posix_spawn) when it came. */
        do
            ready = epoll_wait(set, &event, 1, WATCHDOG_MS);
        while (ready < 0 && errno == EINTR);
        close(set);
        break;
    }
    case 3: {
        struct timespec longest = {.tv_sec = WATCHDOG_MS / 1000};
        ready = ppoll(&one, 1, &longest, NULL);
        break;
    }
    }
    if (ready != 1)
        fail(ready == 0 ? "nothing came for too long" : "waiting");
}

static ssize_t receive(uint64_t *random, int number, unsigned char *to, size_t count, size_t due)
{
    struct iovec parts[2] = {{to, count / 3}, {to + count / 3, count - count / 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    switch (below(random, 6)) {
    case 0:
        return read(number, to, count);
    case 1:
        return readv(number, parts, 2);
    case 2:
        return recvmsg(number, &message, 0);
    case 3:
        return recv(number, to, due < count ? due : count, MSG_WAITALL);
    case 4: {
        unsigned char seen;
        if (recv(number, &seen, 1, MSG_PEEK) != 1)
            return -1;
        ssize_t got = recv(number, to, count, 0);
        return got > 0 && seen == to[0] ? got : -1;
    }
    default:
        return recv(number, to, count, 0);
    }
}

static void send_all(uint64_t *random, int number, const unsigned char *bytes, size_t count)
{
    while (count != 0) {
        size_t part = 1 + below(random, (unsigned)count);
        struct iovec parts[2] = {{(void *)bytes, part / 2}, {(void *)(bytes + part / 2), part - part / 2}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent;
        switch (below(random, 4)) {
        case 0:
            sent = write(number, bytes, part);
            break;
        case 1:
            sent = writev(number, parts, 2);
            break;
        case 2:
            sent = sendmsg(number, &message, MSG_NOSIGNAL);
            break;
        default:
            sent = send(number, bytes, part, MSG_NOSIGNAL);
        }
        if (sent <= 0)
            fail("send");
        bytes += sent;
        count -= (size_t)sent;
    }
}

/* Sends `count` bytes of the stream. */
static void say(uint64_t *random, struct slot *slot, unsigned char *part, size_t count)
{
    fill(slot->id, slot->sent, part, count);
    send_all(random, slot->number, part, count);
    slot->sent += count;
}

/* Receives until no more than `left` bytes of the stream are under way. */
static void hear(uint64_t *random, struct slot *slot, unsigned char *part, uint64_t left)
{
    while (slot->sent - slot->got > left) {
        await(random, slot->number, POLLIN);
        ssize_t got = receive(random, slot->number, part, 1 + below(random, PART_MAX), slot->sent - slot->got);
        if (got <= 0)
            fail(got == 0 ? "the peer has ended" : "receive");
        check(slot->id, slot->got, part, (size_t)got);
        slot->got += (uint64_t)got;
        if (slot->got > slot->sent)
            fail("more than was sent");
    }
}

/* Set in a child. There a connection that its peer has reset meanwhile may be unconnected: the kernel has got nothing of it. */
static bool is_child;

/* Serves one part of what has come; returns false at the end. */
static bool echo(uint64_t *random, int number, unsigned char *part, int flags)
{
    ssize_t got = recv(number, part, 1 + below(random, PART_MAX), flags);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got < 0 && errno != ECONNRESET && errno != EPIPE && !(is_child && errno == ENOTCONN))
        fail("receive");
    for (ssize_t sent = 0; sent < got;) {
        ssize_t now = send(number, part + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (now < 0 && (errno == ECONNRESET || errno == EPIPE))
            return false;
        if (now <= 0)
            fail("send");
        sent += now;
    }
    return got > 0;
}
