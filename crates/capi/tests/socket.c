/* Every call of socket.h: on loopback by the kernel, and in a lab past it.
 *
 *   socket kernel CONTROL                             CONTROL: a path where no control plane listens
 *   socket accelerated INTERFACE LOCAL PEER           LOCAL, PEER: addresses; the peer sends everything back, but what
 *                                                     names a group: to that it sends "to all" */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <sidestep/socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\nlast error: %s\n", __FILE__, __LINE__, #is, sidestep_last_error()); \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)
#define GOOD(call) CHECK((call) == 0)
#define SAYS(words) CHECK(strstr(sidestep_last_error(), words) != NULL)

/* A watchdog, not a measurement: what takes longer hangs. */
enum { WATCHDOG_S = 30 };

static sidestep_engine *open_engine(const char *interface_name, const char *control) {
    sidestep_engine_options options;
    sidestep_engine *engine = NULL;
    GOOD(sidestep_engine_options_default(&options, sizeof options));
    options.interface_name = interface_name;
    options.control = control;
    options.name = "every call";
    options.frames = 1024;
    options.ring_entries = 512;
    options.timestamps = 1;
    GOOD(sidestep_engine_open(&options, sizeof options, &engine));
    return engine;
}

static sidestep_udp bind_to(sidestep_engine *engine, const char *text) {
    sidestep_address address;
    sidestep_udp socket = 0;
    GOOD(sidestep_address_parse(text, &address));
    GOOD(sidestep_udp_bind(engine, &address.any, sizeof address, NULL, 0, &socket));
    CHECK(socket != 0);
    return socket;
}

static sidestep_datagram next(sidestep_engine *engine, sidestep_udp socket) {
    sidestep_datagram datagram;
    time_t begin = time(NULL);
    for (;;) {
        int code = sidestep_udp_receive(engine, socket, &datagram);
        if (code == 0) return datagram;
        CHECK(code == SIDESTEP_EEMPTY && sidestep_last_errno() == EAGAIN);
        CHECK(time(NULL) - begin < WATCHDOG_S);
    }
}

static void is(const sidestep_datagram *datagram, const void *bytes, size_t length) {
    CHECK(datagram->length == length && memcmp(datagram->bytes, bytes, length) == 0 && datagram->token != 0);
}

/* What is wrong is refused, with words, and changes nothing. */
static void wrong_engines(const char *nowhere) {
    sidestep_engine_options options;
    sidestep_engine *engine = NULL;
    unsigned char longer[sizeof options + 8] = {0};
    const char *bad[] = {"mode", "kick", "checksums", "0 or 1", "0 or 1", "not a queue", "below -1", "below -1", "both choose",
                         "both choose"};
    size_t at;

    CHECK(sidestep_engine_options_default(NULL, sizeof options) + sidestep_engine_options_default(&options, SIZE_MAX) == 2 * SIDESTEP_EUSAGE);
    for (at = 0; at < sizeof bad / sizeof *bad; at++) {
        GOOD(sidestep_engine_options_default(&options, sizeof options));
        options.interface_name = "lo";
        if (at == 0) options.mode = 3;
        if (at == 1) options.kick = 4;
        if (at == 2) options.checksums = 3;
        if (at == 3) options.timestamps = 2;
        if (at == 4) options.accelerate = 2;
        if (at == 5) options.queue = -3;
        if (at == 6) options.kick_cpu = -2;
        if (at == 7) options.control_agent_cpu = -2;
        if (at == 8) options.queue = 0, options.queues = 1;
        if (at == 9) options.queue = SIDESTEP_QUEUE_EVERY, options.queues = 1;
        CHECK(sidestep_engine_open(&options, sizeof options, &engine) == SIDESTEP_EUSAGE && engine == NULL);
        SAYS(bad[at]);
    }
    GOOD(sidestep_engine_options_default(&options, sizeof options));
    CHECK(sidestep_engine_open(&options, sizeof options, &engine) == SIDESTEP_EUSAGE);
    SAYS("`interface_name` is null");
    options.interface_name = "\xff";
    CHECK(sidestep_engine_open(&options, sizeof options, &engine) == SIDESTEP_EUSAGE);
    SAYS("UTF-8");
    CHECK(sidestep_engine_open(NULL, 0, &engine) == SIDESTEP_EUSAGE);
    CHECK(sidestep_engine_open(&options, sizeof options, NULL) == SIDESTEP_EUSAGE);

    /* A newer header's options are taken while they ask for nothing new; an older one's get the rest by default. */
    options.interface_name = "lo";
    options.control = nowhere;
    memcpy(longer, &options, sizeof options);
    GOOD(sidestep_engine_open((const sidestep_engine_options *)(void *)longer, sizeof longer, &engine));
    sidestep_engine_free(engine);
    longer[sizeof options] = 1;
    CHECK(sidestep_engine_open((const sidestep_engine_options *)(void *)longer, sizeof longer, &engine) ==
          SIDESTEP_EUSAGE);
    SAYS("older than the header");
    GOOD(sidestep_engine_open(&options, offsetof(sidestep_engine_options, name), &engine));
    sidestep_engine_free(engine);
    sidestep_engine_free(NULL);
}

