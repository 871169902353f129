/* Threads that are cancelled while the library has descriptors of its own to close: close(3), a cancellation point, is not to end them
 * there.
 *
 *     cancelled ADDRESS PORT OWN_ADDRESS OWN_PORT
 */
#include "talking.h"

#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 200, THREADS = 4, TURNS = 40 };

static int listener;
static volatile int has_listened;

/* listen(2) is no cancellation point, so a thread that is cancelled before it comes back from it. */
static void *listens(void *nothing)
{
    pthread_cancel(pthread_self());
    if (listen(listener, 8) != 0)
        fail("listen");
    has_listened = 1;
    pthread_testcancel();
    return nothing;
}

static void close_number(void *number)
{
    close(*(int *)number);
}

static void *connects(void *found)
{
    struct addrinfo *peer = found;
    for (;;) {
        int number = socket(peer->ai_family, SOCK_STREAM, 0);
        pthread_cleanup_push(close_number, &number);
        if (connect(number, peer->ai_addr, peer->ai_addrlen) == 0)
            send(number, "text", 4, MSG_NOSIGNAL);
        pthread_cleanup_pop(1);
    }
}

static void cancel_while_they_connect(struct addrinfo *peer)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, connects, peer) != 0)
                fail("pthread_create");
        for (int turn = 0; turn < round % TURNS; turn++)
            usleep(50);
        for (int i = 0; i < THREADS; i++)
            pthread_cancel(threads[i]);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
}

int main(int count, char **given)
{
    if (count != 5)
        return 2;
    address = given[3];
    port = given[4];
    struct addrinfo *own = find_peer();
    listener = socket(own->ai_family, SOCK_STREAM, 0);
    if (bind(listener, own->ai_addr, own->ai_addrlen) != 0)
        fail("bind");
    pthread_t thread;
    if (pthread_create(&thread, NULL, listens, NULL) != 0 || pthread_join(thread, NULL) != 0)
        fail("a thread");
    puts(has_listened ? "listened" : "ended in listen");
    address = given[1];
    port = given[2];
    int before = dial(0);
    cancel_while_they_connect(find_peer());
    talk(before, "text");
    puts("good");
    return 0;
}
