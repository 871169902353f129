//! One packet in a stream of bytes.

use std::fmt::{self, Display, Formatter};

/// Bytes of the length field.
pub(super) const LENGTH_BYTES: usize = 2;
/// Bytes in front of the payload: the length and the type.
pub(super) const HEADER_BYTES: usize = LENGTH_BYTES + 1;
/// The longest payload that the length field can tell, bytes.
pub const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - 1;
/// The longest packet with its length field, bytes.
pub const PACKET_BYTES_MAX: usize = LENGTH_BYTES + u16::MAX as usize;

pub(super) const LOGIN_REQUEST: u8 = b'L';
pub(super) const LOGIN_ACCEPTED: u8 = b'A';
pub(super) const LOGIN_REJECTED: u8 = b'J';
pub(super) const SEQUENCED: u8 = b'S';
pub(super) const UNSEQUENCED: u8 = b'U';
pub(super) const SERVER_HEARTBEAT: u8 = b'H';
pub(super) const CLIENT_HEARTBEAT: u8 = b'R';
pub(super) const END_OF_SESSION: u8 = b'Z';
pub(super) const LOGOUT: u8 = b'O';

/// Bytes of a server that are not SoupBinTCP. There is no way to go on after them: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A packet of length 0, which has no type.
    NoType,
    /// A packet longer than the client takes ([`Settings::packet_bytes_max`](super::Settings::packet_bytes_max)).
    TooLong {
        /// Its length as told, without the length field.
        bytes: usize,
    },
    /// A login packet that is too short, or has a field that is no number or not printable.
    Login,
    /// A packet that must not come now: data before the login is accepted, or a second answer to it.
    Unexpected {
        /// Its type.
        kind: u8,
    },
    /// The numbers of the session have run out.
    SequenceExhausted,
}

impl Display for Malformed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoType => out.write_str("a packet of length 0"),
            Self::TooLong { bytes } => write!(out, "a packet of {bytes} bytes, more than this client takes"),
            Self::Login => out.write_str("an answer to the login that cannot be read"),
            Self::Unexpected { kind } => {
                write!(out, "a packet of type '{}' that must not come now", kind.escape_ascii())
            }
            Self::SequenceExhausted => out.write_str("more messages than a session has numbers"),
        }
    }
}

impl std::error::Error for Malformed {}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its type.
    pub kind: u8,
    /// The bytes behind the type; none at all is legal.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Cuts the packet at the front of `bytes`: it and the bytes behind it; nothing if it is not complete.
    ///
    /// # Errors
    /// A packet without a type.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, Malformed> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 {
            return Err(Malformed::NoType);
        }
        let Some((packet, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        Ok(packet.split_first().map(|(kind, payload)| (Self { kind: *kind, payload }, rest)))
    }

    /// Writes the packet to the front of `out`; the bytes written, or nothing if there is not enough room or the payload is longer
    /// than [`PAYLOAD_BYTES_MAX`].
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let length = u16::try_from(1 + self.payload.len()).ok()?;
        let out = out.get_mut(..HEADER_BYTES + self.payload.len())?;
        out[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        out[LENGTH_BYTES] = self.kind;
        out[HEADER_BYTES..].copy_from_slice(self.payload);
        Some(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_cut_when_it_is_complete() {
        let bytes = b"\0\x03SabX";
        for short in 0..5 {
            assert_eq!(Packet::split(&bytes[..short]), Ok(None));
        }
        assert_eq!(Packet::split(bytes), Ok(Some((Packet { kind: b'S', payload: b"ab" }, &b"X"[..]))));
    }

    #[test]
    fn a_packet_without_a_type_is_malformed_and_one_without_a_payload_is_not() {
        assert_eq!(Packet::split(b"\0\0"), Err(Malformed::NoType));
        assert_eq!(Packet::split(b"\0\x01H"), Ok(Some((Packet { kind: b'H', payload: b"" }, &b""[..]))));
    }

    #[test]
    fn the_longest_payload_is_written_and_a_longer_one_is_refused() {
        let (payload, mut out) = (vec![7; PAYLOAD_BYTES_MAX + 1], vec![0; PACKET_BYTES_MAX + 1]);
        let packet = |bytes| Packet { kind: b'U', payload: &payload[..bytes] };
        assert_eq!(packet(PAYLOAD_BYTES_MAX).write(&mut out), Some(PACKET_BYTES_MAX));
        assert_eq!(out[..4], [0xFF, 0xFF, b'U', 7]);
        assert_eq!(packet(PAYLOAD_BYTES_MAX + 1).write(&mut out), None);
        assert_eq!(packet(5).write(&mut out[..7]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_cut_again(kind: u8, payload in prop::collection::vec(any::<u8>(), 0..80), rest: [u8; 3]) {
            let (packet, mut out) = (Packet { kind, payload: &payload }, [0; 100]);
            let bytes = packet.write(&mut out).unwrap();
            out[bytes..bytes + 3].copy_from_slice(&rest);
            prop_assert_eq!(Packet::split(&out[..bytes + 3]), Ok(Some((packet, &rest[..]))));
            prop_assert_eq!(Packet::split(&out[..bytes - 1]), Ok(None));
        }
    }
}
