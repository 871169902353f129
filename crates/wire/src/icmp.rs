//! ICMP errors of IPv4 (RFC 792, 1191, 1812) and IPv6 (RFC 4443), in one form. Other ICMP messages are the kernel's;
//! they are only recognised.
//!
//! ```text
//!  0      1      2          4                                       8
//!  | type | code | checksum | unused, or pointer, or next-hop MTU   | the packet that it is about, from its IP header on
//! ```

use crate::tcp::SequenceNumber;
use crate::{Addresses, BuildError, Refusal, checksum::Sum, ipv4, ipv6, protocol};

/// The length of the header, bytes.
pub const HEADER_BYTES: usize = 8;

/// Bytes of the transport header that every ICMP error must quote (RFC 792); ports, and TCP's sequence number.
const QUOTED_BYTES_MIN: usize = 8;

/// The kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No route to the network, or an unknown network.
    NetworkUnreachable,
    /// No route to the host.
    HostUnreachable,
    /// The host does not support the protocol.
    ProtocolUnreachable,
    /// No socket listens on the port.
    PortUnreachable,
    /// Administratively prohibited by a filter.
    Prohibited,
    /// The packet exceeds the next link's MTU and may not be fragmented ("fragmentation needed" of IPv4).
    PacketTooBig {
        /// The link's MTU, bytes including the IP header; zero from routers older than RFC 1191.
        mtu: u32,
    },
    /// The source route failed.
    SourceRouteFailed,
    /// The time to live or hop limit was exceeded in transit.
    HopLimitExceeded,
    /// Some fragments did not arrive in time.
    ReassemblyTimeExceeded,
    /// The header has a problem.
    ParameterProblem {
        /// The offset of the byte with the problem.
        pointer: u32,
    },
    /// Unreachable for another reason.
    OtherUnreachable {
        /// The code.
        code: u8,
    },
}

/// The packet that an error is about, as far as it was quoted.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a> {
    /// Its addresses; the source is this host.
    pub addresses: Addresses,
    /// The protocol of its payload ([`crate::protocol`]).
    pub protocol: u8,
    transport: &'a [u8; QUOTED_BYTES_MIN],
}

impl Quoted<'_> {
    /// The ports of UDP and TCP: source and destination.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let [a, b, c, d, ..] = *self.transport;
        let known = matches!(self.protocol, protocol::UDP | protocol::TCP);
        known.then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// The sequence number of TCP, to be checked against the data in flight (RFC 5927 section 4.1).
    pub fn sequence(&self) -> Option<SequenceNumber> {
        let [.., a, b, c, d] = *self.transport;
        (self.protocol == protocol::TCP).then_some(SequenceNumber(u32::from_be_bytes([a, b, c, d])))
    }
}

/// An ICMP message.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// An error about a packet that this host sent.
    Error {
        /// The kind.
        kind: Kind,
        /// The packet.
        quoted: Quoted<'a>,
    },
    /// Echo, redirect, neighbour discovery and the rest.
    Other {
        /// Its type.
        message_type: u8,
        /// Its code.
        code: u8,
    },
}

/// Parses the payload of an IPv4 packet of protocol ICMP; verifies the checksum.
pub fn parse_v4(bytes: &[u8]) -> Result<Message<'_>, Refusal> {
    let (header, quote) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Refusal::IcmpTruncated)?;
    if !Sum::ZERO.with(bytes).is_good() {
        return Err(Refusal::IcmpChecksum);
    }
    let [message_type, code, ..] = *header;
    let Some(kind) = kind_v4(header) else { return Ok(Message::Other { message_type, code }) };
    let packet = ipv4::View::parse_quoted(quote).map_err(|_| Refusal::IcmpQuoteUnusable)?;
    if packet.fragment_offset() != 0 {
        return Err(Refusal::IcmpQuoteUnusable);
    }
    quoted(kind, packet.addresses(), packet.protocol(), packet.payload())
}

/// Parses the payload of an IPv6 packet of protocol ICMPv6; verifies the checksum.
pub fn parse_v6<'a>(bytes: &'a [u8], addresses: &Addresses) -> Result<Message<'a>, Refusal> {
    let (header, quote) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Refusal::IcmpTruncated)?;
    if !addresses.pseudo_header(protocol::ICMPV6, bytes.len() as u32).with(bytes).is_good() {
        return Err(Refusal::IcmpChecksum);
    }
    let [message_type, code, ..] = *header;
    let Some(kind) = kind_v6(header) else { return Ok(Message::Other { message_type, code }) };
    let packet = ipv6::View::parse_quoted(quote).map_err(|_| Refusal::IcmpQuoteUnusable)?;
    if packet.fragment().is_some_and(|fragment| fragment.offset != 0) {
        return Err(Refusal::IcmpQuoteUnusable);
    }
    quoted(kind, packet.addresses(), packet.protocol(), packet.payload())
}

