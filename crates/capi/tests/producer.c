/* The producer of ring_producer.h as a shared library, for producer.rs. */
#include <sidestep/ring_producer.h>
#include <stdlib.h>

struct sidestep_ring_producer *producer_new(void *base, uint64_t cells)
{
    sidestep_ring_format(base, cells);
    return (struct sidestep_ring_producer *)calloc(1, sizeof(struct sidestep_ring_producer));
}

void producer_free(struct sidestep_ring_producer *producer)
{
    free(producer);
}

void producer_publish(struct sidestep_ring_producer *producer, void *base, uint64_t cells, const void *data,
                      uint64_t length)
{
    uint64_t at = sidestep_ring_begin(producer, base, cells, length);

    sidestep_ring_write(base, at, data, length);
    sidestep_ring_publish(producer, base, cells, length);
}

/* Begins a message, writes it and takes it back. */
void producer_abort(struct sidestep_ring_producer *producer, void *base, uint64_t cells, const void *data,
                    uint64_t length)
{
    uint64_t at = sidestep_ring_begin(producer, base, cells, length);

    sidestep_ring_write(base, at, data, length);
    sidestep_ring_abort(producer, base);
}

void producer_drop(struct sidestep_ring_producer *producer, void *base)
{
    sidestep_ring_drop(producer, base, 1);
}

/* Publishes `count` messages; number N is N, and 8 * (N % 30) further bytes, each word of them N as well. */
void producer_run(struct sidestep_ring_producer *producer, void *base, uint64_t cells, uint64_t count)
{
    uint64_t words[30], number, word;

    for (number = 0; number < count; number++) {
        for (word = 0; word <= number % 30; word++)
            words[word] = number;
        producer_publish(producer, base, cells, words, 8 * word);
    }
}
