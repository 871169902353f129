/* Threads that open, close, duplicate, fork and execute at random. What comes back is held against what the seed says was sent.
 *
 *     soak serve ADDRESS PORT SEED              echoes to all who come, until standard input ends or has a line
 *     soak dial ADDRESS PORT SEED END_MS [CONNECTION...]
 *                                               sends streams and checks the echo, until that moment (CLOCK_MONOTONIC)
 *     soak talk NUMBER ID SENT GOT MORE         a program that goes on with a connection, as started by `dial`
 *     soak echo NUMBER                          the same, as started by `serve`
 *
 * A CONNECTION is NUMBER:ID:SENT:GOT: the program has replaced itself and goes on with it. */
#include "open_numbers.h"
#include "soak_streams.h"

#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#define SELF "/proc/self/exe"

enum {
    THREADS = 4,
    SLOTS = 24,
    /* The program replaces itself so often. */
    EPOCH_MS = 1500,
};

/* A thread that does something to one connection after the other. */
struct carrier {
    pthread_t thread;
    uint64_t random;
    pid_t idle_child;
    _Atomic uint64_t steps;
    _Atomic(const char *) doing;
    unsigned char part[PART_MAX + 1];
};

extern char **environ;
static struct slot slots[SLOTS];
static struct carrier carriers[THREADS];
static struct addrinfo *at;
static int listener = -1;
static atomic_bool is_ending;
static atomic_uint opened, children, moves;
static uint64_t end_ms;

static void open_connection(struct carrier *carrier, struct slot *slot)
{
    uint64_t *random = &carrier->random;
    int flags = SOCK_STREAM | (below(random, 2) ? SOCK_CLOEXEC : 0);
    bool waits = below(random, 2);
    int number = socket(at->ai_family, flags | (waits ? 0 : SOCK_NONBLOCK), 0), error = 0;
    socklen_t length = sizeof error;
    if (number < 0)
        fail("socket");
    if (connect(number, at->ai_addr, at->ai_addrlen) != 0) {
        if (waits || errno != EINPROGRESS)
            fail("connect");
        await(random, number, POLLOUT);
        if (getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || (errno = error) != 0)
            fail("connect, SO_ERROR");
    }
    if (!waits && fcntl(number, F_SETFL, fcntl(number, F_GETFL) & ~O_NONBLOCK) != 0)
        fail("F_SETFL");
    slot->number = number;
    slot->id = mixed(seed ^ (uint64_t)(carrier - carriers) << 56 ^ atomic_fetch_add(&opened, 1));
    slot->sent = slot->got = 0;
}

