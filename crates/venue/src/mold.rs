//! MoldUDP64 1.00, written: packets of a line, heartbeats, end of session. Requests are read.
//!
//! Header of 20 bytes, big-endian: session 10, sequence number of the first message 8, message count 2; then each message
//! behind its length in 2 bytes.

/// Bytes of the header.
pub const HEADER: usize = 20;

/// Bytes in front of each message.
pub const LENGTH: usize = 2;

/// Message count of a packet that ends the session.
pub const END_OF_SESSION: u16 = 0xffff;

/// The greatest payload of a datagram that Ethernet carries whole: 1,500 bytes without the headers of IPv4 and UDP.
pub const PAYLOAD_MAX: usize = 1_472;

/// The name of a session, 10 characters.
pub type Session = [u8; 10];

/// Writes the header of a packet to the first 20 bytes of `packet`.
pub fn header(packet: &mut [u8], session: Session, first: u64, count: u16) {
    packet[..10].copy_from_slice(&session);
    packet[10..18].copy_from_slice(&first.to_be_bytes());
    packet[18..20].copy_from_slice(&count.to_be_bytes());
}

/// A packet without messages: a heartbeat (count 0) or the end of the session. `next` is the next sequence number.
pub fn empty(session: Session, next: u64, count: u16) -> [u8; HEADER] {
    let mut packet = [0; HEADER];
    header(&mut packet, session, next, count);
    packet
}

/// A packet that is being filled.
#[derive(Debug)]
pub struct Packer {
    session: Session,
    first: u64,
    count: u16,
    bytes: Vec<u8>,
    payload_max: usize,
}

impl Packer {
    /// Packets of up to `payload_max` bytes, of which the first begins with message `first`.
    pub fn new(session: Session, first: u64, payload_max: usize) -> Self {
        let payload_max = payload_max.clamp(HEADER, PAYLOAD_MAX);
        let mut bytes = Vec::with_capacity(PAYLOAD_MAX);
        bytes.resize(HEADER, 0);
        Self { session, first, count: 0, bytes, payload_max }
    }

    /// Appends a message; false, and nothing is done, if it does not fit any more.
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(length) = u16::try_from(message.len()) else { return false };
        if self.bytes.len() + LENGTH + message.len() > self.payload_max || self.count == END_OF_SESSION - 1 {
            return false;
        }
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(message);
        self.count += 1;
        true
    }

    /// Messages in it.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The sequence number of its first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Bytes in it, the header included.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The whole packet, if it holds a message; the next one is begun by [`Self::clear`].
    pub fn packet(&mut self) -> Option<&[u8]> {
        let is_filled = self.count > 0;
        header(&mut self.bytes, self.session, self.first, self.count);
        is_filled.then_some(&self.bytes[..])
    }

    /// Begins the packet after this one.
    pub fn clear(&mut self) {
        self.first = self.first.saturating_add(u64::from(self.count));
        self.restart(self.first);
    }

    /// Begins a packet with message `first`, whatever this one holds.
    pub fn restart(&mut self, first: u64) {
        self.first = first;
        self.count = 0;
        self.bytes.truncate(HEADER);
    }
}

/// A request for messages that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The session that it is about.
    pub session: Session,
    /// The first message that is wanted.
    pub first: u64,
    /// How many are wanted.
    pub count: u16,
}

impl Request {
    /// The request in a datagram; `None` if it is not exactly one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.try_into().ok()?;
        let (session, rest) = bytes.split_first_chunk::<10>()?;
        let (first, count) = rest.split_first_chunk::<8>()?;
        let count = u16::from_be_bytes(count.try_into().ok()?);
        Some(Self { session: *session, first: u64::from_be_bytes(*first), count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = *b"VENUE00001";

    #[test]
    fn a_packet_is_byte_for_byte_as_specified() {
        let mut packer = Packer::new(SESSION, 5, PAYLOAD_MAX);
        assert!(packer.packet().is_none());
        assert!(packer.push(b"abc") && packer.push(b""));
        let expected = b"VENUE00001\0\0\0\0\0\0\0\x05\0\x02\0\x03abc\0\0";
        assert_eq!(packer.packet().unwrap(), expected);
        packer.clear();
        assert_eq!((packer.first(), packer.count(), packer.length()), (7, 0, HEADER));
        assert_eq!(&empty(SESSION, 7, END_OF_SESSION), b"VENUE00001\0\0\0\0\0\0\0\x07\xff\xff");
    }

    #[test]
    fn a_packet_never_exceeds_its_limit() {
        let mut packer = Packer::new(SESSION, 1, 100);
        while packer.push(&[7; 19]) {}
        assert_eq!((packer.count(), packer.length()), (3, 83));
        assert!(!packer.push(&[0; 70_000]));
        let mut packer = Packer::new(SESSION, u64::MAX, 100);
        packer.push(b"x");
        packer.clear();
        assert_eq!(packer.first(), u64::MAX);
    }

    #[test]
    fn a_request_is_exactly_one_header() {
        let bytes = empty(SESSION, 9, 3);
        assert_eq!(Request::parse(&bytes), Some(Request { session: SESSION, first: 9, count: 3 }));
        assert!((0..20).all(|length| Request::parse(&bytes[..length]).is_none()));
        assert_eq!(Request::parse(&[0; 21]), None);
    }
}
