/* Reads a ring without a writer, from the last half that began, with nothing but ring_layout.h. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sidestep/ring_layout.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static sidestep_ring_checkpoint newer(const sidestep_ring_checkpoint *copies) {
    return copies[copies[1].sequence > copies[0].sequence];
}

static int follow(const unsigned char *ring) {
    const sidestep_ring_header *header = (const sidestep_ring_header *)ring;
    sidestep_ring_checkpoint next = newer(header->mark);

    for (;;) {
        const unsigned char *cell = ring + SIDESTEP_RING_CELL_AT(next.position, header->cells);
        uint64_t word, length, sum = 0, byte;
        memcpy(&word, cell, sizeof word);
        if (!SIDESTEP_RING_WORD_IS_AT(word, next.position)) {
            return 1;
        }
        if (SIDESTEP_RING_WORD_KIND(word) == SIDESTEP_RING_KIND_CLOSE) {
            puts("closed");
            return header->horizon > next.position + header->cells;
        }
        if (SIDESTEP_RING_WORD_KIND(word) == SIDESTEP_RING_KIND_PADDING) {
            next.position = (next.position / header->cells + 1) * header->cells;
            continue;
        }
        length = SIDESTEP_RING_WORD_LENGTH(word);
        for (byte = 0; byte < length; byte++) {
            sum += cell[SIDESTEP_RING_WORD_BYTES + byte];
        }
        printf("%llu %llu %llu\n", (unsigned long long)next.sequence, (unsigned long long)length,
               (unsigned long long)sum);
        next.sequence++;
        next.position += SIDESTEP_RING_CELLS(length);
    }
}

int main(int count, char **words) {
    struct stat facts;
    int fd = count == 2 ? open(words[1], O_RDONLY) : -1;
    const sidestep_ring_header *header;

    if (fd < 0 || fstat(fd, &facts) != 0 || (size_t)facts.st_size < sizeof *header) {
        return 2;
    }
    header = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED || header->magic != SIDESTEP_RING_MAGIC ||
        header->abi_version != SIDESTEP_RING_ABI_VERSION || header->layout_hash != SIDESTEP_RING_LAYOUT_HASH) {
        return 3;
    }
    return follow((const unsigned char *)header);
}
