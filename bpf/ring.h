/* SPDX-License-Identifier: GPL-2.0 */
/* A ring in the memory of a BPF map, as programs write it: the sizes, and a copy of a part of a frame.
 * crates/kernel_ring/src/memory.rs makes such maps. */
#ifndef SIDESTEP_RING_H
#define SIDESTEP_RING_H

#include "../include/sidestep/ring_producer.h"

/* Nothing is stored there: the verifier does not see that a record ends before the ring's end. */
#define RING_SLACK_BYTES 16384
#define RING_ELEMENT_BYTES(cells) (SIDESTEP_RING_BYTES(cells) + RING_SLACK_BYTES)

#endif
