/* producer.c beside a thread that loads every word of the ring, for ThreadSanitizer: a store that is not atomic is a race. */
#include <pthread.h>
#include <sidestep/ring_producer.h>
#include <stdlib.h>

#define CELLS UINT64_C(16)
#define MESSAGES 20000
#define LOOKS 2000

struct sidestep_ring_producer *producer_new(void *base, uint64_t cells);
void producer_run(struct sidestep_ring_producer *producer, void *base, uint64_t cells, uint64_t count);

static void *look(void *base)
{
    uint64_t sum = 0;
    int round;
    size_t word;

    for (round = 0; round < LOOKS; round++)
        for (word = 0; word < SIDESTEP_RING_BYTES(CELLS) / 8; word++)
            sum += __atomic_load_n((uint64_t *)base + word, __ATOMIC_RELAXED);
    return (void *)(uintptr_t)(sum == 1);
}

int main(void)
{
    void *base = calloc(1, SIDESTEP_RING_BYTES(CELLS));
    struct sidestep_ring_producer *producer = producer_new(base, CELLS);
    pthread_t reader;

    if (pthread_create(&reader, NULL, look, base) != 0)
        return 2;
    producer_run(producer, base, CELLS, MESSAGES);
    return pthread_join(reader, NULL);
}
