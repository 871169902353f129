/* A host of lwIP for the harness: its raw interface behind a few calls. lwIP has one host in a process, so the library is loaded
 * twice, from two copies of the file. See src/lwip_pair.rs, which declares the same calls. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "netif/ethernet.h"

#define EXPORT __attribute__((visibility("default")))
#define CONNECTIONS_MAX 256

/* The wire to send into: what it is is known to the caller. */
struct wire_calls {
    /* The place of the next frame; NULL if the wire is full. */
    uint8_t *(*place)(void *wire);
    /* What was written to the place is a frame of so many bytes. */
    void (*sent)(void *wire, size_t bytes);
};

static struct wire_calls calls;
/* Set by each call that may send: the caller may have moved it meanwhile. */
static void *wire;
static struct netif netif;
static struct tcp_pcb *connections[CONNECTIONS_MAX];
static size_t connected;
static struct pbuf_custom arrived;
static bool arrived_is_free;
static size_t received_bytes;
static size_t received_by;
static uint32_t now_ms;

u32_t sys_now(void) {
    return now_ms;
}

static err_t send_frame(struct netif *it, struct pbuf *frame) {
    (void)it;
    uint8_t *place = calls.place(wire);
    if (!place) {
        return ERR_WOULDBLOCK;
    }
    calls.sent(wire, pbuf_copy_partial(frame, place, frame->tot_len, 0));
    return ERR_OK;
}

static err_t on_received(void *number, struct tcp_pcb *pcb, struct pbuf *bytes, err_t error) {
    (void)error;
    if (!bytes) {
        return ERR_OK;
    }
    received_bytes += bytes->tot_len;
    received_by = (size_t)number;
    tcp_recved(pcb, bytes->tot_len);
    pbuf_free(bytes);
    return ERR_OK;
}

/* lwIP has freed the connection. On this wire that is a mistake of the harness. */
static void on_error(void *number, err_t error) {
    fprintf(stderr, "lwIP: connection %zu has ended: error %d\n", (size_t)number, error);
    abort();
}

static void add(struct tcp_pcb *pcb) {
    tcp_arg(pcb, (void *)connected);
    tcp_recv(pcb, on_received);
    tcp_err(pcb, on_error);
    tcp_nagle_disable(pcb);
    connections[connected++] = pcb;
}

static err_t on_accepted(void *unused, struct tcp_pcb *pcb, err_t error) {
    (void)unused;
    if (error != ERR_OK || connected == CONNECTIONS_MAX) {
        return ERR_MEM;
    }
    add(pcb);
    return ERR_OK;
}

static err_t on_connected(void *number, struct tcp_pcb *pcb, err_t error) {
    (void)number;
    (void)pcb;
    return error;
}

static void on_free(struct pbuf *frame) {
    (void)frame;
    arrived_is_free = true;
}

static err_t begin_netif(struct netif *it) {
    it->name[0] = 'm';
    it->name[1] = 'w';
    it->mtu = 1500;
    it->hwaddr_len = ETH_HWADDR_LEN;
    it->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    it->output = etharp_output;
    it->linkoutput = send_frame;
    return ERR_OK;
}

static ip4_addr_t address(const uint8_t ip[4]) {
    ip4_addr_t it;
    IP4_ADDR(&it, ip[0], ip[1], ip[2], ip[3]);
    return it;
}

/* Once in a process; false afterwards. The other host is known, as a neighbour is that one talks to. */
EXPORT bool host_begin(void *into, struct wire_calls how, const uint8_t ip[4], const uint8_t mac[6],
                       const uint8_t peer_ip[4], const uint8_t peer_mac[6]) {
    if (calls.place) {
        return false;
    }
    calls = how;
    wire = into;
    lwip_init();
    const uint8_t mask_bytes[4] = {255, 255, 255, 0}, none[4] = {0};
    ip4_addr_t own = address(ip), mask = address(mask_bytes), gateway = address(none), peer = address(peer_ip);
    memcpy(netif.hwaddr, mac, ETH_HWADDR_LEN);
    if (!netif_add(&netif, &own, &mask, &gateway, NULL, begin_netif, ethernet_input)) {
        return false;
    }
    netif_set_default(&netif);
    netif_set_link_up(&netif);
    netif_set_up(&netif);
    struct eth_addr peer_hardware;
    memcpy(peer_hardware.addr, peer_mac, ETH_HWADDR_LEN);
    return etharp_add_static_entry(&peer, &peer_hardware) == ERR_OK;
}

EXPORT bool host_listen(void *into, uint16_t port) {
    wire = into;
    struct tcp_pcb *pcb = tcp_new();
    if (!pcb || tcp_bind(pcb, IP_ADDR_ANY, port) != ERR_OK) {
        return false;
    }
    struct tcp_pcb *listener = tcp_listen(pcb);
    if (!listener) {
        return false;
    }
    tcp_accept(listener, on_accepted);
    return true;
}

/* Connections are numbered from 0, in the order they were made. */
EXPORT bool host_connect(void *into, uint16_t from_port, const uint8_t ip[4], uint16_t port) {
    wire = into;
    struct tcp_pcb *pcb = connected == CONNECTIONS_MAX ? NULL : tcp_new();
    ip4_addr_t to = address(ip);
    if (!pcb || tcp_bind(pcb, IP_ADDR_ANY, from_port) != ERR_OK || tcp_connect(pcb, &to, port, on_connected) != ERR_OK) {
        return false;
    }
    add(pcb);
    return true;
}

EXPORT bool host_is_established(size_t number) {
    return number < connected && connections[number]->state == ESTABLISHED;
}

EXPORT bool host_has_unacknowledged(size_t number) {
    return tcp_sndqueuelen(connections[number]) != 0;
}

/* The bytes that it has room for. */
EXPORT size_t host_room(size_t number) {
    return tcp_sndbuf(connections[number]);
}

/* Copies the bytes, so that they may be used again at once; at most host_room. They leave with host_output. */
EXPORT bool host_write(size_t number, const uint8_t *bytes, size_t count) {
    return count <= UINT16_MAX && tcp_write(connections[number], bytes, count, TCP_WRITE_FLAG_COPY) == ERR_OK;
}

EXPORT void host_output(void *into, size_t number) {
    wire = into;
    tcp_output(connections[number]);
}

/* Takes a frame, in place, and sends what it asks for. False if the frame is still in use. */
EXPORT bool host_input(void *into, uint8_t *frame, uint16_t bytes) {
    wire = into;
    arrived.custom_free_function = on_free;
    arrived_is_free = false;
    struct pbuf *pbuf = pbuf_alloced_custom(PBUF_RAW, bytes, PBUF_REF, &arrived, frame, bytes);
    if (netif.input(pbuf, &netif) != ERR_OK) {
        pbuf_free(pbuf);
    }
    return arrived_is_free;
}

/* The bytes received since the last call, and by which connection the last of them were. */
EXPORT size_t host_take_received(size_t *number) {
    size_t bytes = received_bytes;
    *number = received_by;
    received_bytes = 0;
    return bytes;
}

/* The time. What is due is sent; what finds no room on the wire is sent with what comes next. */
EXPORT void host_set_time(void *into, uint32_t ms) {
    static uint32_t ticked_ms;
    now_ms = ms;
    if (now_ms - ticked_ms >= TCP_TMR_INTERVAL) {
        ticked_ms = now_ms;
        wire = into;
        tcp_tmr();
    }
}
