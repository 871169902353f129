/* The list of the subjects: one file each. */
#ifndef SUBJECTS_H
#define SUBJECTS_H

#include "fixture.h"

extern const struct subject connecting, listening, stream, vectors, transfer, closing, interrupted_calls, signal_handlers,
    threads, descriptors, processes, options, polling, epoll_sets, epoll_modes, udp, udp_control, multicast,
    signal_actions, cancelled_calls, epoll_edges, packets;

static const struct subject *const subjects[] = {
    &connecting, &listening, &stream, &vectors, &transfer, &closing, &interrupted_calls, &signal_handlers,
    &threads, &descriptors, &processes, &options, &polling, &epoll_sets, &epoll_modes, &udp, &udp_control, &multicast,
    &signal_actions, &cancelled_calls, &epoll_edges, &packets,
};

#define SUBJECT_COUNT (sizeof subjects / sizeof *subjects)

#endif
