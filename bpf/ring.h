/* SPDX-License-Identifier: GPL-2.0 */
/* A ring in the memory of a BPF map, as programs write it: the sizes, and a copy of a part of a frame.
 * crates/kernel_ring/src/memory.rs makes such maps. */
#ifndef SIDESTEP_RING_H
#define SIDESTEP_RING_H

#include "../include/sidestep/ring_producer.h"

/* Nothing is stored there: the verifier does not see that a record ends before the ring's end. With the header it is 64 KiB,
 * so that the next ring begins at a page, however long those of this kernel are. */
#define RING_SLACK_BYTES 61440
#define RING_ELEMENT_BYTES(cells) (SIDESTEP_RING_BYTES(cells) + RING_SLACK_BYTES)

#endif