fn quoted(kind: Kind, addresses: Addresses, protocol: u8, transport: &[u8]) -> Result<Message<'_>, Refusal> {
    let transport = transport.first_chunk::<QUOTED_BYTES_MIN>().ok_or(Refusal::IcmpTruncated)?;
    Ok(Message::Error { kind, quoted: Quoted { addresses, protocol, transport } })
}

/// Types and codes: IANA, "ICMP Parameters". Source quench must be ignored (RFC 6633).
fn kind_v4(header: &[u8; HEADER_BYTES]) -> Option<Kind> {
    let [message_type, code, _, _, pointer, _, high, low] = *header;
    Some(match (message_type, code) {
        (3, 0 | 6 | 11) => Kind::NetworkUnreachable,
        (3, 1 | 7 | 8 | 12) => Kind::HostUnreachable,
        (3, 2) => Kind::ProtocolUnreachable,
        (3, 3) => Kind::PortUnreachable,
        (3, 4) => Kind::PacketTooBig { mtu: u32::from(u16::from_be_bytes([high, low])) },
        (3, 5) => Kind::SourceRouteFailed,
        (3, 9 | 10 | 13) => Kind::Prohibited,
        (3, code) => Kind::OtherUnreachable { code },
        (11, 0) => Kind::HopLimitExceeded,
        (11, 1) => Kind::ReassemblyTimeExceeded,
        (12, _) => Kind::ParameterProblem { pointer: u32::from(pointer) },
        _ => return None,
    })
}

/// Types and codes: IANA, "ICMPv6 Parameters".
fn kind_v6(header: &[u8; HEADER_BYTES]) -> Option<Kind> {
    let [message_type, code, _, _, a, b, c, d] = *header;
    let number = u32::from_be_bytes([a, b, c, d]);
    Some(match (message_type, code) {
        (1, 0) => Kind::NetworkUnreachable,
        (1, 1 | 5 | 6) => Kind::Prohibited,
        (1, 2 | 3) => Kind::HostUnreachable,
        (1, 4) => Kind::PortUnreachable,
        (1, 7) => Kind::SourceRouteFailed,
        (1, code) => Kind::OtherUnreachable { code },
        (2, _) => Kind::PacketTooBig { mtu: number },
        (3, 0) => Kind::HopLimitExceeded,
        (3, _) => Kind::ReassemblyTimeExceeded,
        (4, 1) => Kind::ProtocolUnreachable,
        (4, _) => Kind::ParameterProblem { pointer: number },
        _ => return None,
    })
}

/// Returns type, code and the number after the checksum.
fn numbers(kind: Kind, version: u8) -> (u8, u8, u32) {
    let (of_v4, of_v6) = match kind {
        Kind::NetworkUnreachable => ((3, 0, 0), (1, 0, 0)),
        Kind::HostUnreachable => ((3, 1, 0), (1, 3, 0)),
        Kind::ProtocolUnreachable => ((3, 2, 0), (4, 1, 0)),
        Kind::PortUnreachable => ((3, 3, 0), (1, 4, 0)),
        Kind::Prohibited => ((3, 13, 0), (1, 1, 0)),
        Kind::PacketTooBig { mtu } => ((3, 4, mtu & 0xffff), (2, 0, mtu)),
        Kind::SourceRouteFailed => ((3, 5, 0), (1, 7, 0)),
        Kind::HopLimitExceeded => ((11, 0, 0), (3, 0, 0)),
        Kind::ReassemblyTimeExceeded => ((11, 1, 0), (3, 1, 0)),
        Kind::ParameterProblem { pointer } => ((12, 0, pointer << 24), (4, 0, pointer)),
        Kind::OtherUnreachable { code } => ((3, code, 0), (1, code, 0)),
    };
    if version == 4 { of_v4 } else { of_v6 }
}

/// Writes an error about `packet` (from its IP header on, truncated to fit `out`) with the checksum; returns its
/// length. `addresses` are those of the error itself, which IPv6 includes in the sum.
pub fn write(kind: Kind, packet: &[u8], addresses: &Addresses, out: &mut [u8]) -> Result<usize, BuildError> {
    let version = if matches!(addresses, Addresses::V4 { .. }) { 4 } else { 6 };
    if packet.first().is_none_or(|first| first >> 4 != version) {
        return Err(BuildError::OtherVersion);
    }
    let room = out.len().checked_sub(HEADER_BYTES).ok_or(BuildError::NoRoom)?;
    let quote = &packet[..packet.len().min(room)];
    let message = &mut out[..HEADER_BYTES + quote.len()];
    let (message_type, code, number) = numbers(kind, version);
    message[..4].copy_from_slice(&[message_type, code, 0, 0]);
    message[4..8].copy_from_slice(&number.to_be_bytes());
    message[HEADER_BYTES..].copy_from_slice(quote);
    let pseudo = match version {
        4 => Sum::ZERO,
        _ => addresses.pseudo_header(protocol::ICMPV6, message.len() as u32),
    };
    let checksum = pseudo.with(message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok(message.len())
}
