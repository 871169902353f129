// SPDX-License-Identifier: GPL-2.0
/* The source `udp`: copies of the datagrams that this host receives for one port, in the initial network namespace.
 *
 * They are copied where netfilter has let them pass (LOCAL_IN, last), and go on to their sockets. */

#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/net_namespace.h>

#include "ring.h"

static struct ring *the_ring;
static __be16 the_port;

/* The place of the UDP header behind the network header, and the packet's length; 0 if it is no datagram in one piece.
 * IPv6 with extension headers is not looked through. */
static u32 udp_header_at(const struct sk_buff *skb, u8 *family, u32 *total)
{
	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *ip = ip_hdr(skb);

		*family = 4;
		*total = ntohs(ip->tot_len);
		return ip->protocol == IPPROTO_UDP ? ip->ihl * 4 : 0;
	}
	if (skb->protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = ipv6_hdr(skb);

		*family = 6;
		*total = sizeof(*ip) + ntohs(ip->payload_len);
		return ip->nexthdr == IPPROTO_UDP ? sizeof(*ip) : 0;
	}
	return 0;
}

/* Writes and publishes a message with the packet at `from`; the writer's lock is held. */
static void copy_packet(struct ring *ring, const struct sk_buff *skb, int from, u32 total,
			const struct sidestep_ring_datagram *facts)
{
	u32 length = sizeof(*facts) + total;
	u64 at = ring_begin(ring, length);

	if (!at)
		return;
	sidestep_ring_write(ring->base, at, facts, sizeof(*facts));
	if (skb_copy_bits(skb, from, ring->base + at + sizeof(*facts), total))
		ring_abort(ring);
	else
		ring_publish(ring, length);
}

static void count_drops(struct ring *ring, u32 count)
{
	spin_lock_bh(&ring->writer);
	ring_drop(ring, count);
	spin_unlock_bh(&ring->writer);
}

static unsigned int copy_datagram(void *unused, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct sidestep_ring_datagram facts = { .received_ns = ktime_get_ns(), .protocol = IPPROTO_UDP };
	struct ring *ring = the_ring;
	int from = skb_network_offset(skb);
	struct udphdr buffer;
	const struct udphdr *udp;
	u32 header_at, total, udp_bytes;

	header_at = udp_header_at(skb, &facts.family, &total);
	if (!header_at)
		return NF_ACCEPT;
	udp = skb_header_pointer(skb, from + header_at, sizeof(buffer), &buffer);
	if (!udp || udp->dest != the_port)
		return NF_ACCEPT;
	if (skb_is_gso(skb)) {
		/* Several datagrams were made one: none has a header of its own. */
		count_drops(ring, max_t(u32, skb_shinfo(skb)->gso_segs, 1));
		return NF_ACCEPT;
	}
	udp_bytes = ntohs(udp->len);
	if (udp_bytes < sizeof(*udp) || header_at + udp_bytes > total) {
		/* Its lengths disagree. */
		count_drops(ring, 1);
		return NF_ACCEPT;
	}
	facts.payload_at = sizeof(facts) + header_at + sizeof(*udp);
	facts.payload_bytes = udp_bytes - sizeof(*udp);
	/* The tag is gone here, and the device is that of the VLAN. */
	facts.vlan = is_vlan_dev(skb->dev) ? vlan_dev_vlan_id(skb->dev) : 0;
	spin_lock_bh(&ring->writer);
	copy_packet(ring, skb, from, total, &facts);
	spin_unlock_bh(&ring->writer);
	ring_wake(ring);
	return NF_ACCEPT;
}

static const struct nf_hook_ops hook = {
	.hook = copy_datagram,
	.pf = NFPROTO_INET,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

int udp_start(struct ring *ring, u16 port)
{
	the_ring = ring;
	the_port = htons(port);
	return nf_register_net_hook(&init_net, &hook);
}

void udp_stop(void)
{
	if (!the_ring)
		return;
	nf_unregister_net_hook(&init_net, &hook);
	/* A packet may still be in the hook. */
	synchronize_net();
	the_ring = NULL;
}
