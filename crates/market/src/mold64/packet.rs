//! Downstream packets, read where they stand.

use super::{END_OF_SESSION, HEADER_BYTES, Session};
use crate::framing::{Body, Framing, Head};
use crate::units::{Alpha, Sequence};
use std::fmt::{self, Display, Formatter};

/// Bytes that are no downstream packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than a header has.
    Short {
        /// The bytes that are there.
        bytes: usize,
    },
    /// A message that is not there, or not all of it.
    Block {
        /// Its place in the packet, from 0.
        number: u16,
        /// The messages that the header tells.
        count: u16,
    },
    /// The numbers of the messages exceed 64 bits.
    Sequence,
}

impl Display for Malformed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(out, "a header has {HEADER_BYTES} bytes, {bytes} are there"),
            Self::Block { number, count } => write!(out, "message {number} of {count} is cut off"),
            Self::Sequence => out.write_str("the sequence exceeds 64 bits"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A downstream packet. What stands behind its last message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    head: Head<Session>,
    messages: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet, and checks the lengths of all its messages.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let head = head(datagram)?;
        let messages = blocks(datagram, &head)?;
        Ok(Self { head, messages })
    }

    /// The session.
    #[inline]
    pub fn session(&self) -> Session {
        self.head.session
    }

    /// The sequence of the first message; of the next one to be sent if the packet has none.
    #[inline]
    pub fn first(&self) -> Sequence {
        self.head.first
    }

    /// The content.
    #[inline]
    pub fn body(&self) -> Body {
        self.head.body
    }

    /// The messages, in order; none of a heartbeat or an end of session. A message may be of no bytes.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        let left = if let Body::Data { count } = self.head.body { count } else { 0 };
        Messages { bytes: self.messages, left }
    }
}

#[inline]
fn head(datagram: &[u8]) -> Result<Head<Session>, Malformed> {
    let header = datagram.first_chunk::<HEADER_BYTES>().ok_or(Malformed::Short { bytes: datagram.len() })?;
    let [session @ .., _, _, _, _, _, _, _, _, _, _] = *header;
    let [.., a, b, c, d, e, f, g, h, high, low] = *header;
    let first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let body = match u16::from_be_bytes([high, low]) {
        0 => Body::Heartbeat,
        END_OF_SESSION => Body::EndOfSession,
        count => {
            first.checked_add(u64::from(count)).ok_or(Malformed::Sequence)?;
            Body::Data { count: u32::from(count) }
        }
    };
    Ok(Head { session: Alpha(session), first: Sequence(first), body })
}

/// The bytes of the packet's messages with their lengths, all of them checked.
#[inline]
fn blocks<'a>(datagram: &'a [u8], head: &Head<Session>) -> Result<&'a [u8], Malformed> {
    let count = if let Body::Data { count } = head.body { count as u16 } else { 0 };
    let blocks = datagram.get(HEADER_BYTES..).unwrap_or_default();
    let mut at = 0;
    for number in 0..count {
        let length = blocks.get(at..at + 2).and_then(<[u8]>::first_chunk).ok_or(Malformed::Block { number, count })?;
        at += 2 + usize::from(u16::from_be_bytes(*length));
    }
    // Lengths only add up: if the last message ends inside, so do all before it.
    blocks.get(..at).ok_or(Malformed::Block { number: count.saturating_sub(1), count })
}

/// The messages of one packet.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (length, behind) = self.bytes.split_first_chunk()?;
        let (message, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.bytes = behind;
        Some(message)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Messages<'_> {}

/// MoldUDP64 as the framing of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mold64 {}

impl Framing for Mold64 {
    type Session = Session;
    type Malformed = Malformed;
    type Messages<'a> = Messages<'a>;

    #[inline]
    fn head(datagram: &[u8]) -> Result<Head<Session>, Malformed> {
        head(datagram)
    }

    #[inline]
    fn messages(datagram: &[u8]) -> Result<Messages<'_>, Malformed> {
        Ok(Packet::parse(datagram)?.messages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mold64::PacketWriter;
    use proptest::prelude::*;

    /// Typed from the specification: session, sequence 5, two messages of 3 and 0 bytes.
    const PACKET: &[u8] = b"SESSION  7\0\0\0\0\0\0\0\x05\0\x02\0\x03abc\0\0";

    #[test]
    fn a_packet_has_its_messages_in_order_and_one_may_be_empty() {
        let packet = Packet::parse(PACKET).unwrap();
        assert_eq!((packet.session().as_str(), packet.first()), ("SESSION  7", Sequence(5)));
        assert_eq!(packet.body(), Body::Data { count: 2 });
        assert_eq!(packet.messages().collect::<Vec<_>>(), [&b"abc"[..], b""]);
        assert_eq!(packet.messages().len(), 2);
    }

    #[test]
    fn a_packet_that_is_cut_anywhere_is_malformed() {
        for bytes in 0..PACKET.len() {
            assert!(Packet::parse(&PACKET[..bytes]).is_err(), "{bytes} bytes");
        }
        assert_eq!(Packet::parse(&PACKET[..19]), Err(Malformed::Short { bytes: 19 }));
        assert_eq!(Packet::parse(&PACKET[..26]), Err(Malformed::Block { number: 1, count: 2 }));
    }

    #[test]
    fn heartbeats_and_ends_of_session_have_no_messages() {
        for (count, body) in [(0_u16, Body::Heartbeat), (0xFFFF, Body::EndOfSession)] {
            let mut bytes = PACKET.to_vec();
            bytes[18..20].copy_from_slice(&count.to_be_bytes());
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.body(), packet.first(), packet.messages().len()), (body, Sequence(5), 0));
        }
    }

    #[test]
    fn numbers_end_where_64_bits_end() {
        let mut bytes = PACKET.to_vec();
        bytes[10..18].copy_from_slice(&(u64::MAX - 2).to_be_bytes());
        assert!(Packet::parse(&bytes).is_ok());
        bytes[10..18].copy_from_slice(&(u64::MAX - 1).to_be_bytes());
        assert_eq!(Packet::parse(&bytes), Err(Malformed::Sequence));
        bytes[18..20].copy_from_slice(&[0, 0]);
        assert!(Packet::parse(&bytes).is_ok(), "a heartbeat has no message that could exceed them");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            session in any::<[u8; 10]>(),
            first in 0..u64::MAX - 70,
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..64),
        ) {
            let mut buffer = [0; 6000];
            let mut writer = PacketWriter::new(&mut buffer, Alpha(session), Sequence(first)).unwrap();
            for message in &messages {
                prop_assert!(writer.push(message));
            }
            let packet = Packet::parse(writer.finish()).unwrap();
            prop_assert_eq!((packet.session(), packet.first()), (Alpha(session), Sequence(first)));
            prop_assert!(packet.messages().eq(messages.iter().map(Vec::as_slice)));
        }

        #[test]
        fn any_bytes_are_a_packet_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let messages = packet.messages();
                prop_assert_eq!(messages.len(), messages.clone().count());
                prop_assert!(messages.map(|message| message.len() + 2).sum::<usize>() + HEADER_BYTES <= bytes.len());
            }
        }
    }
}
