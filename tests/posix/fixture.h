/* What the tests share: the end that is tested, addresses, pairs of connected sockets, threads, signals. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "check.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A test that takes longer is stuck; milliseconds. */
#define PATIENCE_MS 5000
/* A pause in which whatever was sent arrives, milliseconds. */
#define PAUSE_MS 30

/* The ways a test is run: each address family, each opener of the connection. */
enum variants { ONCE = 0, FAMILIES = 1, ENDS = 2, FAMILIES_AND_ENDS = 3 };

struct test {
    const char *name;
    void (*run)(void);
    enum variants variants;
};

/* The tests of one file. */
struct subject {
    const char *name;
    const struct test *tests;
    size_t count;
};

#define SUBJECT(title, list) const struct subject title = {#title, list, sizeof list / sizeof *list}

/* The variant under way. */
extern int family;
/* Whether our end opens the connection. */
extern bool is_active;

/* Our address and the peer's, with this port. */
struct sockaddr_storage our_address(in_port_t port);
struct sockaddr_storage peer_address(in_port_t port);
socklen_t address_length(void);
in_port_t port_of(const struct sockaddr_storage *address);
in_port_t our_port(int socket);
bool same_address(const struct sockaddr_storage *one, const struct sockaddr_storage *other);
void fixture_addresses(const char *const names[4]);

/* Our end is a descriptor, the peer's a number of its own. */
struct pair {
    int ours, theirs;
};

/* A TCP connection, opened by the end that the variant says. */
struct pair connected(void);
/* A TCP connection from ours, or from the peer, whatever the variant. */
struct pair opened_by_us(void);
struct pair opened_by_peer(void);
/* UDP sockets, each bound; ours is connected to the peer's where that is asked for. */
struct pair datagrams(bool is_connected);

/* A listener of ours, and of the peer. */
int our_listener(int backlog);
int peer_listener(in_port_t *port);
/* The address that our socket is bound to. */
struct sockaddr_storage name_of(int socket);

void pause_ms(unsigned ms);
void set_nonblocking(int socket, bool is_nonblocking);
/* poll of one descriptor: revents; 0 after the time. */
int wait_for(int socket, int events, int timeout_ms);
int int_option(int socket, int level, int name);
int set_int(int socket, int level, int name, int value);
void set_timeout(int socket, int name, unsigned ms);
long long elapsed_ms(void (*work)(void *), void *argument);

/* A handler of SIGUSR1 that counts; `flags` of sigaction. */
void count_signals(int flags);
extern volatile sig_atomic_t signals_counted;
/* Sends SIGUSR1 to the calling thread every 20 ms, `times` times, or until it is told to end. */
void interrupt_often(int times);
void interrupt_no_more(void);

pthread_t start_thread(void *(*work)(void *), void *argument);
/* Joins a thread; -1 and ETIMEDOUT where it does not end. */
int join_thread(pthread_t thread, void **result);
/* Waits for a child process: its exit status, 128 + signal, or -1 where it does not end. */
int join_process(pid_t child);
/* Starts this program again as a helper: `what` and a descriptor; see helper.c. */
char *const *helper_arguments(const char *what, int descriptor);
int helper(int count, char **arguments);

#endif
