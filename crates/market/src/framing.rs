//! The framing of datagrams, as arbitration and recovery see it: a session, the sequence of the first message, the messages.

use crate::units::Sequence;
use std::fmt::Debug;

/// The content of a datagram, as its header tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Messages, numbered upwards from the header's sequence; at least one.
    Data {
        /// Their number.
        count: u32,
    },
    /// No message; the header's sequence is that of the next one to be sent.
    Heartbeat,
    /// The session is over; the header's sequence is one past its last message.
    EndOfSession,
}

/// A datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<S> {
    /// The session that its numbers belong to.
    pub session: S,
    /// The sequence of its first message; of the next message to be sent if it has none.
    pub first: Sequence,
    /// Its content. `first` + count is at most `u64::MAX`.
    pub body: Body,
}

/// A protocol's way to put messages into datagrams. One whose numbers are shorter than 64 bits and wrap extends them; one that
/// numbers datagrams (CME MDP 3.0) shows each as one message.
pub trait Framing {
    /// The name of a session; `()` where a protocol has none.
    type Session: Copy + Eq + Debug;
    /// Bytes that are no datagram of the protocol.
    type Malformed: Debug;
    /// The messages of one datagram, as many as the header says.
    type Messages<'a>: ExactSizeIterator<Item = &'a [u8]> + Clone;

    /// Reads the header alone, which is enough to drop a duplicate.
    fn head(datagram: &[u8]) -> Result<Head<Self::Session>, Self::Malformed>;

    /// The messages, after the lengths of all of them were checked. Asked for only if the header's body is [`Body::Data`].
    fn messages(datagram: &[u8]) -> Result<Self::Messages<'_>, Self::Malformed>;
}
