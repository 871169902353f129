/* Handlers that use sockets, signals of sockets. */
#include "fixture.h"

#include <sys/ioctl.h>

static struct pair in_handler;
static volatile sig_atomic_t sent, received, signalled;

static void send_one(int signal)
{
    (void)signal;
    int error = errno;
    sent += send(in_handler.ours, "h", 1, MSG_DONTWAIT) == 1;
    errno = error;
}

static void receive_one(int signal)
{
    (void)signal;
    char byte;
    int error = errno;
    if (recv(in_handler.ours, &byte, 1, MSG_DONTWAIT) == 1)
        received++;
    errno = error;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    MUST(sigaction(number, &action, NULL));
    struct sigaction got;
    MUST(sigaction(number, NULL, &got));
    check_true("sigaction_tells_the_handler", got.sa_handler == handler && (got.sa_flags & SA_RESTART));
}

static void sends(void)
{
    in_handler = connected();
    sent = 0;
    handle(SIGUSR1, send_one);
    char byte, data[64];
    interrupt_often(5);
    peer_later(150);
    peer_send(in_handler.theirs, "x", 1, 0);
    check_int("recv_is_restarted", recv(in_handler.ours, &byte, 1, 0), 1);
    interrupt_no_more();
    check_true("sent", sent > 0);
    int count = 0;
    while (count < sent)
        count += (int)MUST(peer_recv(in_handler.theirs, data, sizeof data, 0));
    check_int("peer_has_them", count, sent);
}

static void receives_within_send(void)
{
    in_handler = connected();
    received = 0;
    handle(SIGUSR1, receive_one);
    interrupt_often(20);
    static char data[200000];
    pattern(21, 0, data, sizeof data);
    int whole = 0;
    for (int round = 0; round < 10; round++) {
        peer_later(0);
        long long begun = peer_recv_pattern(in_handler.theirs, sizeof data, 21);
        MUST(peer_send(in_handler.theirs, "z", 1, 0));
        size_t done = 0;
        while (done < sizeof data)
            done += (size_t)MUST(send(in_handler.ours, data + done, sizeof data - done, 0));
        whole += peer_join(begun, NULL, 0) == sizeof data;
        pause_ms(20);
    }
    interrupt_no_more();
    check_int("peer_has_all", whole, 10);
    char rest[16];
    while (received < 10 && recv(in_handler.ours, rest, 1, 0) == 1)
        received++;
    check_int("received", received, 10);
}

static void count_one(int signal)
{
    (void)signal;
    signalled++;
}

static void owner(void)
{
    struct pair pair = connected();
    struct sigaction action = {.sa_handler = count_one, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGIO, &action, NULL));
    signalled = 0;
    check_int("set_owner", fcntl(pair.ours, F_SETOWN, getpid()), 0);
    check_int("get_owner", fcntl(pair.ours, F_GETOWN), getpid());
    check_int("async", fcntl(pair.ours, F_SETFL, fcntl(pair.ours, F_GETFL) | O_ASYNC), 0);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    for (int waited = 0; waited < 1000 && !signalled; waited += 10)
        pause_ms(10);
    check_true("sigio", signalled > 0);
}

static const struct test tests[] = {
    {"sends", sends, FAMILIES_AND_ENDS},
    {"receives_within_send", receives_within_send, FAMILIES_AND_ENDS},
    {"owner", owner, FAMILIES_AND_ENDS},
};

SUBJECT(signal_handlers, tests);
