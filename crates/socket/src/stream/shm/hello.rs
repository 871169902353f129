//! The message that opens a connection through shared memory, and the one that refuses it. Both come from strangers.
//!
//! ```text
//!         0                8         12        16                  24
//! hello   | "SIDELINK"     | version | kind    | bytes, connector  | bytes, listener   |  with two descriptors
//! refusal | "SIDENOPE"     | code    | detail  |
//! ```
//!
//! Little-endian. The first descriptor is the ring that the connector writes, the second the one that it reads; the
//! bytes are the capacities of the two. Any other message between the two ends is a bell: one byte that says "look".

use super::{Kind, RING_BYTES_MAX, RING_BYTES_MIN};
use std::fmt;

/// Changes whenever two builds could not work with each other.
pub(super) const VERSION: u32 = 1;
/// A hello, bytes.
pub(super) const HELLO_BYTES: usize = 32;
/// A refusal, bytes.
pub(super) const REFUSAL_BYTES: usize = 16;
/// The byte that wakes a sleeper.
pub(super) const BELL: [u8; 1] = [0];

const HELLO: &[u8; 8] = b"SIDELINK";
const REFUSAL: &[u8; 8] = b"SIDENOPE";

/// The connector's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) kind: Kind,
    /// Capacity of the ring that the connector writes, bytes.
    pub(super) up_bytes: u64,
    /// Capacity of the ring that the connector reads, bytes.
    pub(super) down_bytes: u64,
}

/// The reason for which a listener refuses a connector, as both ends report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It sent no hello.
    NoHello,
    /// The listener's version is this one.
    Version(u32),
    /// The listener takes this kind.
    Kind(Kind),
    /// The listener's rings have at most so many bytes.
    Size(u32),
    /// There are not exactly two descriptors.
    Descriptors,
    /// The listener does not know this user.
    User(u32),
    /// The descriptors are no rings that can be trusted.
    Memory,
}

impl Hello {
    pub(super) fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(HELLO);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.up_bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.down_bytes.to_le_bytes());
        bytes
    }

    /// Reads a hello that a listener of the kind `wanted`, with rings of up to `bytes_max`, can take.
    pub(super) fn decode(bytes: &[u8], wanted: Kind, bytes_max: usize) -> Result<Self, Refusal> {
        let version = half(bytes, 8).filter(|_| bytes.starts_with(HELLO)).ok_or(Refusal::NoHello)?;
        if version != VERSION {
            return Err(Refusal::Version(VERSION));
        }
        if bytes.len() != HELLO_BYTES {
            return Err(Refusal::NoHello);
        }
        if half(bytes, 12) != Some(wanted as u32) {
            return Err(Refusal::Kind(wanted));
        }
        let bytes_max = bytes_max.min(RING_BYTES_MAX) as u64;
        let size = |at| word(bytes, at).filter(|size| (RING_BYTES_MIN as u64..=bytes_max).contains(size));
        let refused = Refusal::Size(bytes_max as u32);
        Ok(Self { kind: wanted, up_bytes: size(16).ok_or(refused)?, down_bytes: size(24).ok_or(refused)? })
    }
}

impl Refusal {
    pub(super) fn encode(self) -> [u8; REFUSAL_BYTES] {
        let (code, detail) = match self {
            Self::NoHello => (1, 0),
            Self::Version(version) => (2, version),
            Self::Kind(kind) => (3, kind as u32),
            Self::Size(bytes_max) => (4, bytes_max),
            Self::Descriptors => (5, 0),
            Self::User(uid) => (6, uid),
            Self::Memory => (7, 0),
        };
        let mut bytes = [0; REFUSAL_BYTES];
        bytes[..8].copy_from_slice(REFUSAL);
        bytes[8..12].copy_from_slice(&u32::to_le_bytes(code));
        bytes[12..].copy_from_slice(&detail.to_le_bytes());
        bytes
    }

    /// Reads a refusal; `None` for any other message.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != REFUSAL_BYTES || !bytes.starts_with(REFUSAL) {
            return None;
        }
        let detail = half(bytes, 12)?;
        Some(match half(bytes, 8)? {
            1 => Self::NoHello,
            2 => Self::Version(detail),
            3 => Self::Kind(Kind::of_code(detail)?),
            4 => Self::Size(detail),
            5 => Self::Descriptors,
            6 => Self::User(detail),
            7 => Self::Memory,
            _ => return None,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHello => f.write_str("no hello came, or another message instead of one"),
            Self::Version(version) => write!(f, "the listener speaks version {version} of the hello"),
            Self::Kind(kind) => write!(f, "the listener takes a {kind} link"),
            Self::Size(bytes_max) => {
                write!(f, "the listener takes rings of {RING_BYTES_MIN} to {bytes_max} bytes")
            }
            Self::Descriptors => f.write_str("a hello carries exactly two descriptors"),
            Self::User(uid) => write!(f, "the listener does not let user {uid} in"),
            Self::Memory => f.write_str("the descriptors are not two sealed, fresh rings of the size that was said"),
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: Hello = Hello { kind: Kind::Stream, up_bytes: 4096, down_bytes: 1 << 20 };

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        assert_eq!(Hello::decode(&GOOD.encode(), Kind::Stream, RING_BYTES_MAX), Ok(GOOD));
    }

    #[test]
    fn each_mismatch_has_its_own_refusal() {
        let decode = |bytes: &[u8]| Hello::decode(bytes, Kind::Stream, 1 << 16).expect_err("refused");
        let with = |at: usize, value: u8| {
            let mut bytes = Hello { down_bytes: 4096, ..GOOD }.encode();
            bytes[at] = value;
            bytes
        };
        assert_eq!(decode(b""), Refusal::NoHello);
        assert_eq!(decode(b"GET / HTTP/1.1\r\n\r\n"), Refusal::NoHello);
        assert_eq!(decode(&with(0, b'x')), Refusal::NoHello);
        assert_eq!(decode(&with(8, 9)), Refusal::Version(VERSION));
        assert_eq!(decode(&GOOD.encode()[..24]), Refusal::NoHello);
        assert_eq!(decode(&with(12, 2)), Refusal::Kind(Kind::Stream));
        assert_eq!(decode(&with(12, 77)), Refusal::Kind(Kind::Stream));
        assert_eq!(decode(&with(17, 0)), Refusal::Size(1 << 16));
        assert_eq!(decode(&with(27, 1)), Refusal::Size(1 << 16));
        assert_eq!(decode(&GOOD.encode()), Refusal::Size(1 << 16));
    }

    #[test]
    fn refusals_are_read_as_they_were_written() {
        let all = [
            Refusal::NoHello,
            Refusal::Version(7),
            Refusal::Kind(Kind::Datagram),
            Refusal::Size(65_536),
            Refusal::Descriptors,
            Refusal::User(1000),
            Refusal::Memory,
        ];
        for refusal in all {
            assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
        }
        assert_eq!(Refusal::decode(&BELL), None);
        assert_eq!(Refusal::decode(&[b'S'; REFUSAL_BYTES]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64), good in any::<bool>()) {
            let mut bytes = bytes;
            if good {
                bytes.splice(..bytes.len().min(12), GOOD.encode()[..12].iter().copied());
            }
            if let Ok(hello) = Hello::decode(&bytes, Kind::Stream, RING_BYTES_MAX) {
                let again = hello.encode();
                prop_assert_eq!(again.as_slice(), bytes.as_slice());
            }
            let _ = Refusal::decode(&bytes);
        }
    }
}
