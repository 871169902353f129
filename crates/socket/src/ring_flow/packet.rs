//! One packet of a feed: 16 bytes of facts, then the IP packet as it came.
//!
//! ```text
//!  0             8            10              12        14       15         16
//!  | received_ns | payload_at | payload_bytes | VLAN id | family | protocol | IP packet
//! ```
//!
//! Everything is in the CPU's byte order, and `payload_at` is counted from the first byte. The IP packet is what a stranger sent:
//! lengths and offsets are parsed here, those in the facts are not relied on.

use super::statistics::Refused;
use crate::options::Checksums as Wish;
use sidestep_control_api::message::Protocol;
use sidestep_stack::Checksums;
use sidestep_wire::{Addresses, Refusal, ipv4, ipv6, protocol, tcp, udp};
use std::net::SocketAddr;
use std::ops::Range;

/// The facts in front of the IP packet, bytes.
pub const FACTS_BYTES: usize = 16;

/// A received packet, in the flow's buffer until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    facts: Facts,
    payload: &'a [u8],
    bytes: &'a [u8],
}

/// All of a packet but its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) received_ns: u64,
    pub(super) vlan: Option<u16>,
    /// `None` if the kernel's socket delivered it.
    pub(super) queue: Option<u32>,
    /// Messages of this queue that were lost directly before it.
    pub(super) lost_before: u64,
}

/// A packet in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) facts: Facts,
    pub(super) payload: Range<usize>,
    pub(super) packet: Range<usize>,
}

impl<'a> Packet<'a> {
    /// Parses a message that a reader of its own has taken from a feed's ring; `None` if it is no datagram or segment, or if a checksum
    /// is wrong. [`Wish::Auto`] accepts checksums that a sender of this machine has left unfinished.
    pub fn parse(message: &'a [u8], checksums: Wish) -> Option<Self> {
        let checksums = match checksums {
            Wish::Auto => Checksums::VerifyFinished,
            Wish::Verify => Checksums::Verify,
            Wish::Trust => Checksums::Trusted,
        };
        parse(message, checksums).ok().map(|found| Self::of(&found, message))
    }

    pub(super) fn of(found: &Found, buffer: &'a [u8]) -> Self {
        let bytes = |range: &Range<usize>| buffer.get(range.clone()).unwrap_or_default();
        Self { facts: found.facts, payload: bytes(&found.payload), bytes: bytes(&found.packet) }
    }

    /// The payload of the datagram or segment.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The whole IP packet, from its first header byte. Empty if the kernel's socket delivered it.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The sender.
    #[inline]
    pub fn source(&self) -> SocketAddr {
        self.facts.source
    }

    /// The group, or the address of this host. If the kernel's socket delivered it: the address that this socket is bound to.
    #[inline]
    pub fn destination(&self) -> SocketAddr {
        self.facts.destination
    }

    /// UDP, or TCP of a tap.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.facts.protocol
    }

    /// CLOCK_MONOTONIC, nanoseconds: when the device's driver handed the packet over. If the kernel's socket delivered it: when it was
    /// read.
    #[inline]
    pub fn received_ns(&self) -> u64 {
        self.facts.received_ns
    }

    /// The VLAN id; `None` for an untagged frame, and for what the kernel's socket delivered.
    #[inline]
    pub fn vlan(&self) -> Option<u16> {
        self.facts.vlan
    }

    /// The receive queue; `None` if the kernel's socket delivered it.
    #[inline]
    pub fn queue(&self) -> Option<u32> {
        self.facts.queue
    }

    /// The packets of this queue that this reader lost directly before this one.
    #[inline]
    pub fn lost_before(&self) -> u64 {
        self.facts.lost_before
    }
}