static void wrong_sockets(sidestep_engine *engine) {
    sidestep_udp_options options;
    sidestep_address address, back;
    sidestep_udp socket = 7;
    sidestep_path path;
    sidestep_udp_counts counts;
    sidestep_datagram datagram;
    sidestep_reservation reservation;
    int error;

    GOOD(sidestep_address_parse("127.0.0.1:0", &address));
    CHECK(sidestep_address_parse("127.0.0.1", &back) == SIDESTEP_EUSAGE);
    SAYS("\"127.0.0.1\"");
    CHECK(sidestep_udp_bind(engine, NULL, 0, NULL, 0, &socket) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_bind(engine, &address.any, 7, NULL, 0, &socket) == SIDESTEP_EUSAGE);
    SAYS("too short");
    GOOD(sidestep_udp_options_default(&options, sizeof options));
    options.hop_limit = 256;
    CHECK(sidestep_udp_bind(engine, &address.any, sizeof address, &options, sizeof options, &socket) ==
          SIDESTEP_EUSAGE);
    GOOD(sidestep_address_parse("203.0.113.1:7", &address));
    CHECK(sidestep_udp_bind(engine, &address.any, sizeof address, NULL, 0, &socket) == SIDESTEP_EFAILED);
    CHECK(sidestep_last_errno() == EADDRNOTAVAIL);
    SAYS("cannot bind UDP 203.0.113.1:7");
    address.any.sa_family = AF_UNIX;
    CHECK(sidestep_udp_bind(engine, &address.any, sizeof address, NULL, 0, &socket) == SIDESTEP_EUSAGE);
    SAYS("neither of IPv4 nor of IPv6");
    CHECK(socket == 7);

    CHECK(sidestep_udp_receive(engine, socket, &datagram) == SIDESTEP_EUSAGE && sidestep_last_errno() == EBADF);
    SAYS("the socket is not open");
    CHECK(sidestep_udp_path(engine, socket, &path) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_fd(engine, socket, &error) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_local(engine, socket, &back) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_statistics(engine, socket, &counts, sizeof counts) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_take_error(engine, socket, &error) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_send(engine, socket, "x", 1, NULL, 0) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_reserve(engine, socket, 1, NULL, 0, &reservation) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_close(engine, socket) == SIDESTEP_EUSAGE);
    CHECK(sidestep_udp_close(NULL, socket) == SIDESTEP_EUSAGE && sidestep_last_errno() == 0);
    SAYS("`engine` is a null pointer");
}

