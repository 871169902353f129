//! Errors of ring operations. They are small, as they occur on the hot path.

use std::fmt;

/// A protocol violation by the peer. The handle that found it does not access the ring any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// A record of an unknown kind.
    RecordKind = 1,
    /// A record longer than the longest message, or beyond the ring's end.
    RecordLength = 2,
    /// Padding where none is possible.
    Padding = 3,
    /// The reader's position went backward or past the writer's.
    ReaderPosition = 4,
    /// The writer's position contradicts its records or the reader.
    WriterPosition = 5,
}

impl Fault {
    /// The fault with this number in a ring's header; `None` for 0 and unknown numbers.
    pub fn of_code(code: u64) -> Option<Self> {
        [Self::RecordKind, Self::RecordLength, Self::Padding, Self::ReaderPosition, Self::WriterPosition]
            .into_iter()
            .find(|fault| *fault as u64 == code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecordKind => "the writer wrote a record of an unknown kind",
            Self::RecordLength => "the writer wrote a record that is too long or crosses the ring's end",
            Self::Padding => "the writer wrote padding where none is possible",
            Self::ReaderPosition => "the reader's position is not between its last one and the writer's",
            Self::WriterPosition => "the writer's position contradicts its records or the reader's position",
        })
    }
}

impl std::error::Error for Fault {}

/// The text for a copy of a handle in a forked child.
pub(crate) const FORKED: &str = "the handle belongs to the process that this one was forked from";

/// The reason why nothing could be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The ring is full now.
    Full,
    /// The message is longer than the ring's longest; it will never fit.
    TooLong,
    /// The reader has closed the ring.
    Closed,
    /// The handle belongs to the process that this one was forked from.
    Forked,
    /// The reader violated the protocol.
    Faulty(Fault),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the ring is full"),
            Self::TooLong => f.write_str("the message is longer than the ring's longest"),
            Self::Closed => f.write_str("the reader has closed the ring"),
            Self::Forked => f.write_str(FORKED),
            Self::Faulty(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for ClaimError {}

/// The reason why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The ring is empty now.
    Empty,
    /// The writer has closed and everything is read. A new writer may open the ring again.
    Closed,
    /// The handle belongs to the process that this one was forked from.
    Forked,
    /// The buffer is shorter than the message, which stays in the ring (broadcast only).
    TooShort {
        /// The length of the message, bytes.
        needs: usize,
    },
    /// The writer has overwritten unread messages (broadcast only); the next read resumes after the gap.
    Lost(Loss),
    /// The writer violated the protocol.
    Faulty(Fault),
}

/// The exact loss of a slow reader of a broadcast ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Messages.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the ring is empty"),
            Self::Closed => f.write_str("the writer has closed the ring"),
            Self::Forked => f.write_str(FORKED),
            Self::TooShort { needs } => write!(f, "the message has {needs} bytes, the buffer fewer"),
            Self::Lost(loss) => write!(f, "{} messages ({} bytes) were overwritten unread", loss.messages, loss.bytes),
            Self::Faulty(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}
