/* Every call of ring_flow.h, over kernel sockets: without a control plane any user can run it. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <sidestep/ring_flow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, sidestep_last_error()); \
            exit(1); \
        } \
    } while (0)

static sidestep_flow *opened(void) {
    sidestep_flow_options options;
    sidestep_flow *flow = NULL;

    CHECK(sidestep_flow_options_default(&options, sizeof options) == 0);
    CHECK(options.doorbell == 0 && options.accelerate == 1 && options.checksums == SIDESTEP_CHECKSUMS_AUTO);
    CHECK(sidestep_flow_open(&options, sizeof options, &flow) == SIDESTEP_EUSAGE); /* no interface */
    options.interface_name = "lo";
    options.feed = "c";
    options.name = "capi";
    options.doorbell = 2;
    CHECK(sidestep_flow_open(&options, sizeof options, &flow) == SIDESTEP_EUSAGE);
    options.doorbell = 1;
    options.accelerate = 0;
    CHECK(sidestep_flow_open(&options, sizeof options, NULL) == SIDESTEP_EUSAGE);
    CHECK(sidestep_flow_open(&options, sizeof options, &flow) == 0 && flow);
    return flow;
}

static void datagram(uint16_t port, const char *text) {
    sidestep_address to;
    char at[32];
    int sender = socket(AF_INET, SOCK_DGRAM, 0);

    snprintf(at, sizeof at, "127.0.0.1:%u", port);
    CHECK(sender >= 0 && sidestep_address_parse(at, &to) == 0);
    CHECK(sendto(sender, text, strlen(text), 0, &to.any, sizeof to.v4) == (ssize_t)strlen(text));
    close(sender);
}

int main(void) {
    sidestep_flow *flow = opened();
    sidestep_flow_counts counts;
    sidestep_flow_way way;
    sidestep_packet packet;
    sidestep_address local, group;
    uint32_t entry = 0, joined = 0, tap = 0;
    uint64_t lost = 1;
    int fd = -2;
    /* The next one if it is taken. */
    uint16_t port = (uint16_t)(20000 + getpid() % 20000);
    char at[32];

    do {
        port++;
        snprintf(at, sizeof at, "127.0.0.1:%u", port);
        CHECK(sidestep_address_parse(at, &local) == 0);
    } while (sidestep_flow_bind(flow, &local.any, sizeof local, SIDESTEP_VERDICT_PASS, &entry) != 0 && port < 60000);
    CHECK(entry != 0);
    CHECK(sidestep_flow_bind(flow, &local.any, sizeof local, 7, &entry) == SIDESTEP_EUSAGE);
    CHECK(sidestep_flow_path(flow, entry, &way) == 0 && way.way == SIDESTEP_FLOW_KERNEL);
    CHECK(way.reason == SIDESTEP_REASON_NOT_WANTED);
    CHECK(sidestep_flow_receive(flow, &packet) == SIDESTEP_EEMPTY);
    CHECK(sidestep_flow_wait(flow, SIDESTEP_SPIN, 0) == SIDESTEP_ETIMEDOUT);

    CHECK(sidestep_flow_wakeup_fd(flow, &fd) == 0 && fd >= 0);
    datagram(port, "tick");
    struct pollfd waiting = {fd, POLLIN, 0};
    CHECK(poll(&waiting, 1, 10000) == 1);
    CHECK(sidestep_flow_wait(flow, SIDESTEP_PARK, SIDESTEP_FOREVER) == 0);
    CHECK(sidestep_flow_wakeup_fd(flow, &fd) == 0 && fd == -1);
    CHECK(sidestep_flow_receive(flow, &packet) == 0);
    CHECK(packet.length == 4 && memcmp(packet.payload, "tick", 4) == 0 && !packet.ip && packet.ip_length == 0);
    CHECK(packet.queue == SIDESTEP_NO_QUEUE && packet.vlan == 0 && packet.protocol == 17 && packet.lost_before == 0);
    CHECK(packet.source.any.sa_family == AF_INET && packet.destination.v4.sin_port == htons(port));
    CHECK(packet.received_ns > 0);

    CHECK(sidestep_address_parse("239.1.1.1:20000", &group) == 0);
    CHECK(sidestep_flow_join(flow, &group.any, sizeof group, NULL, 0, SIDESTEP_VERDICT_DROP, &joined) == 0);
    CHECK(sidestep_flow_join(flow, &local.any, sizeof local, NULL, 0, SIDESTEP_VERDICT_DROP, &joined) == SIDESTEP_EUSAGE);
    CHECK(sidestep_flow_tap(flow, 6, &local.any, sizeof local, NULL, 0, SIDESTEP_VERDICT_PASS, &tap) == 0);
    CHECK(sidestep_flow_tap(flow, 1, &local.any, sizeof local, NULL, 0, SIDESTEP_VERDICT_PASS, &tap) == SIDESTEP_EUSAGE);
    CHECK(sidestep_flow_path(flow, tap, &way) == 0 && way.way == SIDESTEP_FLOW_NOTHING);
    CHECK(sidestep_flow_leave(flow, joined) == 0 && sidestep_flow_leave(flow, 12345) == 0);
    CHECK(sidestep_flow_read_counts(flow, &counts, sizeof counts) == 0);
    CHECK(counts.by_kernel == 1 && counts.packets == 0 && counts.lost == 0 && counts.fallbacks == 0);
    CHECK(sidestep_flow_loss(flow, 0, &lost) == 0 && lost == 0);
    CHECK(sidestep_flow_receive(NULL, &packet) == SIDESTEP_EUSAGE);
    sidestep_flow_free(flow);
    sidestep_flow_free(NULL);
    puts("good");
    return 0;
}
