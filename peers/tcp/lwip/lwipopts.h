/* lwIP as cheap as its options make it for this work, and with what the others have: checksums computed and verified, timestamps,
 * a window of 64 KiB. Its congestion control is NewReno without SACK; it has no other. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

/* Without threads: the raw interface, by callbacks. */
#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
/* host_set_time calls tcp_tmr. An ACK is delayed by its 250 ms, the others' by 10; none waits so long here. */
#define LWIP_TIMERS 0

/* Nothing beside TCP over IPv4 over Ethernet. */
#define LWIP_UDP 0
#define LWIP_RAW 0
#define LWIP_ICMP 0
#define IP_FRAG 0
#define IP_REASSEMBLY 0
#define ETHARP_SUPPORT_STATIC_ENTRIES 1
#define LWIP_SINGLE_NETIF 1

/* A frame is taken where it lies. */
#define LWIP_SUPPORT_CUSTOM_PBUF 1

#define LWIP_STATS 0
#define LWIP_NOASSERT

/* Memory: its own heap and pools, more than a hundred full send buffers; malloc of the C library was no faster. */
#define MEM_ALIGNMENT 8
#define MEM_SIZE (16 << 20)
#define MEMP_NUM_TCP_PCB 256
#define MEMP_NUM_TCP_SEG 16384
#define MEMP_NUM_PBUF 16384
#define PBUF_POOL_SIZE 64

/* An Ethernet frame of 1,500 bytes, of which timestamps take twelve; buffers as contestant.rs has them for all. */
#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 1
#define TCP_WND (64 << 10)
#define TCP_SND_BUF (64 << 10)
/* Five times the pbufs of a full send buffer: never what limits. */
#define TCP_SND_QUEUELEN 256
#define LWIP_TCP_TIMESTAMPS 1

/* The sum is computed as segments leave: while copying into the send buffer (LWIP_CHECKSUM_ON_COPY) was slower, with 1,448 bytes by 5 %.
 * LWIP_CHKSUM_ALGORITHM stays 2, its default: 3 was slower, with 1,448 bytes by 80 %. */

#endif