/* Two sockets of one engine talk by the kernel, in every way of sending. */
static void by_the_kernel(sidestep_engine *engine) {
    sidestep_udp asks = bind_to(engine, "127.0.0.1:0"), answers = bind_to(engine, "127.0.0.1:0");
    sidestep_address from, to;
    sidestep_datagram datagram, again;
    sidestep_reservation reservation, spent;
    sidestep_udp_counts counts;
    unsigned char most[65507];
    size_t unread;
    socklen_t back_bytes = sizeof(sidestep_address);
    sidestep_address back;
    int error = -1, fd;

    GOOD(sidestep_udp_local(engine, asks, &from));
    GOOD(sidestep_udp_local(engine, answers, &to));
    CHECK(from.v4.sin_port != 0 && from.v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    GOOD(sidestep_udp_fd(engine, asks, &fd));
    CHECK(getsockname(fd, &back.any, &back_bytes) == 0 && back.v4.sin_port == from.v4.sin_port);
    CHECK(sidestep_udp_receive(engine, asks, &datagram) == SIDESTEP_EEMPTY);
    CHECK(sidestep_udp_send(engine, asks, "x", 1, NULL, 0) == SIDESTEP_EUSAGE);
    CHECK(sidestep_last_errno() == EDESTADDRREQ);
    memset(most, 'm', sizeof most);
    CHECK(sidestep_udp_send(engine, asks, most, SIZE_MAX, &to.any, sizeof to) == SIDESTEP_ETOOLONG);
    CHECK(sidestep_last_errno() == EMSGSIZE);
    CHECK(sidestep_udp_send(engine, asks, NULL, 1, &to.any, sizeof to) == SIDESTEP_EUSAGE);

    GOOD(sidestep_udp_send(engine, asks, most, sizeof most, &to.any, sizeof to));
    datagram = next(engine, answers);
    is(&datagram, most, sizeof most);
    CHECK(datagram.source.v4.sin_port == from.v4.sin_port && datagram.destination.v4.sin_port == to.v4.sin_port);
    CHECK(datagram.interface == 0 && datagram.software_ns > 0 && datagram.hardware_ns == 0);
    again = datagram;
    GOOD(sidestep_udp_reply(engine, answers, &datagram));
    CHECK(datagram.token == 0 && sidestep_udp_reply(engine, answers, &again) == SIDESTEP_EUSAGE);
    SAYS("not on loan");
    CHECK(sidestep_udp_release(engine, &again) == SIDESTEP_EUSAGE);
    datagram = next(engine, asks);
    is(&datagram, most, sizeof most);
    GOOD(sidestep_udp_release(engine, &datagram));

    GOOD(sidestep_udp_connect(engine, asks, &to.any, sizeof to));
    GOOD(sidestep_udp_put(engine, asks, NULL, 0, NULL, 0));
    GOOD(sidestep_engine_flush(engine));
    datagram = next(engine, answers);
    is(&datagram, "", 0);
    GOOD(sidestep_udp_release(engine, &datagram));

    GOOD(sidestep_udp_reserve(engine, asks, 100, NULL, 0, &reservation));
    CHECK(reservation.length == 100);
    memcpy(reservation.bytes, "in place and more", 17);
    CHECK(sidestep_udp_send_reserved(engine, asks, &reservation, 101) == SIDESTEP_ETOOLONG);
    spent = reservation;
    GOOD(sidestep_udp_send_reserved(engine, asks, &reservation, 8));
    CHECK(reservation.token == 0 && sidestep_udp_discard(engine, &spent) == SIDESTEP_EUSAGE);
    SAYS("not open");
    CHECK(sidestep_udp_send_reserved(engine, asks, &spent, 8) == SIDESTEP_EUSAGE);
    GOOD(sidestep_udp_reserve(engine, asks, 100, NULL, 0, &reservation));
    GOOD(sidestep_udp_discard(engine, &reservation));
    GOOD(sidestep_engine_poll(engine, &unread));
    CHECK(unread == 0); /* what the kernel holds is not counted */
    datagram = next(engine, answers);
    is(&datagram, "in place", 8);

    GOOD(sidestep_udp_statistics(engine, answers, &counts, sizeof counts));
    CHECK(counts.received_by_kernel == 3 && counts.sent_by_kernel == 1 && counts.received + counts.sent == 0);
    GOOD(sidestep_udp_take_error(engine, asks, &error));
    CHECK(error == 0);
    GOOD(sidestep_udp_close(engine, answers));
    is(&datagram, "in place", 8); /* it outlives its socket */
    GOOD(sidestep_udp_release(engine, &datagram));
    CHECK(sidestep_udp_close(engine, answers) == SIDESTEP_EUSAGE);
    GOOD(sidestep_udp_close(engine, asks));
}

/* More than an engine lends of what the kernel delivers: the rest waits. */
static void all_on_loan(sidestep_engine *engine) {
    enum { MOST = 64 };
    sidestep_udp socket = bind_to(engine, "127.0.0.1:0");
    sidestep_datagram held[MOST], one;
    sidestep_address to;
    int at;

    GOOD(sidestep_udp_local(engine, socket, &to));
    for (at = 0; at <= MOST; at++) GOOD(sidestep_udp_send(engine, socket, &at, sizeof at, &to.any, sizeof to));
    for (at = 0; at < MOST; at++) held[at] = next(engine, socket);
    CHECK(sidestep_udp_receive(engine, socket, &one) == SIDESTEP_EEMPTY);
    for (at = 0; at < MOST; at++) {
        is(&held[at], &at, sizeof at);
        GOOD(sidestep_udp_release(engine, &held[at]));
    }
    one = next(engine, socket);
    is(&one, &at, sizeof at);
    GOOD(sidestep_udp_release(engine, &one));
    GOOD(sidestep_udp_close(engine, socket));
}

/* A datagram to a port without a socket is reported, once, where errors are kept; and by another socket not. */
static void undelivered(sidestep_engine *engine) {
    sidestep_udp gone = bind_to(engine, "127.0.0.1:0"), other = bind_to(engine, "127.0.0.1:0"), socket = 0;
    sidestep_udp_options options;
    sidestep_undelivered told;
    sidestep_address address, nobody;
    time_t begin = time(NULL);
    int code;

    GOOD(sidestep_udp_local(engine, gone, &nobody));
    GOOD(sidestep_udp_options_default(&options, sizeof options));
    CHECK(options.keep_errors == 0);
    options.keep_errors = 2;
    GOOD(sidestep_address_parse("127.0.0.1:0", &address));
    CHECK(sidestep_udp_bind(engine, &address.any, sizeof address, &options, sizeof options, &socket) ==
          SIDESTEP_EUSAGE);
    options.keep_errors = 1;
    GOOD(sidestep_udp_bind(engine, &address.any, sizeof address, &options, sizeof options, &socket));
    CHECK(sidestep_udp_next_error(engine, socket, &told, sizeof told) == SIDESTEP_EEMPTY);
    GOOD(sidestep_udp_close(engine, gone)); /* not before: its port could be given to another of these */
    GOOD(sidestep_udp_send(engine, other, "x", 1, &nobody.any, sizeof nobody));
    GOOD(sidestep_udp_send(engine, socket, "x", 1, &nobody.any, sizeof nobody));
    CHECK(sidestep_udp_next_error(engine, socket, NULL, sizeof told) == SIDESTEP_EUSAGE);
    while ((code = sidestep_udp_next_error(engine, socket, &told, sizeof told)) == SIDESTEP_EEMPTY)
        CHECK(time(NULL) - begin < WATCHDOG_S);
    CHECK(code == 0 && told.error == ECONNREFUSED && told.mtu == 0);
    CHECK(told.destination.v4.sin_port == nobody.v4.sin_port);
    CHECK(told.destination.v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(sidestep_udp_next_error(engine, socket, &told, sizeof told) == SIDESTEP_EEMPTY);
    CHECK(sidestep_udp_next_error(engine, other, &told, sizeof told) == SIDESTEP_EEMPTY);
    GOOD(sidestep_udp_close(engine, other));
    GOOD(sidestep_udp_close(engine, socket));
    CHECK(sidestep_udp_next_error(engine, socket, &told, sizeof told) == SIDESTEP_EUSAGE);
}

static void in_a_child(sidestep_engine *engine) {
    sidestep_udp socket = bind_to(engine, "127.0.0.1:0");
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        size_t unread;
        sidestep_datagram none;
        memset(&none, 0, sizeof none);
        CHECK(sidestep_engine_poll(engine, &unread) == SIDESTEP_EUSAGE && sidestep_last_errno() == EPERM);
        SAYS("forked");
        CHECK(sidestep_udp_receive(engine, socket, &none) == SIDESTEP_EUSAGE);
        CHECK(sidestep_udp_release(engine, &none) == SIDESTEP_EUSAGE);
        SAYS("forked");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    GOOD(sidestep_udp_close(engine, socket));
}

static void kernel(const char *nowhere) {
    sidestep_engine *engine;
    sidestep_engine_facts facts;
    sidestep_path path;
    sidestep_udp socket;
    const char *text;
    uint32_t reason;

    wrong_engines(nowhere);
    engine = open_engine("lo", nowhere);
    GOOD(sidestep_engine_refusal(engine, &reason, &text));
    CHECK(reason == SIDESTEP_REASON_CONTROL_ABSENT && strstr(text, nowhere) != NULL);
    GOOD(sidestep_engine_info(engine, &facts, sizeof facts));
    CHECK(facts.reason == reason && facts.interface == 0 && facts.frames == 0);
    socket = bind_to(engine, "[::1]:0");
    GOOD(sidestep_udp_path(engine, socket, &path));
    CHECK(path.reason == reason && strcmp(sidestep_reason_name(reason), "control_absent") == 0);
    CHECK(strcmp(sidestep_reason_text(reason), "the control plane is not running") == 0);
    GOOD(sidestep_udp_close(engine, socket));
    wrong_sockets(engine);
    by_the_kernel(engine);
    all_on_loan(engine);
    undelivered(engine);
    in_a_child(engine);
    sidestep_engine_free(engine);
}

/* Sends until the neighbour is known and datagrams go past the kernel. */
static void warm_up(sidestep_engine *engine, sidestep_udp socket, const sidestep_address *to) {
    time_t begin = time(NULL);
    sidestep_path path;
    size_t unread;
    do {
        CHECK(time(NULL) - begin < WATCHDOG_S);
        GOOD(sidestep_engine_poll(engine, &unread));
        GOOD(sidestep_udp_path_to(engine, socket, &to->any, sizeof *to, &path));
    } while (path.reason != SIDESTEP_ACCELERATED);
}

/* Batches: sent by one call and received by as few as it takes; what cannot be sent ends one. */
static void several(sidestep_engine *engine, sidestep_udp socket, const sidestep_address *to) {
    unsigned numbers[48]; sidestep_message messages[48], wrong[2];
    sidestep_datagram datagrams[64], none;
    size_t at, sent = 7, came = 7, seen = 0;
    time_t begin = time(NULL);
    for (at = 0; at < 48; at++) {
        numbers[at] = (unsigned)at;
        messages[at] = (sidestep_message){&numbers[at], sizeof numbers[at], &to->any, sizeof *to};
    }
    GOOD(sidestep_udp_send_many(engine, socket, messages, 48, &sent)); CHECK(sent == 48);
    while (seen < 48) {
        int code = sidestep_udp_receive_many(engine, socket, datagrams + seen, seen < 40 ? 5 : 64 - seen, &came);
        CHECK(code == 0 ? came > 0 && (seen >= 40 || came <= 5) : code == SIDESTEP_EEMPTY && came == 0);
        CHECK(time(NULL) - begin < WATCHDOG_S); seen += came;
    }
    for (at = 0; at < 48; at++) is(&datagrams[at], &numbers[at], sizeof numbers[at]);
    GOOD(sidestep_udp_release(engine, &datagrams[3])); GOOD(sidestep_udp_release_many(engine, datagrams, 48));
    for (at = 0; at < 48; at++) CHECK(datagrams[at].token == 0);
    GOOD(sidestep_udp_release_many(engine, datagrams, 48));
    none = datagrams[0]; none.token = 1;
    CHECK(sidestep_udp_release_many(engine, &none, 1) == SIDESTEP_EUSAGE); SAYS("not on loan");
    GOOD(sidestep_udp_send_many(engine, socket, NULL, 0, &sent)); CHECK(sent == 0);
    CHECK(sidestep_udp_send_many(engine, socket, NULL, 1, &sent) == SIDESTEP_EUSAGE);
    SAYS("`messages` is a null pointer");
    CHECK(sidestep_udp_receive_many(engine, socket, datagrams, 0, &came) == SIDESTEP_EEMPTY && came == 0);
    wrong[0] = wrong[1] = messages[5]; wrong[1].length = 70000;
    GOOD(sidestep_udp_send_many(engine, socket, wrong, 2, &sent)); CHECK(sent == 1);
    CHECK(sidestep_udp_send_many(engine, socket, wrong + 1, 1, &sent) == SIDESTEP_ETOOLONG && sent == 0);
    datagrams[0] = next(engine, socket); is(&datagrams[0], &numbers[5], sizeof numbers[5]);
    GOOD(sidestep_udp_release_many(engine, datagrams, 1));
}

static void round_trips(sidestep_engine *engine, sidestep_udp socket, const sidestep_address *peer) {
    static unsigned char sent[1472];
    sidestep_reservation reservation;
    sidestep_datagram datagram;
    sidestep_udp_counts before, after;
    size_t length, at;

    GOOD(sidestep_udp_statistics(engine, socket, &before, sizeof before));
    for (length = 0; length <= sizeof sent; length += 64) {
        for (at = 0; at < length; at++) sent[at] = (unsigned char)(length + 31 * at);
        if (length % 128 == 0) {
            GOOD(sidestep_udp_reserve(engine, socket, sizeof sent, &peer->any, sizeof *peer, &reservation));
            memcpy(reservation.bytes, sent, length);
            GOOD(sidestep_udp_send_reserved(engine, socket, &reservation, length));
        } else {
            GOOD(sidestep_udp_send(engine, socket, sent, length, &peer->any, sizeof *peer));
        }
        datagram = next(engine, socket);
        is(&datagram, sent, length);
        CHECK(datagram.interface != 0 && datagram.time_to_live == 64 && datagram.software_ns > 0);
        CHECK(datagram.source.v4.sin_port == peer->v4.sin_port);
        CHECK(datagram.source.v4.sin_addr.s_addr == peer->v4.sin_addr.s_addr);
        GOOD(sidestep_udp_release(engine, &datagram));
    }
    /* Several with one flush; and one back in its own memory, of which the peer makes one more. */
    for (at = 0; at < 8; at++) GOOD(sidestep_udp_put(engine, socket, &at, sizeof at, &peer->any, sizeof *peer));
    GOOD(sidestep_engine_flush(engine));
    for (at = 0; at < 8; at++) {
        datagram = next(engine, socket);
        is(&datagram, &at, sizeof at);
        if (at != 7) GOOD(sidestep_udp_release(engine, &datagram));
    }
    GOOD(sidestep_udp_reply(engine, socket, &datagram));
    datagram = next(engine, socket);
    at = 7;
    several(engine, socket, peer);
    is(&datagram, &at, sizeof at);
    GOOD(sidestep_udp_release(engine, &datagram));
    GOOD(sidestep_udp_reserve(engine, socket, 8, &peer->any, sizeof *peer, &reservation));
    GOOD(sidestep_udp_discard(engine, &reservation));
    GOOD(sidestep_udp_statistics(engine, socket, &after, sizeof after));
    CHECK(after.received - before.received == 82 && after.sent - before.sent == 82 && after.dropped == 0);
    CHECK(after.sent_by_kernel == before.sent_by_kernel && after.received_by_kernel == before.received_by_kernel);
}

static void group(sidestep_engine *engine, const sidestep_address *peer, const char *name, int of_source) {
    const struct sockaddr *source = of_source ? &peer->any : NULL;
    socklen_t source_bytes = of_source ? sizeof *peer : 0;
    sidestep_udp socket = bind_to(engine, "0.0.0.0:7100");
    sidestep_datagram datagram;
    sidestep_address address;
    sidestep_path path;

    GOOD(sidestep_address_parse(name, &address));
    GOOD(sidestep_udp_join(engine, socket, &address.any, sizeof address, source, source_bytes, 0, &path));
    CHECK(path.reason == SIDESTEP_ACCELERATED);
    GOOD(sidestep_udp_send(engine, socket, name, strlen(name), &peer->any, sizeof *peer));
    datagram = next(engine, socket);
    is(&datagram, "to all", 6);
    CHECK(datagram.interface != 0 && datagram.destination.v4.sin_addr.s_addr == address.v4.sin_addr.s_addr);
    GOOD(sidestep_udp_release(engine, &datagram));
    GOOD(sidestep_udp_leave(engine, socket, &address.any, sizeof address, source, source_bytes, 0));
    CHECK(sidestep_udp_leave(engine, socket, &address.any, sizeof address, source, source_bytes, 0) ==
          SIDESTEP_EFAILED);
    SAYS("it has not been joined");
    CHECK(sidestep_udp_join(engine, socket, &peer->any, sizeof *peer, NULL, 0, 0, &path) == SIDESTEP_EFAILED);
    SAYS("cannot join");
    GOOD(sidestep_udp_close(engine, socket));
}

static void accelerated(const char *interface_name, const char *local, const char *peer_name) {
    sidestep_engine *engine = open_engine(interface_name, NULL), *second;
    sidestep_udp socket, lost;
    sidestep_engine_facts facts;
    sidestep_address peer;
    sidestep_path path;
    const char *text;
    uint32_t reason;

    GOOD(sidestep_engine_refusal(engine, &reason, &text));
    CHECK(reason == SIDESTEP_ACCELERATED && *text == 0);
    GOOD(sidestep_engine_info(engine, &facts, sizeof facts));
    CHECK(facts.reason == SIDESTEP_ACCELERATED && facts.interface != 0 && facts.frames == 1024);
    CHECK(facts.queue == 0 && facts.queues == 1);
    CHECK(facts.frame_bytes == 2048 && facts.mode != SIDESTEP_MODE_ZERO_COPY); /* a veth has none */
    socket = bind_to(engine, local);
    GOOD(sidestep_udp_path(engine, socket, &path));
    CHECK(path.reason == SIDESTEP_ACCELERATED && path.mode == facts.mode);
    GOOD(sidestep_address_parse(peer_name, &peer));
    warm_up(engine, socket, &peer);
    round_trips(engine, socket, &peer);
    group(engine, &peer, "239.1.2.3:7100", 0);
    group(engine, &peer, "232.1.2.3:7100", 1);

    /* A queue that is taken: a second engine says so, and works. */
    second = open_engine(interface_name, NULL);
    GOOD(sidestep_engine_refusal(second, &reason, &text));
    CHECK(reason == SIDESTEP_REASON_NO_FREE_QUEUE && *text != 0);
    lost = bind_to(second, "127.0.0.1:0");
    GOOD(sidestep_udp_path(second, lost, &path));
    CHECK(path.reason == SIDESTEP_REASON_NO_FREE_QUEUE);
    sidestep_engine_free(second);
    /* The rest is closed by the end of the engine. */
    sidestep_engine_free(engine);
}

int main(int count, char **words) {
    CHECK(count >= 3);
    if (strcmp(words[1], "kernel") == 0) {
        kernel(words[2]);
    } else {
        CHECK(count == 5);
        accelerated(words[2], words[3], words[4]);
    }
    puts("good");
    return 0;
}