/// Parses a message of a ring, and verifies its checksums.
pub(super) fn parse(message: &[u8], checksums: Checksums) -> Result<Found, Refused> {
    let (facts, packet) = message.split_first_chunk::<FACTS_BYTES>().ok_or(Refused::Malformed)?;
    let received_ns = u64::from_ne_bytes(*facts.first_chunk().ok_or(Refused::Malformed)?);
    let vlan = u16::from_ne_bytes([facts[12], facts[13]]);
    let (addresses, protocol, segment) = split(packet, checksums)?;
    let transport = match protocol {
        protocol::UDP => datagram(segment, &addresses, checksums)?,
        protocol::TCP => segment_of_tcp(segment, &addresses, checksums)?,
        _ => return Err(Refused::Malformed),
    };
    let place = |part: &[u8]| place(message, part);
    let facts = Facts {
        source: SocketAddr::new(addresses.source(), transport.source_port),
        destination: SocketAddr::new(addresses.destination(), transport.destination_port),
        protocol: transport.protocol,
        received_ns,
        vlan: (vlan != 0).then_some(vlan),
        queue: None,
        lost_before: 0,
    };
    Ok(Found { facts, payload: place(transport.payload), packet: FACTS_BYTES..message.len() })
}

struct Transport<'a> {
    protocol: Protocol,
    source_port: u16,
    destination_port: u16,
    payload: &'a [u8],
}

/// Takes an IP packet apart. Fragments are not in a feed.
fn split(packet: &[u8], checksums: Checksums) -> Result<(Addresses, u8, &[u8]), Refused> {
    if packet.first().is_some_and(|byte| byte >> 4 == 4) {
        let view = ipv4::View::parse(packet)?;
        if checksums != Checksums::Trusted {
            view.verify()?;
        }
        let whole = (view.addresses(), view.protocol(), view.payload());
        return if view.is_fragment() { Err(Refused::Malformed) } else { Ok(whole) };
    }
    let view = ipv6::View::parse(packet)?;
    let is_fragment = view.fragment().is_some_and(|fragment| !fragment.is_atomic());
    if is_fragment { Err(Refused::Malformed) } else { Ok((view.addresses(), view.protocol(), view.payload())) }
}

fn datagram<'a>(bytes: &'a [u8], addresses: &Addresses, checksums: Checksums) -> Result<Transport<'a>, Refused> {
    let view = udp::View::parse(bytes)?;
    if !passes(checksums, || view.is_unfinished(addresses)) {
        view.verify(addresses)?;
    }
    let (source_port, destination_port) = (view.source_port(), view.destination_port());
    Ok(Transport { protocol: Protocol::Udp, source_port, destination_port, payload: view.payload() })
}

fn segment_of_tcp<'a>(bytes: &'a [u8], addresses: &Addresses, checksums: Checksums) -> Result<Transport<'a>, Refused> {
    let view = tcp::View::parse(bytes)?;
    if !passes(checksums, || view.is_unfinished(addresses)) {
        view.verify(addresses)?;
    }
    let (source_port, destination_port) = (view.source_port(), view.destination_port());
    Ok(Transport { protocol: Protocol::Tcp, source_port, destination_port, payload: view.payload() })
}

/// Returns whether a transport's checksum is accepted unverified.
fn passes(checksums: Checksums, is_unfinished: impl FnOnce() -> bool) -> bool {
    match checksums {
        Checksums::Verify => false,
        Checksums::VerifyFinished => is_unfinished(),
        Checksums::Trusted => true,
    }
}

