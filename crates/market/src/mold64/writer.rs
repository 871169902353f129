//! Downstream packets, written into a buffer of the caller's.

use super::{END_OF_SESSION, HEADER_BYTES, LENGTH_BYTES, MESSAGES_MAX, Session};
use crate::units::Sequence;
use std::fmt::{self, Display, Formatter};

/// A buffer that has no room for a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Display for NoRoom {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "a packet needs {HEADER_BYTES} bytes at least")
    }
}

impl std::error::Error for NoRoom {}

/// Fills a datagram with whole messages. One without messages is a heartbeat.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    buffer: &'a mut [u8],
    first: Sequence,
    bytes: usize,
    count: u16,
}

impl<'a> PacketWriter<'a> {
    /// Begins a packet whose first message has the sequence `first`. The buffer's length is the most that the datagram may have.
    ///
    /// # Errors
    /// The buffer has no room for a header.
    pub fn new(buffer: &'a mut [u8], session: Session, first: Sequence) -> Result<Self, NoRoom> {
        let header = buffer.first_chunk_mut::<HEADER_BYTES>().ok_or(NoRoom)?;
        header[..10].copy_from_slice(&session.0);
        header[10..18].copy_from_slice(&first.0.to_be_bytes());
        Ok(Self { buffer, first, bytes: HEADER_BYTES, count: 0 })
    }

    /// Adds a message. False if it does not fit: by its bytes, the packet's number of messages, or the 64 bits of the sequence.
    #[inline]
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(length) = u16::try_from(message.len()) else { return false };
        let fits = self.count < MESSAGES_MAX && self.first.0.checked_add(u64::from(self.count) + 1).is_some();
        let free = self.buffer.get_mut(self.bytes..).unwrap_or_default();
        if !fits || free.len() < LENGTH_BYTES + message.len() {
            return false;
        }
        free[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        free[LENGTH_BYTES..LENGTH_BYTES + message.len()].copy_from_slice(message);
        self.bytes += LENGTH_BYTES + message.len();
        self.count += 1;
        true
    }

    /// The number of messages so far.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The packet.
    pub fn finish(self) -> &'a [u8] {
        let count = self.count;
        self.close(count)
    }

    /// The packet as the end of the session, without the messages that were added: `first` was one past the last one.
    pub fn end_of_session(mut self) -> &'a [u8] {
        self.bytes = HEADER_BYTES;
        self.close(END_OF_SESSION)
    }

    fn close(self, count: u16) -> &'a [u8] {
        self.buffer[18..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
        &self.buffer[..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mold64::Packet;
    use crate::units::Alpha;

    const SESSION: Session = Alpha(*b"SESSION  7");

    #[test]
    fn a_packet_is_the_one_of_the_specification() {
        let mut buffer = [0; 64];
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(5)).unwrap();
        assert!(writer.push(b"abc") && writer.push(b""));
        assert_eq!(writer.finish(), b"SESSION  7\0\0\0\0\0\0\0\x05\0\x02\0\x03abc\0\0");
    }

    #[test]
    fn a_message_that_does_not_fit_leaves_the_packet_as_it_was() {
        let mut buffer = [0; HEADER_BYTES + 7];
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(1)).unwrap();
        assert!(writer.push(b"abc") && !writer.push(b"d") && writer.push(b""));
        let packet = Packet::parse(writer.finish()).unwrap();
        assert_eq!(packet.messages().collect::<Vec<_>>(), [&b"abc"[..], b""]);
        assert!(PacketWriter::new(&mut [0; 19], SESSION, Sequence(1)).is_err());
    }

    #[test]
    fn a_packet_has_fewer_messages_than_the_mark_of_the_end() {
        let mut buffer = vec![0; HEADER_BYTES + LENGTH_BYTES * 0x1_0000];
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(1)).unwrap();
        while writer.push(b"") {}
        assert_eq!(writer.count(), MESSAGES_MAX);
        assert!(Packet::parse(writer.finish()).is_ok());
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(u64::MAX - 1)).unwrap();
        assert!(writer.push(b"") && !writer.push(b""), "no message has the sequence u64::MAX");
    }

    #[test]
    fn the_end_of_a_session_has_no_messages() {
        let mut buffer = [0; 64];
        let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(9)).unwrap();
        assert!(writer.push(b"abc"));
        assert_eq!(writer.end_of_session(), b"SESSION  7\0\0\0\0\0\0\0\x09\xff\xff");
    }
}
