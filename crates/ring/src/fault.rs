//! What an operation on a ring can answer besides success. Cheap: these travel on the hot path.

use std::fmt;

/// The peer wrote what no peer writes. The handle that found it touches the ring no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// A record of a kind that does not exist.
    RecordKind = 1,
    /// A record longer than the longest message, or beyond the ring's end.
    RecordLength = 2,
    /// Padding where no padding can be.
    Padding = 3,
    /// The reader's position went backward or past the writer's.
    ReaderPosition = 4,
    /// The writer's position contradicts its records or the reader.
    WriterPosition = 5,
}

impl Fault {
    /// The fault with this number in a ring's header; `None` for 0 and for numbers that mean nothing.
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
            Self::Padding => "the writer wrote padding where none can be",
            Self::ReaderPosition => "the reader's position is not between its last one and the writer's",
            Self::WriterPosition => "the writer's position contradicts its records or the reader's position",
        })
    }
}

impl std::error::Error for Fault {}

/// What is said of a copy of a handle in a forked child.
pub(crate) const FORKED: &str = "the handle belongs to the process that this one was forked from";

/// Why nothing could be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The ring has no room now.
    Full,
    /// Longer than this ring's longest message; it will never fit.
    TooLong,
    /// The reader has closed: nobody will read it.
    Closed,
    /// The handle belongs to the process that this one was forked from.
    Forked,
    /// The reader wrote what no reader writes.
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

/// Why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Nothing is there now.
    Empty,
    /// The writer has closed and everything is read. A new writer may open the ring again.
    Closed,
    /// The handle belongs to the process that this one was forked from.
    Forked,
    /// The buffer is shorter than the message, which stays where it is (broadcast only).
    TooShort {
        /// Bytes that the message needs.
        needs: usize,
    },
    /// The writer has overwritten what was not read (broadcast only); the next read goes on behind the gap.
    Lost(Loss),
    /// The writer wrote what no writer writes.
    Faulty(Fault),
}

/// What a slow reader of a broadcast ring has lost, exactly.
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
