/* Several threads on one socket. */
#include "fixture.h"

#include <sys/uio.h>

static struct pair pair;

static void *receive(void *count)
{
    char data[64];
    return (void *)recv(pair.ours, data, (size_t)count, 0);
}

static void *receive_error(void *unused)
{
    (void)unused;
    char byte;
    return (void *)(long)(recv(pair.ours, &byte, 1, 0) == -1 ? errno : 0);
}

static void shut_while_waiting(void)
{
    pair = connected();
    void *result = (void *)-1;
    pthread_t thread = start_thread(receive, (void *)1);
    pause_ms(PAUSE_MS);
    MUST(shutdown(pair.ours, SHUT_RD));
    check_int("joins", join_thread(thread, &result), 0);
    check_int("recv_ends", (long)result, 0);
}

/* A close does not end the call of another thread; the connection stays open as long as the call lasts. */
static void closed_while_waiting(void)
{
    pair = connected();
    void *result = (void *)-1;
    pthread_t thread = start_thread(receive, (void *)1);
    pause_ms(PAUSE_MS);
    check_int("close", close(pair.ours), 0);
    pause_ms(PAUSE_MS);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("joins", join_thread(thread, &result), 0);
    check_int("recv_still_gets_data", (long)result, 1);
    check_int("peer_sees_end", peer_recv(pair.theirs, NULL, 1, 0), 0);
}

static void reset_while_waiting(void)
{
    pair = connected();
    void *result = NULL;
    pthread_t thread = start_thread(receive_error, NULL);
    pause_ms(PAUSE_MS);
    MUST(peer_abort(pair.theirs));
    check_int("joins", join_thread(thread, &result), 0);
    check_int("error", (long)result, ECONNRESET);
}

static void two_readers(void)
{
    pair = connected();
    void *one = NULL, *two = NULL;
    pthread_t first = start_thread(receive, (void *)1), second = start_thread(receive, (void *)1);
    pause_ms(PAUSE_MS);
    MUST(peer_send(pair.theirs, "ab", 2, 0));
    check_int("first_joins", join_thread(first, &one), 0);
    check_int("second_joins", join_thread(second, &two), 0);
    check_int("each_has_one", (long)one + (long)two, 2);
}

static void *accept_one(void *listener)
{
    return (void *)(long)accept(*(int *)listener, NULL, NULL);
}

static void two_acceptors(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    void *one = (void *)-1, *two = (void *)-1;
    pthread_t first = start_thread(accept_one, &listener), second = start_thread(accept_one, &listener);
    pause_ms(PAUSE_MS);
    for (int index = 0; index < 2; index++)
        MUST(peer_connect((int)MUST(peer_socket(family, SOCK_STREAM)), &address, address_length()));
    check_int("first_joins", join_thread(first, &one), 0);
    check_int("second_joins", join_thread(second, &two), 0);
    check_true("each_has_one", (long)one > 0 && (long)two > 0 && one != two);
    pthread_t third = start_thread(accept_one, &listener);
    pause_ms(PAUSE_MS);
    MUST(shutdown(listener, SHUT_RDWR));
    check_int("shutdown_wakes", join_thread(third, &one), 0);
    check_int("accept_fails", (long)one, -1);
}

#define ACCEPTORS 16
#define ROUNDS 50

/* Tells each connection that it was accepted, until the listener is shut. */
static void *accept_all(void *listener)
{
    int ours;
    while ((ours = accept(*(int *)listener, NULL, NULL)) != -1) {
        if (send(ours, "a", 1, 0) != 1)
            return (void *)1;
        close(ours);
    }
    return NULL;
}

