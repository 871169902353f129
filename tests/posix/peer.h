/*
 * The other end: a process, on this host or the other, that makes the socket calls it is asked for. Requests go over a Unix
 * socket, which belongs to no network namespace. The calls return what the peer's call returned, and set errno to its errno.
 * Sockets of the peer are named by small numbers, which are not descriptors of this process.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The most bytes in one request or answer. */
#define PEER_DATA_MAX 65536

enum peer_call {
    PEER_SOCKET, PEER_BIND, PEER_LISTEN, PEER_ACCEPT, PEER_CONNECT, PEER_SEND, PEER_RECV, PEER_SHUTDOWN, PEER_CLOSE,
    PEER_SETSOCKOPT, PEER_GETSOCKOPT, PEER_SENDTO, PEER_RECVFROM, PEER_POLL, PEER_NAME, PEER_SEND_PATTERN,
    PEER_RECV_PATTERN, PEER_SLEEP, PEER_JOIN,
};

struct peer_request {
    uint32_t call, delay_ms, is_begun, length;
    int64_t arguments[4];
    struct sockaddr_storage address;
    socklen_t address_length;
};

struct peer_answer {
    int64_t result;
    int32_t error;
    uint32_t length;
    struct sockaddr_storage address;
    socklen_t address_length;
};

/* Serves until it is killed. */
int peer_serve(const char *path);

/* A fresh peer without sockets. */
int peer_open(const char *path);
void peer_close_all(void);
/* The descriptor of the connection to the peer, which no test may close. */
int peer_descriptor(void);

/* The next call is made after `ms`, and returns at once, with a number for peer_join. */
void peer_later(unsigned ms);
/* The result of a call that was begun so. */
long long peer_join(long long begun, void *data, size_t length);

int peer_socket(int family, int type);
int peer_bind(int socket, const struct sockaddr_storage *address, socklen_t length);
int peer_listen(int socket, int backlog);
int peer_accept(int socket);
int peer_connect(int socket, const struct sockaddr_storage *address, socklen_t length);
long long peer_send(int socket, const void *data, size_t length, int flags);
long long peer_recv(int socket, void *data, size_t length, int flags);
long long peer_sendto(int socket, const void *data, size_t length, const struct sockaddr_storage *to, socklen_t to_length);
long long peer_recvfrom(int socket, void *data, size_t length, struct sockaddr_storage *from);
int peer_shutdown(int socket, int how);
int peer_close(int socket);
/* Closes with a reset. */
int peer_abort(int socket);
int peer_setsockopt(int socket, int level, int name, const void *value, socklen_t length);
int peer_getsockopt(int socket, int level, int name, void *value, socklen_t length);
/* Returns revents, 0 after the time. */
int peer_poll(int socket, int events, int timeout_ms);
/* getsockname */
int peer_name(int socket, struct sockaddr_storage *address);
/* `length` bytes that follow from `seed`; the receiver compares them: the count of right ones. */
long long peer_send_pattern(int socket, size_t length, unsigned seed);
long long peer_recv_pattern(int socket, size_t length, unsigned seed);

/* Bytes `offset`... of the pattern. */
void pattern(unsigned seed, size_t offset, void *data, size_t length);

#endif
