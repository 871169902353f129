//! Packets: a sequence, a time, and messages that tell their own sizes.
//!
//! ```text
//!  0          4                   12
//!  | sequence | sending time (ns) | size | SBE header (8) | root block, groups | size | ...
//!                                 size: u16, of itself, the header and the message
//! ```
//!
//! All numbers are little-endian. Over TCP two bytes come before: 0xCAFE.

use std::fmt::{self, Display, Formatter};

/// Bytes before the messages.
pub const HEADER_BYTES: usize = 12;
/// Bytes before the messages of a packet over TCP.
pub const TCP_HEADER_BYTES: usize = 14;
/// The mark that begins a packet over TCP.
pub const TCP_MARK: u16 = 0xCAFE;
/// The smallest message: its size and the SBE header.
const MESSAGE_BYTES_MIN: usize = 10;

/// Bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPacket {
    /// Shorter than its header.
    Short {
        /// The bytes.
        bytes: usize,
    },
    /// No mark at the beginning of a packet over TCP.
    NoMark {
        /// What is there.
        found: u16,
    },
    /// A message's size is less than that of its header, or more than what is left.
    Size {
        /// The size that it tells.
        size: usize,
        /// The bytes that are left.
        left: usize,
    },
}

impl Display for BadPacket {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(out, "a packet of {bytes} bytes is shorter than its header"),
            Self::NoMark { found } => write!(out, "a packet over TCP begins with {found:#06x}, not {TCP_MARK:#06x}"),
            Self::Size { size, left } => write!(out, "a message of {size} bytes where {left} are left"),
        }
    }
}

impl std::error::Error for BadPacket {}

/// A packet whose header was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number on the feed, from 1.
    pub sequence: u32,
    /// The time at which it was sent, ns since 1970.
    pub sending_time_ns: u64,
    messages: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the payload of a datagram.
    ///
    /// # Errors
    /// Fails if it is shorter than the header.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadPacket> {
        let (header, messages) =
            bytes.split_first_chunk::<HEADER_BYTES>().ok_or(BadPacket::Short { bytes: bytes.len() })?;
        let [s0, s1, s2, s3, time @ ..] = *header;
        let sequence = u32::from_le_bytes([s0, s1, s2, s3]);
        Ok(Self { sequence, sending_time_ns: u64::from_le_bytes(time), messages })
    }

    /// Reads a packet of the replay over TCP.
    ///
    /// # Errors
    /// Fails if it does not begin with [`TCP_MARK`], or is shorter than the header.
    pub fn parse_tcp(bytes: &'a [u8]) -> Result<Self, BadPacket> {
        let short = BadPacket::Short { bytes: bytes.len() };
        let (mark, packet) = bytes.split_first_chunk::<2>().ok_or(short)?;
        match u16::from_le_bytes(*mark) {
            TCP_MARK => Self::parse(packet).map_err(|_| short),
            found => Err(BadPacket::NoMark { found }),
        }
    }

    /// The messages, each from its SBE header on.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        Messages { bytes: self.messages }
    }
}

/// The messages of a packet. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<&'a [u8], BadPacket>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.bytes;
        if bytes.is_empty() {
            return None;
        }
        let size = bytes.first_chunk().map_or(0, |size| usize::from(u16::from_le_bytes(*size)));
        if size < MESSAGE_BYTES_MIN || size > bytes.len() {
            self.bytes = &[];
            return Some(Err(BadPacket::Size { size, left: bytes.len() }));
        }
        let (message, rest) = bytes.split_at(size);
        self.bytes = rest;
        Some(Ok(&message[2..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO: [u8; 33] = [
        7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, // sequence 7, a time
        10, 0, 0, 0, 12, 0, 1, 0, 13, 0, // a heartbeat
        11, 0, 1, 0, 99, 0, 1, 0, 13, 0, 0xEE, // a message that nobody knows
    ];

    #[test]
    fn messages_are_cut_by_their_sizes() {
        let packet = Packet::parse(&TWO).unwrap();
        assert_eq!((packet.sequence, packet.sending_time_ns), (7, 0x0200_0000_0000_0001));
        let messages: Vec<_> = packet.messages().map(Result::unwrap).collect();
        assert_eq!(messages, [&TWO[14..22], &TWO[24..33]]);
        assert_eq!(Packet::parse(&TWO[..12]).unwrap().messages().count(), 0, "a packet may have no message");
    }

    #[test]
    fn a_packet_over_tcp_begins_with_its_mark() {
        let bytes = [&[0xFE, 0xCA][..], &TWO].concat();
        assert_eq!(Packet::parse_tcp(&bytes), Packet::parse(&TWO));
        assert_eq!(Packet::parse_tcp(&TWO), Err(BadPacket::NoMark { found: 7 }));
        assert_eq!(Packet::parse_tcp(&bytes[..13]), Err(BadPacket::Short { bytes: 13 }));
    }

    #[test]
    fn sizes_that_cannot_be_end_the_packet() {
        for (at, size) in [(12, 0), (12, 9), (12, 22), (12, 255), (22, 10), (22, 12)] {
            let mut bytes = TWO;
            bytes[at] = size;
            let cut: Vec<_> = Packet::parse(&bytes).unwrap().messages().collect();
            let errors = cut.iter().filter(|message| message.is_err()).count();
            assert_eq!((errors, cut.last().is_some_and(Result::is_err)), (1, true), "{at} {size}");
        }
        assert!(Packet::parse(&TWO[..11]).is_err());
        let one_byte = Packet::parse(&TWO[..13]).unwrap().messages().next();
        assert_eq!(one_byte, Some(Err(BadPacket::Size { size: 0, left: 1 })));
    }

    proptest! {
        #[test]
        fn hostile_packets_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.messages().count() <= bytes.len() / MESSAGE_BYTES_MIN + 1);
            }
        }
    }
}