/* Connections from this host and from the peer's, by turns: how many of each were accepted. */
static void connect_by_turns(int listener, int *near, int *far)
{
    struct sockaddr_storage address = name_of(listener);
    char byte;
    *near = *far = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int one = (int)MUST(socket(family, SOCK_STREAM, 0)), other = (int)MUST(peer_socket(family, SOCK_STREAM));
        MUST(connect(one, (struct sockaddr *)&address, address_length()));
        *near += wait_for(one, POLLIN, PATIENCE_MS) & POLLIN && recv(one, &byte, 1, 0) == 1;
        close(one);
        MUST(peer_connect(other, &address, address_length()));
        *far += peer_poll(other, POLLIN, PATIENCE_MS) & POLLIN && peer_recv(other, &byte, 1, 0) == 1;
        peer_close(other);
        if (*near <= round || *far <= round)
            return;
    }
}

/* Of the threads that wait for a connection one gets it, and the others wait for the next, from wherever it comes. */
static void many_acceptors(void)
{
    int listener = our_listener(8), near, far;
    pthread_t threads[ACCEPTORS];
    for (int index = 0; index < ACCEPTORS; index++)
        threads[index] = start_thread(accept_all, &listener);
    pause_ms(PAUSE_MS);
    connect_by_turns(listener, &near, &far);
    check_int("near", near, ROUNDS);
    check_int("far", far, ROUNDS);
    MUST(shutdown(listener, SHUT_RDWR));
    for (int index = 0; index < ACCEPTORS; index++)
        MUST(join_thread(threads[index], NULL));
    check_true("all_join", true);
}

/* The same with threads of two processes. */
static void acceptors_of_two_processes(void)
{
    int listener = our_listener(8), near, far;
    pthread_t thread = start_thread(accept_all, &listener);
    pause_ms(PAUSE_MS);
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        accept_all(&listener);
        _exit(0);
    }
    pause_ms(PAUSE_MS);
    connect_by_turns(listener, &near, &far);
    check_int("near", near, ROUNDS);
    check_int("far", far, ROUNDS);
    MUST(shutdown(listener, SHUT_RDWR));
    check_int("joins", join_thread(thread, NULL), 0);
    check_int("child_ends", join_process(child), 0);
}

#define WRITERS 4
#define LINES 500

static void *write_lines(void *number)
{
    char line[16];
    for (int index = 0; index < LINES; index++) {
        memset(line, 'a' + (int)(long)number, sizeof line);
        if (send(pair.ours, line, sizeof line, 0) != sizeof line)
            return (void *)1;
    }
    return NULL;
}

static void writers(void)
{
    pair = connected();
    pthread_t threads[WRITERS];
    for (long index = 0; index < WRITERS; index++)
        threads[index] = start_thread(write_lines, (void *)index);
    bool all_lines = true;
    int whole = 0, counts[WRITERS] = {0};
    char line[16];
    for (int index = 0; index < WRITERS * LINES; index++) {
        MUST(peer_recv(pair.theirs, line, sizeof line, MSG_WAITALL));
        bool is_whole = line[0] >= 'a' && line[0] < 'a' + WRITERS;
        for (size_t at = 1; at < sizeof line; at++)
            is_whole &= line[at] == line[0];
        whole += is_whole;
        if (is_whole)
            counts[line[0] - 'a']++;
    }
    for (int index = 0; index < WRITERS; index++) {
        join_thread(threads[index], NULL);
        all_lines &= counts[index] == LINES;
    }
    check_true("lines_of_each", all_lines);
    check_int("whole_lines", whole, WRITERS * LINES);
}

static void *send_all(void *unused)
{
    (void)unused;
    static char data[500000];
    pattern(31, 0, data, sizeof data);
    return (void *)send(pair.ours, data, sizeof data, 0);
}

static void reads_and_writes(void)
{
    pair = connected();
    peer_later(0);
    long long reading = peer_recv_pattern(pair.theirs, 500000, 31);
    peer_later(0);
    long long writing = peer_send_pattern(pair.theirs, 500000, 32);
    pthread_t thread = start_thread(send_all, NULL);
    char *data = malloc(500000), *expected = malloc(500000);
    pattern(32, 0, expected, 500000);
    check_int("received", recv(pair.ours, data, 500000, MSG_WAITALL), 500000);
    check_true("data", memcmp(data, expected, 500000) == 0);
    void *sent = NULL;
    check_int("joins", join_thread(thread, &sent), 0);
    check_int("sent", (long)sent, 500000);
    check_int("peer_received", peer_join(reading, NULL, 0), 500000);
    check_int("peer_sent", peer_join(writing, NULL, 0), 500000);
    free(data), free(expected);
}

