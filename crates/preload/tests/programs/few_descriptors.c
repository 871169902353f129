/* As many connections as descriptors may be open, and what comes then. The peer echoes, or dials.
 *
 *     few_descriptors dial ADDRESS PORT soft|hard LIMIT BEFORE       BEFORE: connections made before the limit is set
 *     few_descriptors accept ADDRESS PORT soft|hard LIMIT WAITING    WAITING: connections of the peer, all made at once
 *     few_descriptors peer ADDRESS PORT - - WAITING                  that peer
 */
#include "talking.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { NUMBERS_MAX = 1024 };

static int numbers[NUMBERS_MAX];

static void limit(const char *which, const char *text)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("getrlimit");
    limit.rlim_cur = (rlim_t)atoi(text);
    if (strcmp(which, "hard") == 0)
        limit.rlim_max = limit.rlim_cur;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("setrlimit");
}

/* Connects until that is refused, which must be for want of a descriptor; returns how many there are. */
static int fill(int count)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        fail("address");
    for (; count < NUMBERS_MAX; count++) {
        int number = socket(found->ai_family, SOCK_STREAM, 0);
        if (number < 0)
            break;
        if (connect(number, found->ai_addr, found->ai_addrlen) != 0)
            fail("connect");
        numbers[count] = number;
        talk(number, "new");
    }
    if (errno != EMFILE)
        fail("not EMFILE");
    /* Other calls are told the same. */
    if (dup(0) >= 0 || errno != EMFILE || open("/dev/null", O_RDONLY) >= 0 || errno != EMFILE)
        fail("not EMFILE for others");
    for (int i = 0; i < count; i++)
        talk(numbers[i], "all");
    freeaddrinfo(found);
    return count;
}

static void dial_all(const char *which, const char *text, int before)
{
    for (int i = 0; i < before; i++) {
        numbers[i] = dial(0);
        talk(numbers[i], "before");
    }
    limit(which, text);
    int count = fill(before);
    printf("%d connections\n", count);
    /* What is closed may be opened again. */
    for (int turn = 0; turn < 3; turn++) {
        for (int i = count / 2; i < count; i++)
            close(numbers[i]);
        int again = fill(count / 2);
        if (again != count) {
            fprintf(stderr, "%d, then %d\n", count, again);
            errno = 0;
            fail("not as many as before");
        }
    }
    for (int i = 0; i < count; i++)
        close(numbers[i]);
}

static bool echo(int number)
{
    char bytes[256];
    ssize_t got = recv(number, bytes, sizeof bytes, 0);
    if (got < 0 || (got > 0 && send(number, bytes, (size_t)got, 0) != got))
        fail("echo");
    return got > 0;
}

/* Accepts until there is no descriptor, serves those it has to their end, and gets the others then. */
static void accept_all(const char *which, const char *text, int waiting)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    int served = 0, refused = 0, yes = 1;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        fail("address");
    int listener = socket(found->ai_family, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, found->ai_addr, found->ai_addrlen) != 0 || listen(listener, 512) != 0)
        fail("listen");
    freeaddrinfo(found);
    limit(which, text);
    printf("listens\n");
    fflush(stdout);
    while (served < waiting) {
        int count = 0;
        while (count < NUMBERS_MAX && served + count < waiting) {
            int number = accept(listener, NULL, NULL);
            if (number < 0) {
                if (errno != EMFILE)
                    fail("accept");
                refused++;
                break;
            }
            numbers[count++] = number;
        }
        if (count == 0)
            fail("no descriptor, though all were closed");
        for (int i = 0; i < count; i++) {
            while (echo(numbers[i])) {
            }
            close(numbers[i]);
        }
        served += count;
    }
    printf("%d served, %s\n", served, refused > 0 ? "some later" : "none refused");
}

/* The peer of `accept`: all at once, and one after the other to its end. */
static void dial_at_once(int waiting)
{
    for (int i = 0; i < waiting; i++)
        numbers[i] = dial(0);
    for (int i = 0; i < waiting; i++) {
        if (send(numbers[i], "hello", 5, 0) != 5 || shutdown(numbers[i], SHUT_WR) != 0)
            fail("send");
    }
    for (int i = 0; i < waiting; i++) {
        char bytes[16];
        ssize_t got = recv(numbers[i], bytes, 5, MSG_WAITALL);
        if (got != 5 || memcmp(bytes, "hello", 5) != 0 || recv(numbers[i], bytes, 1, 0) != 0)
            fail("another answer");
        close(numbers[i]);
    }
    printf("%d answered\n", waiting);
}

int main(int count, char **arguments)
{
    if (count != 7)
        fail("arguments");
    address = arguments[2];
    port = arguments[3];
    if (strcmp(arguments[1], "dial") == 0)
        dial_all(arguments[4], arguments[5], atoi(arguments[6]));
    else if (strcmp(arguments[1], "accept") == 0)
        accept_all(arguments[4], arguments[5], atoi(arguments[6]));
    else
        dial_at_once(atoi(arguments[6]));
    return 0;
}
