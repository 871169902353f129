/* Sends every UDP datagram back to where it came from: past the kernel where it can, and saying why where it cannot.
 *
 *   make build install PREFIX=$PWD/out/c
 *   cc examples/udp_echo.c -o udp_echo -I out/c/include -L out/c/lib -Wl,-rpath,$PWD/out/c/lib -lsidestep_c
 *   sidestep control &                          (as root, once per host)
 *   ./udp_echo eth1 0.0.0.0:7000 [COUNT]        ends after COUNT datagrams */
#include <sidestep/socket.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int code) {
    if (code != 0) {
        fprintf(stderr, "udp_echo: %s\n", sidestep_last_error());
        exit(1);
    }
}

int main(int count, char **words) {
    sidestep_engine_options options;
    sidestep_engine *engine;
    sidestep_address local;
    sidestep_udp socket;
    sidestep_path path;
    size_t unread;
    sidestep_datagram datagram;
    sidestep_udp_counts counts;

    if (count < 3) {
        fprintf(stderr, "usage: udp_echo INTERFACE ADDRESS:PORT [COUNT]\n");
        return 2;
    }
    /* ANCHOR: open */
    must(sidestep_engine_options_default(&options, sizeof options));
    options.interface_name = words[1];
    options.queue = SIDESTEP_QUEUE_EVERY; /* packets to a port may come by any */
    must(sidestep_engine_open(&options, sizeof options, &engine));
    must(sidestep_address_parse(words[2], &local));
    must(sidestep_udp_bind(engine, &local.any, sizeof local, NULL, 0, &socket));
    must(sidestep_udp_path(engine, socket, &path));
    while (path.reason == SIDESTEP_REASON_OPENING) { /* control is asked, and has usually answered by now */
        must(sidestep_engine_poll(engine, &unread));
        must(sidestep_udp_path(engine, socket, &path));
    }
    printf("echo on %s: %s (%s)\n", words[2], sidestep_reason_text(path.reason), sidestep_reason_name(path.reason));
    fflush(stdout);
    /* ANCHOR_END: open */

    /* ANCHOR: serve */
    for (unsigned long left = count > 3 ? strtoul(words[3], NULL, 10) : 0;;) {
        int code = sidestep_udp_receive(engine, socket, &datagram);
        if (code == SIDESTEP_EEMPTY) continue; /* spin: what comes is seen at once */
        must(code);
        code = sidestep_udp_reply(engine, socket, &datagram);
        if (code != 0) fprintf(stderr, "udp_echo: %s\n", sidestep_last_error()); /* lost, as UDP may be */
        if (left != 0 && --left == 0) break;
    }
    /* ANCHOR_END: serve */
    must(sidestep_udp_statistics(engine, socket, &counts, sizeof counts));
    printf("past the kernel: %llu in, %llu out; by the kernel: %llu in, %llu out\n",
           (unsigned long long)counts.received, (unsigned long long)counts.sent,
           (unsigned long long)counts.received_by_kernel, (unsigned long long)counts.sent_by_kernel);
    must(sidestep_udp_close(engine, socket));
    sidestep_engine_free(engine);
    return 0;
}
