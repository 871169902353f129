//! Ethernet and IP header of a way, built once and patched with each packet's length.

use crate::MTU_MIN_V6;
use crate::route::Resolved;
use crate::udp::HOP_LIMIT_DEFAULT;
use sidestep_wire::checksum::Sum;
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::vlan::{Tag, Tags};
use sidestep_wire::{Addresses, BuildError, ipv4, ipv6};

/// RFC 1122 section 3.3.3
const MTU_TAKEN_V4: u32 = 576;

/// The longest header: Ethernet with two tags, IPv6.
const HEADER_BYTES_MAX: usize = ethernet::HEADER_BYTES_MAX + ipv6::HEADER_BYTES;

/// What stands in front of every packet from one address to another: only the length changes, and with it, over IPv4, the
/// header's checksum. Packets must not be cut on the way, so they need no number of their own (RFC 6864 section 4.1).
#[derive(Clone, Debug)]
pub struct PacketHeader {
    template: [u8; HEADER_BYTES_MAX],
    bytes: usize,
    ip_at: usize,
    is_v6: bool,
    /// The IPv4 header without total length and checksum.
    ip_sum: Sum,
    mtu: u32,
}

impl PacketHeader {
    /// Packets of `protocol` from one address to another along a resolved way.
    pub fn along(way: &Resolved, addresses: Addresses, protocol: u8) -> Result<Self, BuildError> {
        let mut template = [0; HEADER_BYTES_MAX];
        let is_v6 = matches!(addresses, Addresses::V6 { .. });
        let ethernet = ethernet::Header {
            destination: way.next_hop_mac,
            source: way.source_mac,
            tags: way.vlan.map_or(Tags::NONE, |vlan| Tags::one(Tag::customer(vlan))),
            ether_type: if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 },
        };
        let ip_at = ethernet.write(&mut template)?;
        let bytes = ip_at + write_ip(addresses, protocol, &mut template[ip_at..])?;
        if !is_v6 {
            template[ip_at + 2..ip_at + 4].fill(0);
            template[ip_at + 10..ip_at + 12].fill(0);
        }
        let ip_sum = Sum::ZERO.with(&template[ip_at..bytes]);
        Ok(Self { template, bytes, ip_at, is_v6, ip_sum, mtu: way.mtu })
    }

    /// Bytes in front of the transport's header: where that is written.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The largest IP packet of the way, bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Whether the way takes a packet with so many bytes behind the IP header. What every host takes (RFC 1122 section 3.3.3,
    /// RFC 8200 section 5) is never too long.
    #[inline]
    pub fn takes(&self, transport_bytes: usize) -> bool {
        let least = if self.is_v6 { MTU_MIN_V6 } else { MTU_TAKEN_V4 };
        self.bytes - self.ip_at + transport_bytes <= self.mtu.max(least) as usize
    }

    /// Writes the header in front of `transport_bytes` that stand in `frame` from [`PacketHeader::bytes`] on; gives the
    /// frame's length. `None` if the frame is shorter, or the packet longer than IP can say.
    #[inline]
    pub fn write(&self, frame: &mut [u8], transport_bytes: usize) -> Option<usize> {
        let ip_header_bytes = if self.is_v6 { 0 } else { self.bytes - self.ip_at };
        let counted = u16::try_from(ip_header_bytes + transport_bytes).ok()?;
        let length = self.bytes + transport_bytes;
        let front = frame.get_mut(..length)?.get_mut(..self.bytes)?;
        front.copy_from_slice(&self.template[..self.bytes]);
        let ip = &mut front[self.ip_at..];
        if self.is_v6 {
            ip[4..6].copy_from_slice(&counted.to_be_bytes());
        } else {
            ip[2..4].copy_from_slice(&counted.to_be_bytes());
            ip[10..12].copy_from_slice(&self.ip_sum.with_u16(counted).checksum().to_be_bytes());
        }
        Some(length)
    }
}

fn write_ip(addresses: Addresses, protocol: u8, packet: &mut [u8]) -> Result<usize, BuildError> {
    match addresses {
        Addresses::V4 { source, destination } => ipv4::Header {
            source,
            destination,
            protocol,
            time_to_live: HOP_LIMIT_DEFAULT,
            type_of_service: 0,
            identification: 0,
            do_not_fragment: true,
        }
        .write(0, packet),
        Addresses::V6 { source, destination } => ipv6::Header {
            source,
            destination,
            protocol,
            hop_limit: HOP_LIMIT_DEFAULT,
            traffic_class: 0,
            flow_label: 0,
        }
        .write(0, packet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_wire::vlan::VlanId;
    use sidestep_wire::{MacAddress, protocol};

    fn way(vlan: Option<VlanId>, source: &str) -> Resolved {
        Resolved {
            interface: 3,
            device: 2,
            vlan,
            source: source.parse().unwrap(),
            next_hop: source.parse().unwrap(),
            next_hop_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (from, to) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            for vlan in [None, VlanId::new(7)] {
                for payload in [0, 20, 1460] {
                    let addresses = Addresses::new(from.parse().unwrap(), to.parse().unwrap()).unwrap();
                    let header = PacketHeader::along(&way(vlan, from), addresses, protocol::TCP).unwrap();
                    let mut frame = [0xa5; 1600];
                    let length = header.write(&mut frame, payload).unwrap();
                    assert_eq!(length, header.bytes() + payload);
                    let ethernet = ethernet::View::parse(&frame[..length]).unwrap();
                    assert_eq!(ethernet.tags().outer().map(|tag| tag.id()), vlan);
                    let (read, protocol, bytes) = if addresses.source().is_ipv4() {
                        let ip = ipv4::View::parse(ethernet.payload()).unwrap();
                        ip.verify().expect("the checksum is right");
                        assert!(ip.is_do_not_fragment());
                        (ip.addresses(), ip.protocol(), ip.payload().len())
                    } else {
                        let ip = ipv6::View::parse(ethernet.payload()).unwrap();
                        (ip.addresses(), ip.protocol(), ip.payload().len())
                    };
                    assert_eq!((read, protocol, bytes), (addresses, protocol::TCP, payload));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let addresses = Addresses::new("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()).unwrap();
        let header = PacketHeader::along(&way(None, "192.0.2.1"), addresses, protocol::TCP).unwrap();
        assert_eq!(header.write(&mut [0; 53], 20), None);
        assert_eq!(header.write(&mut [0; 54], 20), Some(54));
        assert_eq!(header.write(&mut vec![0; 70_000], 65_516), None, "a length of 16 bits");
    }
}
