//! The UDP datagram in a captured packet, from the link's headers on.
//!
//! Lengths are trusted from the outside to the inside: Ethernet's padding and the trailers of capture cards stand behind the IP packet's
//! total length, and are not part of it.

use super::{LinkType, Packet};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::{Refusal, ipv4, ipv6, protocol, udp};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The EtherTypes of VLAN tags, which "cooked" captures keep.
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// The most tags, as in Ethernet frames.
const TAGS_MAX: usize = 2;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver; of market data a multicast group.
    pub destination: SocketAddr,
    /// The payload.
    pub payload: &'a [u8],
}

/// The reason why a packet has no datagram to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUdp {
    /// Packets of this link are not read.
    Link(LinkType),
    /// Another protocol than IP: ARP, LLDP, PTP.
    NotIp,
    /// Another protocol than UDP, by its number.
    Protocol(u8),
    /// A fragment of a datagram. No feed sends any; they are not put together.
    Fragment,
    /// Fewer bytes were captured than the packet had.
    Cut,
    /// The headers are wrong.
    Refused(Refusal),
}

impl fmt::Display for NotUdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(link) => write!(f, "packets of {link} are not read"),
            Self::NotIp => f.write_str("it is not IP"),
            Self::Protocol(number) => write!(f, "it is IP protocol {number}, not UDP"),
            Self::Fragment => f.write_str("it is a fragment, and fragments are not put together"),
            Self::Cut => f.write_str("it was captured in part: raise the snapshot length"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for NotUdp {}

impl From<Refusal> for NotUdp {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Finds the datagram of a packet. Checksums are not verified: the card may not have computed them yet where it was captured.
pub fn datagram<'a>(packet: &Packet<'a>) -> Result<Datagram<'a>, NotUdp> {
    let found = of_link(packet.link, packet.bytes);
    match found {
        Err(NotUdp::Refused(_)) if packet.bytes.len() < packet.original_bytes as usize => Err(NotUdp::Cut),
        found => found,
    }
}

fn of_link(link: LinkType, bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    let cooked = |header: usize, protocol_at: usize| {
        let rest = bytes.get(header..).ok_or(Refusal::EthernetTruncated)?;
        of_tagged(u16::from_be_bytes([bytes[protocol_at], bytes[protocol_at + 1]]), rest)
    };
    match link {
        LinkType::ETHERNET => {
            let frame = ethernet::View::parse(bytes)?;
            of_type(frame.ether_type(), frame.payload())
        }
        LinkType::LINUX_SLL => cooked(16, 14),
        LinkType::LINUX_SLL2 => cooked(20, 0),
        LinkType::IPV4 => of_type(EtherType::IPV4, bytes),
        LinkType::IPV6 => of_type(EtherType::IPV6, bytes),
        LinkType::RAW => match bytes.first().map(|first| first >> 4) {
            Some(4) => of_type(EtherType::IPV4, bytes),
            Some(6) => of_type(EtherType::IPV6, bytes),
            _ => Err(NotUdp::NotIp),
        },
        other => Err(NotUdp::Link(other)),
    }
}

/// What follows an EtherType, through VLAN tags.
fn of_tagged(mut ether_type: u16, mut bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    for _ in 0..TAGS_MAX {
        if !VLAN_TAGS.contains(&ether_type) {
            break;
        }
        let (tag, rest) = bytes.split_first_chunk::<4>().ok_or(Refusal::EthernetTruncated)?;
        (ether_type, bytes) = (u16::from_be_bytes([tag[2], tag[3]]), rest);
    }
    of_type(EtherType(ether_type), bytes)
}

fn of_type(ether_type: EtherType, bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    match ether_type {
        EtherType::IPV4 => {
            let packet = ipv4::View::parse(bytes)?;
            if packet.is_fragment() {
                return Err(NotUdp::Fragment);
            }
            of_ip(packet.protocol(), packet.source().into(), packet.destination().into(), packet.payload())
        }
        EtherType::IPV6 => {
            let packet = ipv6::View::parse(bytes)?;
            if packet.fragment().is_some_and(|fragment| !fragment.is_atomic()) {
                return Err(NotUdp::Fragment);
            }
            of_ip(packet.protocol(), packet.source().into(), packet.destination().into(), packet.payload())
        }
        _ => Err(NotUdp::NotIp),
    }
}

fn of_ip(number: u8, source: IpAddr, destination: IpAddr, bytes: &[u8]) -> Result<Datagram<'_>, NotUdp> {
    if number != protocol::UDP {
        return Err(NotUdp::Protocol(number));
    }
    let datagram = udp::View::parse(bytes)?;
    Ok(Datagram {
        source: SocketAddr::new(source, datagram.source_port()),
        destination: SocketAddr::new(destination, datagram.destination_port()),
        payload: datagram.payload(),
    })
}