/* Ends a connection: in order, with bytes unread, or by a reset. */
static void close_connection(struct carrier *carrier, struct slot *slot)
{
    struct linger linger = {.l_onoff = 1};
    unsigned manner = below(&carrier->random, 4);
    if (manner >= 2) {
        if (shutdown(slot->number, SHUT_WR) != 0)
            fail("shutdown");
        hear(&carrier->random, slot, carrier->part, 0);
        if (recv(slot->number, carrier->part, 1, 0) != 0)
            fail("there is no end after the last byte");
    } else if (manner == 1) {
        setsockopt(slot->number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    if (close(slot->number) != 0)
        fail("close");
    slot->number = -1;
}

/* The same connection by another number; the old one is closed. */
static void move(struct carrier *carrier, struct slot *slot)
{
    int number = -1, taken = -1;
    unsigned manner = below(&carrier->random, 6);
    if (manner >= 3 && (taken = open("/dev/null", O_RDWR)) < 0)
        fail("open");
    switch (manner) {
    case 0:
        number = dup(slot->number);
        break;
    case 1:
        number = fcntl(slot->number, F_DUPFD, 100);
        break;
    case 2:
        number = fcntl(slot->number, F_DUPFD_CLOEXEC, 0);
        break;
    case 3:
        number = dup3(slot->number, taken, O_CLOEXEC);
        break;
    default:
        number = dup2(slot->number, taken);
    }
    if (number < 0 || (taken >= 0 && number != taken) || dup2(number, number) != number || close(slot->number) != 0)
        fail("dup");
    slot->number = number;
    atomic_fetch_add(&moves, 1);
}

/* Descriptors that are no connections come and go, with the numbers of those that were. */
static void churn(struct carrier *carrier)
{
    uint64_t tag = mixed(carrier->random), answer = 0;
    int ends[2], event = eventfd(0, EFD_CLOEXEC);
    if (event < 0 || (below(&carrier->random, 2) ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) != 0)
        fail("pipe");
    if (write(ends[1], &tag, sizeof tag) != sizeof tag || read(ends[0], &answer, sizeof answer) != sizeof answer)
        fail("a pipe");
    if (tag != answer)
        fail("another's byte in a pipe");
    tag = tag >> 1 | 1;
    if (write(event, &tag, sizeof tag) != sizeof tag || read(event, &answer, sizeof answer) != sizeof answer || tag != answer)
        fail("an eventfd");
    if (close(ends[0]) != 0 || close(ends[1]) != 0 || close(event) != 0)
        fail("close of a pipe");
}

/* A child serves what comes within a while. */
static void echo_for_a_while(int number)
{
    static unsigned char part[PART_MAX + 1];
    uint64_t random = (uint64_t)getpid();
    struct pollfd one = {.fd = number, .events = POLLIN};
    is_child = true;
    if (poll(&one, 1, 300) == 1)
        echo(&random, number, part, 0);
    _exit(0);
}

/* A child goes on with the connection: hears what is under way, and says more. */
static void talk_on(struct slot *slot, uint64_t more)
{
    static unsigned char part[PART_MAX + 1];
    uint64_t random = slot->id;
    hear(&random, slot, part, 0);
    say(&random, slot, part, more);
    hear(&random, slot, part, 0);
    _exit(0);
}

/* The program of a child, under the library or without it. */
static void execute(const struct slot *slot, uint64_t more, bool is_bare)
{
    char texts[5][24];
    char *none[] = {NULL}, *arguments[] = {"soak", listener >= 0 ? "echo" : "talk", NULL, NULL, NULL, NULL, NULL, NULL};
    uint64_t values[5] = {(uint64_t)slot->number, slot->id, slot->sent, slot->got, more};
    for (int i = 0; i < 5; i++) {
        snprintf(texts[i], sizeof texts[i], "%" PRIu64, values[i]);
        arguments[2 + i] = texts[i];
    }
    if (fcntl(slot->number, F_SETFD, 0) != 0)
        fail("F_SETFD");
    execve(SELF, arguments, is_bare ? none : environ);
    fail("execve");
}

static void join_child(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "status %x\n", status);
        fail("a child");
    }
    atomic_fetch_add(&children, 1);
}

/* A child uses the connection, as a copy of this process or as another program, while its parent waits. */
static void use_in_child(struct carrier *carrier, struct slot *slot, bool is_other_program)
{
    uint64_t more = 1 + below(&carrier->random, PART_MAX);
    bool is_bare = below(&carrier->random, 2);
    pid_t child = fork();
    if (child == 0) {
        alarm(WATCHDOG_MS / 1000);
        if (is_other_program)
            execute(slot, more, is_bare);
        if (listener >= 0)
            echo_for_a_while(slot->number);
        talk_on(slot, more);
    }
    join_child(child);
    if (listener < 0)
        slot->got = slot->sent += more;
}

/* A child that leaves everything alone for a while, and has a copy of it. */
static void leave_alone_in_child(struct carrier *carrier)
{
    useconds_t while_us = below(&carrier->random, 30000);
    if (carrier->idle_child != 0)
        join_child(carrier->idle_child);
    carrier->idle_child = fork();
    if (carrier->idle_child == 0) {
        usleep(while_us);
        _exit(0);
    }
}

static void start_program(void)
{
    pid_t child;
    if (posix_spawn(&child, "/bin/true", NULL, NULL, (char *[]){"true", NULL}, environ) != 0)
        fail("posix_spawn");
    join_child(child);
}

/* What is done to a descriptor beside its traffic; returns false for none of it. */
static bool handle(struct carrier *carrier, struct slot *slot, unsigned what)
{
    if (what < 12) {
        carrier->doing = "dup";
        move(carrier, slot);
    } else if (what < 20) {
        carrier->doing = "pipes";
        churn(carrier);
    } else if (what < 23) {
        carrier->doing = "fork, and the child uses it";
        use_in_child(carrier, slot, false);
    } else if (what < 25) {
        carrier->doing = "fork and exec of what uses it";
        use_in_child(carrier, slot, true);
    } else if (what < 27) {
        carrier->doing = "fork, and the child leaves it alone";
        leave_alone_in_child(carrier);
    } else if (what < 29) {
        carrier->doing = "posix_spawn";
        start_program();
    } else {
        return false;
    }
    return true;
}