#define MUCH ((size_t)8 << 20)
#define PART ((size_t)50000)

static void *send_much(void *data)
{
    return (void *)send(pair.ours, data, MUCH, 0);
}

static void *write_much(void *data)
{
    struct iovec parts[] = {{data, PART}, {(char *)data + PART, MUCH - 2 * PART}, {(char *)data + MUCH - PART, PART}};
    return (void *)writev(pair.ours, parts, 3);
}

/* Signals of a socket that goes to nobody. Under the library the kernel has the connection from then on. */
static void ask_for_signals(void)
{
    MUST(fcntl(pair.ours, F_SETFL, fcntl(pair.ours, F_GETFL) | O_ASYNC));
}

/* While a thread sends, another one changes the socket: the call sends all of it nevertheless. */
static void changed_while_sending(void)
{
    void *(*const works[])(void *) = {send_much, write_much};
    static const char *const names[][2] = {{"send", "peer_has_it"}, {"writev", "peer_has_that"}};
    char *data = malloc(MUCH);
    pattern(33, 0, data, MUCH);
    for (int index = 0; index < 2; index++) {
        void *sent = NULL;
        pair = connected();
        pthread_t thread = start_thread(works[index], data);
        pause_ms(PAUSE_MS);
        ask_for_signals();
        peer_later(0);
        long long reading = peer_recv_pattern(pair.theirs, MUCH, 33);
        MUST(join_thread(thread, &sent));
        check_int(names[index][0], (long)sent, (long long)MUCH);
        close(pair.ours);
        check_true(names[index][1], peer_join(reading, NULL, 0) == (long long)MUCH);
    }
    free(data);
}

static void *receive_all(void *data)
{
    struct iovec parts[] = {{data, PART / 2}, {(char *)data + PART / 2, PART + PART / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return (void *)recvmsg(pair.ours, &message, MSG_WAITALL);
}

static void changed_while_receiving(void)
{
    char *data = malloc(2 * PART), *expected = malloc(2 * PART);
    void *received = NULL;
    pattern(34, 0, expected, 2 * PART);
    pair = connected();
    pthread_t thread = start_thread(receive_all, data);
    MUST(peer_send(pair.theirs, expected, PART, 0));
    pause_ms(PAUSE_MS);
    ask_for_signals();
    MUST(peer_send(pair.theirs, expected + PART, PART, 0));
    MUST(join_thread(thread, &received));
    check_int("recvmsg", (long)received, (long long)(2 * PART));
    check_true("data", memcmp(data, expected, 2 * PART) == 0);
    free(data), free(expected);
}

static const struct test tests[] = {
    {"changed_while_sending", changed_while_sending, FAMILIES_AND_ENDS},
    {"changed_while_receiving", changed_while_receiving, FAMILIES_AND_ENDS},
    {"shut_while_waiting", shut_while_waiting, FAMILIES_AND_ENDS},
    {"closed_while_waiting", closed_while_waiting, FAMILIES_AND_ENDS},
    {"reset_while_waiting", reset_while_waiting, FAMILIES_AND_ENDS},
    {"two_readers", two_readers, FAMILIES_AND_ENDS},
    {"two_acceptors", two_acceptors, FAMILIES},
    {"many_acceptors", many_acceptors, FAMILIES},
    {"acceptors_of_two_processes", acceptors_of_two_processes, FAMILIES},
    {"writers", writers, FAMILIES_AND_ENDS},
    {"reads_and_writes", reads_and_writes, FAMILIES_AND_ENDS},
};

SUBJECT(threads, tests);
