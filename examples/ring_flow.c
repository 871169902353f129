/* A reader of a multicast feed: the kernel copies each packet into a ring, which any number of readers poll.
 *
 *   make build install PREFIX=$PWD/out/c
 *   cc examples/ring_flow.c -o ring_flow -I out/c/include -L out/c/lib -Wl,-rpath,$PWD/out/c/lib -lsidestep_c
 *   ./ring_flow eth1 239.1.1.1:5000 [MESSAGES] */
#include <inttypes.h>
#include <sidestep/ring_flow.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "ring_flow: %s\n", sidestep_last_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: ring_flow INTERFACE GROUP:PORT [MESSAGES]\n");
        return 2;
    }
    uint64_t messages = argc == 4 ? strtoull(argv[3], NULL, 10) : UINT64_MAX, bytes = 0;
    sidestep_flow_options options;
    sidestep_flow_counts counts;
    sidestep_flow_way way;
    sidestep_packet packet;
    sidestep_address group;
    sidestep_flow *flow;
    uint32_t entry;

    /* ANCHOR: read */
    must(sidestep_flow_options_default(&options, sizeof options));
    options.interface_name = argv[1];
    options.feed = "example";
    must(sidestep_flow_open(&options, sizeof options, &flow));
    must(sidestep_address_parse(argv[2], &group));
    must(sidestep_flow_join(flow, &group.any, sizeof group, NULL, 0, SIDESTEP_VERDICT_DROP, &entry));
    must(sidestep_flow_path(flow, entry, &way));
    if (way.way == SIDESTEP_FLOW_RING)
        fprintf(stderr, "%s on %s: ring, %s\n", argv[2], argv[1],
                way.verdict == SIDESTEP_VERDICT_DROP ? "drop" : "pass, as others on this host receive the group");
    else
        fprintf(stderr, "%s on %s: kernel, as %s\n", argv[2], argv[1], sidestep_reason_text(way.reason));
    do {
        /* A reader with a CPU of its own uses SIDESTEP_SPIN, or polls sidestep_flow_receive. */
        must(sidestep_flow_wait(flow, SIDESTEP_YIELD, SIDESTEP_FOREVER));
        int code = sidestep_flow_receive(flow, &packet);
        if (code == 0) bytes += packet.length;
        else if (code != SIDESTEP_EEMPTY) must(code);
        must(sidestep_flow_read_counts(flow, &counts, sizeof counts));
    } while (counts.packets + counts.by_kernel + counts.lost < messages);
    /* ANCHOR_END: read */
    printf("%" PRIu64 " packets, %" PRIu64 " lost, %" PRIu64 " bytes\n", counts.packets + counts.by_kernel, counts.lost,
           bytes);
    sidestep_flow_free(flow);
    return 0;
}