static void dial_step(struct carrier *carrier)
{
    struct slot *slot = &slots[below(&carrier->random, SLOTS)];
    unsigned what = below(&carrier->random, 100);
    if (pthread_mutex_trylock(&slot->lock) != 0)
        return;
    if (slot->number < 0) {
        carrier->doing = "connect";
        open_connection(carrier, slot);
    } else if (what >= 94) {
        carrier->doing = "close";
        close_connection(carrier, slot);
    } else if (!handle(carrier, slot, what)) {
        carrier->doing = "talk";
        uint64_t ahead = slot->sent - slot->got, count = 1 + below(&carrier->random, PART_MAX);
        if (ahead + count <= AHEAD_MAX)
            say(&carrier->random, slot, carrier->part, count);
        hear(&carrier->random, slot, carrier->part, below(&carrier->random, AHEAD_MAX / 2));
    }
    pthread_mutex_unlock(&slot->lock);
}

static void end_served(struct slot *slot)
{
    /* The peer is told, though children may have it. */
    shutdown(slot->number, SHUT_RDWR);
    if (close(slot->number) != 0)
        fail("close");
    slot->number = -1;
}

/* Into a free slot: where there is none, the connection waits for one. */
static void accept_one(struct carrier *carrier)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[i];
        if (slot->number >= 0 || pthread_mutex_trylock(&slot->lock) != 0)
            continue;
        int number = -1;
        if (slot->number < 0) {
            number = accept4(listener, NULL, NULL, below(&carrier->random, 2) ? SOCK_CLOEXEC : 0);
            if (number < 0 && errno != EAGAIN && errno != ECONNABORTED)
                fail("accept");
            slot->number = number;
            opened += number >= 0;
        }
        pthread_mutex_unlock(&slot->lock);
        if (number >= 0)
            return;
    }
}

static void serve_step(struct carrier *carrier)
{
    struct pollfd all[SLOTS + 1] = {[SLOTS] = {.fd = listener, .events = POLLIN}};
    for (int i = 0; i < SLOTS; i++)
        all[i] = (struct pollfd){.fd = slots[i].number, .events = POLLIN};
    carrier->doing = "poll";
    /* Numbers may be closed, and be others', by now: each is looked at again. */
    if (poll(all, SLOTS + 1, 10) <= 0)
        return;
    unsigned from = below(&carrier->random, SLOTS + 1);
    for (unsigned i = 0; i <= SLOTS; i++) {
        unsigned place = (from + i) % (SLOTS + 1);
        if (all[place].revents == 0)
            continue;
        if (place == SLOTS) {
            carrier->doing = "accept";
            accept_one(carrier);
            continue;
        }
        struct slot *slot = &slots[place];
        if (pthread_mutex_trylock(&slot->lock) != 0)
            continue;
        if (slot->number >= 0 && !handle(carrier, slot, below(&carrier->random, 100))) {
            carrier->doing = "echo";
            if (!echo(&carrier->random, slot->number, carrier->part, MSG_DONTWAIT))
                end_served(slot);
        }
        pthread_mutex_unlock(&slot->lock);
        return;
    }
    sched_yield();
}

static void *carry(void *argument)
{
    struct carrier *carrier = argument;
    while (!is_ending) {
        if (listener >= 0)
            serve_step(carrier);
        else
            dial_step(carrier);
        carrier->steps++;
    }
    if (carrier->idle_child != 0)
        join_child(carrier->idle_child);
    carrier->idle_child = 0;
    return NULL;
}

/* Runs the threads until `is_over`; each must get on. */
static void run(bool (*is_over)(void))
{
    uint64_t steps[THREADS] = {0}, since[THREADS];
    is_ending = false;
    for (int i = 0; i < THREADS; i++) {
        carriers[i].random = mixed(seed + (uint64_t)i);
        since[i] = now_ms();
        if (pthread_create(&carriers[i].thread, NULL, carry, &carriers[i]) != 0)
            fail("pthread_create");
    }
    while (!is_over()) {
        for (int i = 0; i < THREADS; i++) {
            if (carriers[i].steps != steps[i]) {
                steps[i] = carriers[i].steps;
                since[i] = now_ms();
            } else if (now_ms() - since[i] > 2 * WATCHDOG_MS) {
                fail(carriers[i].doing);
            }
        }
        usleep(20000);
    }
    is_ending = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(carriers[i].thread, NULL);
}

