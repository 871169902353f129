/* Connections that are opened and closed, one after the other in two threads; either end closes first. At the end: by how much memory and
 * descriptors have grown since a quarter of them.
 *
 *     many_connections serve ADDRESS PORT COUNT
 *     many_connections dial ADDRESS PORT COUNT
 */
#include "open_numbers.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREADS = 2,
    /* Descriptors of the library are closed by a thread of its own, too. */
    CLOSING_S_MAX = 20,
};

static struct addrinfo *at;
static int listener = -1;
static atomic_long left;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "%ld left: %s: %s\n", left, what, strerror(errno));
    _exit(1);
}

/* One byte goes forth and back. It says who closes first. */
static void dial_one(long turn)
{
    char said = turn % 2 == 0 ? 'd' : 's', answer = 0;
    int number = socket(at->ai_family, SOCK_STREAM, 0);
    if (number < 0 || connect(number, at->ai_addr, at->ai_addrlen) != 0)
        fail("connect");
    if (send(number, &said, 1, 0) != 1 || recv(number, &answer, 1, 0) != 1 || answer != said)
        fail("another answer");
    if (said == 's' && recv(number, &answer, 1, 0) != 0)
        fail("there is no end");
    if (close(number) != 0)
        fail("close");
}

static void serve_one(void)
{
    char said;
    int number = accept(listener, NULL, NULL);
    if (number < 0)
        fail("accept");
    if (recv(number, &said, 1, 0) != 1 || send(number, &said, 1, 0) != 1)
        fail("echo");
    if (said == 'd' && recv(number, &said, 1, 0) != 0)
        fail("there is no end");
    if (close(number) != 0)
        fail("close");
}

static void *work(void *unused)
{
    for (long turn; (turn = atomic_fetch_sub(&left, 1)) > 0;) {
        if (listener >= 0)
            serve_one();
        else
            dial_one(turn);
    }
    return unused;
}

static void connections(long count)
{
    pthread_t threads[THREADS];
    left = count;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            fail("pthread_create");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Resident memory, KiB. */
static long memory(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long found = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "VmRSS: %ld", &found) != 1) {
    }
    if (file == NULL || found < 0)
        fail("/proc/self/status");
    fclose(file);
    return found;
}

int main(int count, char **arguments)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    int yes = 1;
    if (count != 5 || getaddrinfo(arguments[2], arguments[3], &hints, &at) != 0)
        fail("arguments");
    long all = atol(arguments[4]), first = all / 4;
    if (strcmp(arguments[1], "serve") == 0) {
        listener = socket(at->ai_family, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, 128) != 0)
            fail("listen");
        printf("listens\n");
        fflush(stdout);
    }
    connections(first);
    long memory_before = memory();
    int numbers_before = listed_numbers();
    connections(all - first);
    long memory_after = memory();
    int numbers_after = listed_numbers();
    for (int turn = 0; turn < CLOSING_S_MAX * 10 && numbers_after > numbers_before; turn++) {
        usleep(100000);
        numbers_after = listed_numbers();
    }
    printf("good: %ld connections, memory %ld KiB, then %ld, descriptors %d, then %d\n", all, memory_before, memory_after,
           numbers_before, numbers_after);
    return 0;
}
