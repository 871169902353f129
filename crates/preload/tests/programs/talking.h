/* Connections to a peer that echoes. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *address, *port;

static inline _Noreturn void fail(const char *what)
{
    fprintf(stderr, "%d: %s: %s\n", getpid(), what, strerror(errno));
    _exit(1);
}

static inline struct addrinfo *find_peer(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        fail("address");
    return found;
}

static inline int dial(int flags)
{
    struct addrinfo *found = find_peer();
    for (int attempt = 0; attempt < 400; attempt++) {
        int number = socket(found->ai_family, SOCK_STREAM | flags, 0);
        if (connect(number, found->ai_addr, found->ai_addrlen) == 0) {
            freeaddrinfo(found);
            return number;
        }
        if (errno != ECONNREFUSED)
            fail("connect");
        close(number);
        usleep(50000);
    }
    fail("connect");
}

static inline void talk(int number, const char *text)
{
    char answer[256];
    size_t length = strlen(text), got = 0;
    if (send(number, text, length, 0) != (ssize_t)length)
        fail("send");
    while (got < length) {
        ssize_t part = recv(number, answer + got, length - got, 0);
        if (part <= 0)
            fail("recv");
        got += (size_t)part;
    }
    if (memcmp(text, answer, length) != 0)
        fail("another answer");
}
