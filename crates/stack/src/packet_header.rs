//! Ethernet and IP header of a route, built once and patched with each packet's length.

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

/// The fields of the IP header that a user of the transport chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Time to live, hop limit. `IP_TTL`, `IPV6_UNICAST_HOPS`
    pub hop_limit: u8,
    /// Type of service, traffic class. `IP_TOS`, `IPV6_TCLASS`
    pub type_of_service: u8,
}

impl Default for Service {
    fn default() -> Self {
        Self { hop_limit: HOP_LIMIT_DEFAULT, type_of_service: 0 }
    }
}

/// The header of every packet from one address to another: only the length changes, and with it, over IPv4, the header's
/// checksum. Packets must not be fragmented, so they need no identification (RFC 6864 section 4.1).
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
    /// Returns the header of packets of `protocol` from one address to another along a resolved route.
    pub fn along(route: &Resolved, addresses: Addresses, protocol: u8) -> Result<Self, BuildError> {
        let mut template = [0; HEADER_BYTES_MAX];
        let is_v6 = matches!(addresses, Addresses::V6 { .. });
        let ethernet = ethernet::Header {
            destination: route.next_hop_mac,
            source: route.source_mac,
            tags: route.vlan.map_or(Tags::NONE, |vlan| Tags::one(Tag::customer(vlan))),
            ether_type: if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 },
        };
        let ip_at = ethernet.write(&mut template)?;
        let bytes = ip_at + write_ip(addresses, protocol, &mut template[ip_at..])?;
        if !is_v6 {
            template[ip_at + 2..ip_at + 4].fill(0);
            template[ip_at + 10..ip_at + 12].fill(0);
        }
        let ip_sum = Sum::ZERO.with(&template[ip_at..bytes]);
        Ok(Self { template, bytes, ip_at, is_v6, ip_sum, mtu: route.mtu })
    }

    /// The same header with what the user has chosen.
    pub fn with(mut self, service: Service) -> Self {
        self.set_service(service);
        self
    }

    /// Changes what the user chooses.
    pub fn set_service(&mut self, service: Service) {
        let Service { hop_limit, type_of_service } = service;
        let ip = &mut self.template[self.ip_at..self.bytes];
        if self.is_v6 {
            // RFC 8200 section 3: the class stands between version and flow label.
            ip[0] = ip[0] & 0xf0 | type_of_service >> 4;
            ip[1] = ip[1] & 0x0f | type_of_service << 4;
            ip[7] = hop_limit;
        } else {
            (ip[1], ip[8]) = (type_of_service, hop_limit);
            self.ip_sum = Sum::ZERO.with(ip);
        }
    }

    /// Returns the header of answers to the packet in `frame`, back to the Ethernet address that sent it. `None` if packets
    /// between `addresses` are no answers to it, or its frame has more than one tag or no sender of its own.
    #[cold]
    pub fn answering(frame: &[u8], addresses: Addresses, protocol: u8, mtu: u32) -> Option<Self> {
        let frame = ethernet::View::parse(frame).ok()?;
        let received = match frame.ether_type() {
            EtherType::IPV4 => ipv4::View::parse(frame.payload()).ok()?.addresses(),
            EtherType::IPV6 => ipv6::View::parse(frame.payload()).ok()?.addresses(),
            _ => return None,
        };
        if received.reversed() != addresses || frame.tags().len() > 1 || frame.source().is_multicast() {
            return None;
        }
        let route = Resolved {
            interface: 0,
            device: 0,
            vlan: frame.tags().outer().map(|tag| tag.id()),
            source: addresses.source(),
            next_hop: addresses.destination(),
            next_hop_mac: frame.source(),
            source_mac: frame.destination(),
            mtu,
        };
        Self::along(&route, addresses, protocol).ok()
    }

    /// Bytes in front of the transport's header: where that is written.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The path's MTU, bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns whether a packet with so many bytes behind the IP header fits the path's MTU. What every host takes (RFC 1122
    /// section 3.3.3, RFC 8200 section 5) is never too long.
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
    fn a_user_chooses_hops_and_class() {
        for (from, to) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let addresses = Addresses::new(from.parse().unwrap(), to.parse().unwrap()).unwrap();
            let plain = PacketHeader::along(&way(None, from), addresses, protocol::TCP).unwrap();
            let chosen = plain.clone().with(Service { hop_limit: 7, type_of_service: 0xb8 });
            let (mut frame, mut other) = ([0; 100], [0; 100]);
            chosen.write(&mut frame, 20).unwrap();
            plain.write(&mut other, 20).unwrap();
            let ip = ethernet::View::parse(&frame).unwrap().payload();
            if let Ok(ip) = ipv4::View::parse(ip) {
                ip.verify().expect("the checksum is right");
                assert_eq!((ip.time_to_live(), ip.type_of_service()), (7, 0xb8));
            } else {
                let ip = ipv6::View::parse(ip).unwrap();
                assert_eq!((ip.hop_limit(), ip.traffic_class(), ip.addresses()), (7, 0xb8, addresses));
            }
            chosen.with(Service::default()).write(&mut frame, 20).unwrap();
            assert_eq!(frame, other);
        }
    }

    #[test]
    fn an_answer_goes_back_to_the_frames_sender() {
        for (from, to) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let addresses = Addresses::new(from.parse().unwrap(), to.parse().unwrap()).unwrap();
            let sent = PacketHeader::along(&way(VlanId::new(7), from), addresses, protocol::TCP).unwrap();
            let mut frame = [0; 100];
            sent.write(&mut frame, 20).unwrap();
            let answer = PacketHeader::answering(&frame, addresses.reversed(), protocol::TCP, 1280).unwrap();
            let mut back = [0; 100];
            answer.write(&mut back, 20).unwrap();
            let (sent, back) = (ethernet::View::parse(&frame).unwrap(), ethernet::View::parse(&back).unwrap());
            assert_eq!((back.source(), back.destination()), (sent.destination(), sent.source()));
            assert_eq!((back.tags().outer(), answer.mtu()), (sent.tags().outer(), 1280));
            assert!(PacketHeader::answering(&frame, addresses, protocol::TCP, 1280).is_none(), "not an answer");
            assert!(PacketHeader::answering(&frame[..30], addresses.reversed(), protocol::TCP, 1280).is_none());
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