static bool is_epoch_over(void)
{
    static uint64_t begin_ms;
    begin_ms = begin_ms == 0 ? now_ms() : begin_ms;
    return now_ms() >= end_ms || now_ms() >= begin_ms + EPOCH_MS;
}

static bool is_served(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) == 1;
}

/* Goes on as a fresh process with the same connections. */
static void replace_self(char **arguments)
{
    char seed_text[24], carried[SLOTS][96], *all[SLOTS + 8] = {arguments[0], arguments[1], arguments[2], arguments[3]};
    int count = 4;
    snprintf(seed_text, sizeof seed_text, "%" PRIu64, mixed(seed));
    all[count++] = seed_text;
    all[count++] = arguments[5];
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *slot = &slots[i];
        if (slot->number < 0)
            continue;
        if (fcntl(slot->number, F_SETFD, 0) != 0)
            fail("F_SETFD");
        snprintf(carried[i], sizeof carried[i], "%d:%" PRIu64 ":%" PRIu64 ":%" PRIu64, slot->number, slot->id, slot->sent,
                 slot->got);
        all[count++] = carried[i];
    }
    execv(SELF, all);
    fail("execv");
}

static void finish(const bool *were_open, int were)
{
    static bool are_open[NUMBERS_MAX];
    struct carrier *carrier = &carriers[0];
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].number >= 0 && listener >= 0)
            end_served(&slots[i]);
        else if (slots[i].number >= 0)
            close_connection(carrier, &slots[i]);
    }
    int are = open_numbers(are_open);
    for (int number = 0; number < NUMBERS_MAX; number++) {
        if (are_open[number] != were_open[number])
            fprintf(stderr, "number %d is %s\n", number, are_open[number] ? "open" : "closed");
    }
    errno = 0;
    if (are != were)
        fail("descriptors have leaked");
    printf("good: %u connections, %u moved, %u children, %d other descriptors\n", opened, moves, children,
           listed_numbers() - are);
}

static void serve(void)
{
    static bool were_open[NUMBERS_MAX];
    int yes = 1;
    listener = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (listener < 0 || bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, 128) != 0)
        fail("listen");
    int were = open_numbers(were_open);
    printf("listens\n");
    fflush(stdout);
    run(is_served);
    finish(were_open, were);
}

static void dial(int count, char **arguments)
{
    static bool were_open[NUMBERS_MAX];
    int were = open_numbers(were_open);
    end_ms = strtoull(arguments[5], NULL, 10);
    for (int i = 6; i < count; i++) {
        struct slot *slot = &slots[i - 6];
        int number;
        if (sscanf(arguments[i], "%d:%" SCNu64 ":%" SCNu64 ":%" SCNu64, &number, &slot->id, &slot->sent, &slot->got) != 4)
            fail("arguments");
        slot->number = number;
        were_open[number] = false;
        were--;
    }
    run(is_epoch_over);
    if (now_ms() < end_ms)
        replace_self(arguments);
    finish(were_open, were);
}

int main(int count, char **arguments)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&slots[i].lock, NULL);
        slots[i].number = -1;
    }
    signal(SIGPIPE, SIG_IGN);
    if (count == 7 && strcmp(arguments[1], "talk") == 0) {
        struct slot slot = {.number = atoi(arguments[2]), .id = strtoull(arguments[3], NULL, 10)};
        slot.sent = strtoull(arguments[4], NULL, 10);
        slot.got = strtoull(arguments[5], NULL, 10);
        talk_on(&slot, strtoull(arguments[6], NULL, 10));
    }
    if (count >= 3 && strcmp(arguments[1], "echo") == 0)
        echo_for_a_while(atoi(arguments[2]));
    if (count < 5 || getaddrinfo(arguments[2], arguments[3], &hints, &at) != 0)
        fail("arguments");
    seed = strtoull(arguments[4], NULL, 10);
    if (strcmp(arguments[1], "serve") == 0)
        serve();
    else
        dial(count, arguments);
    return 0;
}