/// The place of a part of a message in it.
fn place(message: &[u8], part: &[u8]) -> Range<usize> {
    // An empty slice may be from anywhere.
    let begin = (part.as_ptr() as usize).wrapping_sub(message.as_ptr() as usize);
    let begin = if part.is_empty() { message.len() } else { begin };
    begin..begin + part.len()
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Ipv4Checksum | Refusal::UdpChecksum | Refusal::UdpChecksumAbsent | Refusal::TcpChecksum => {
                Self::Checksum
            }
            _ => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{message_v4, message_v6};
    use super::*;
    use proptest::prelude::*;

    const ALL: [Checksums; 3] = [Checksums::Verify, Checksums::VerifyFinished, Checksums::Trusted];

    #[test]
    fn a_datagram_of_either_family_is_taken_apart() {
        for (message, at) in [(message_v4(b"tick", 7, 5), 16 + 20 + 8), (message_v6(b"tick", 7, 5), 16 + 40 + 8)] {
            for checksums in ALL {
                let found = parse(&message, checksums).unwrap();
                assert_eq!((found.payload.clone(), found.packet.clone()), (at..at + 4, 16..message.len()));
                let packet = Packet::of(&found, &message);
                assert_eq!((packet.payload(), packet.bytes()), (&b"tick"[..], &message[16..]));
                assert_eq!((packet.received_ns(), packet.vlan(), packet.queue()), (7, Some(5), None));
                assert_eq!((packet.source().port(), packet.destination().port()), (4321, 5000));
                assert!(packet.destination().ip().is_multicast() && packet.protocol() == Protocol::Udp);
            }
        }
    }

    #[test]
    fn a_payload_of_no_bytes_is_one() {
        let message = message_v4(b"", 1, 0);
        let found = parse(&message, Checksums::Verify).unwrap();
        let packet = Packet::of(&found, &message);
        assert!(packet.payload().is_empty() && packet.vlan().is_none());
    }

    #[test]
    fn a_changed_bit_is_noticed_unless_checksums_are_trusted() {
        let message = message_v4(b"tick", 7, 0);
        for byte in [16 + 8, 16 + 20 + 9, message.len() - 1] {
            let mut changed = message.clone();
            changed[byte] ^= 4;
            let verified = parse(&changed, Checksums::Verify);
            // The last byte, and the lengths of the headers, are covered.
            assert_eq!(verified.map(drop), Err(Refused::Checksum), "byte {byte}");
            assert!(parse(&changed, Checksums::Trusted).is_ok(), "byte {byte}");
        }
    }

    #[test]
    fn a_checksum_that_a_local_sender_left_unfinished_passes_where_that_can_be() {
        let mut message = message_v4(b"tick", 7, 0);
        let addresses = ipv4::View::parse(&message[16..]).unwrap().addresses();
        let sum = addresses.pseudo_header(protocol::UDP, 12).fold();
        message[16 + 26..16 + 28].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse(&message, Checksums::Verify).map(drop), Err(Refused::Checksum));
        assert!(parse(&message, Checksums::VerifyFinished).is_ok());
    }

    #[test]
    fn fragments_and_other_protocols_are_refused() {
        let mut message = message_v4(b"tick", 7, 0);
        message[16 + 6] = 0x20;
        assert_eq!(parse(&message, Checksums::Trusted).map(drop), Err(Refused::Malformed));
        let mut message = message_v4(b"tick", 7, 0);
        message[16 + 9] = protocol::ICMP;
        assert_eq!(parse(&message, Checksums::Trusted).map(drop), Err(Refused::Malformed));
        assert_eq!(parse(&[0; 15], Checksums::Trusted).map(drop), Err(Refused::Malformed));
    }

    fn is_inside(found: &Found, message: &[u8]) -> bool {
        message.get(found.payload.clone()).is_some() && message.get(found.packet.clone()).is_some()
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_lie_inside(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            for checksums in ALL {
                if let Ok(found) = parse(&message, checksums) {
                    prop_assert!(is_inside(&found, &message));
                }
            }
            prop_assert!(Packet::parse(&message, Wish::Trust).is_none_or(|packet| packet.bytes().len() + FACTS_BYTES == message.len()));
        }

        #[test]
        fn a_damaged_packet_is_refused_or_lies_inside(
            at in 0_usize..80, value in any::<u8>(), length in 0_usize..80, is_v6 in any::<bool>(),
        ) {
            let mut message = if is_v6 { message_v6(b"twelve bytes", 1, 9) } else { message_v4(b"twelve bytes", 1, 9) };
            if let Some(byte) = message.get_mut(at) {
                *byte = value;
            }
            message.truncate(length);
            for checksums in ALL {
                if let Ok(found) = parse(&message, checksums) {
                    prop_assert!(is_inside(&found, &message));
                }
            }
        }
    }
}
