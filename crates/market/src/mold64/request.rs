//! Requests for messages that are missing.

use super::{HEADER_BYTES, Session};
use crate::units::{Alpha, Sequence};
use std::fmt::{self, Display, Formatter};

/// A request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The session.
    pub session: Session,
    /// The first message wanted.
    pub first: Sequence,
    /// The number of messages wanted.
    pub count: u16,
}

/// Fewer bytes than a request packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortRequest {
    /// The bytes that are there.
    pub bytes: usize,
}

impl Display for ShortRequest {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "a request has {HEADER_BYTES} bytes, {} are there", self.bytes)
    }
}

impl std::error::Error for ShortRequest {}

impl Request {
    /// The packet.
    pub fn write(&self) -> [u8; HEADER_BYTES] {
        let mut packet = [0; HEADER_BYTES];
        packet[..10].copy_from_slice(&self.session.0);
        packet[10..18].copy_from_slice(&self.first.0.to_be_bytes());
        packet[18..].copy_from_slice(&self.count.to_be_bytes());
        packet
    }

    /// Reads a packet. Bytes behind it are ignored.
    pub fn parse(datagram: &[u8]) -> Result<Self, ShortRequest> {
        let packet = datagram.first_chunk::<HEADER_BYTES>().ok_or(ShortRequest { bytes: datagram.len() })?;
        let [session @ .., _, _, _, _, _, _, _, _, _, _] = *packet;
        let [.., a, b, c, d, e, f, g, h, high, low] = *packet;
        let first = Sequence(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        Ok(Self { session: Alpha(session), first, count: u16::from_be_bytes([high, low]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_layout_of_a_header() {
        let request = Request { session: Alpha(*b"SESSION  7"), first: Sequence(0x0102), count: 3 };
        assert_eq!(&request.write(), b"SESSION  7\0\0\0\0\0\0\x01\x02\0\x03");
        assert_eq!(Request::parse(&request.write()), Ok(request));
        assert_eq!(Request::parse(&request.write()[..19]), Err(ShortRequest { bytes: 19 }));
    }
}
