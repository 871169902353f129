//! What a feed tells: messages in their turn, what is to be done, and its state.

use crate::arbiter::Delivery;
use crate::units::{LineId, Nanos, Sequence};

/// How far what was delivered can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All messages that are known to exist are delivered.
    Live,
    /// A message is missing, and is waited for or asked for. What was delivered is right, and behind.
    Recovering {
        /// When the first one was missed.
        since: Nanos,
    },
    /// What was delivered is not to be relied on.
    Stale {
        /// Since when.
        since: Nanos,
        /// The reason.
        why: Why,
    },
}

/// A reason why a feed is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No datagram of a session has come yet.
    NotJoined,
    /// Messages are missing for longer than [`Policy::stale_after_ns`](super::Policy::stale_after_ns), a snapshot is awaited
    /// instead, or they were given up.
    Gap,
    /// More came behind missing messages than the hold-back buffer holds.
    Overflow,
    /// No line but those of answers has brought anything for [`Policy::silence_ns`](super::Policy::silence_ns), or nothing but numbers
    /// that are older than what was delivered: the sender may have begun anew under the same session.
    Silence,
    /// The session is over.
    SessionEnded,
}

/// What a feed wants done, or tells. They come in the order in which they happen, between the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<S> {
    /// Do: ask a server for messages. Its answer goes to [`Feed::datagram`](super::Feed::datagram), under a recovery line; a refusal to
    /// [`Feed::request_refused`](super::Feed::request_refused).
    Request {
        /// The server, from 0.
        server: u8,
        /// The session.
        session: S,
        /// The first message.
        first: Sequence,
        /// The number of messages.
        count: u32,
    },
    /// Do: empty the books and get a snapshot. Its messages go to [`Feed::snapshot_message`](super::Feed::snapshot_message), its end to
    /// [`Feed::snapshot_done`](super::Feed::snapshot_done), a failure to [`Feed::snapshot_failed`](super::Feed::snapshot_failed).
    OpenSnapshot {
        /// The number of this attempt, which its calls bear.
        attempt: u32,
        /// The session.
        session: S,
        /// A snapshot that is continued at this message or a later one leaves nothing out, as far as is known now. Where there is a
        /// choice of snapshots, take none that is continued earlier ([`Feed::snapshot_from`](super::Feed::snapshot_from) as time goes on).
        from: Sequence,
    },
    /// Do: end this attempt. Nothing of it is taken any more.
    CloseSnapshot {
        /// The attempt.
        attempt: u32,
    },
    /// The state has changed.
    State(State),
    /// These messages will never be delivered: a snapshot replaces them, or they are given up. The state is stale when this is told.
    Skipped {
        /// The first of them.
        first: Sequence,
        /// Their number.
        count: u64,
    },
    /// A line brings a session that is not the feed's. It is not adopted: by [`Adoption`](super::Adoption), or because the feed waits
    /// for another one.
    OtherSession {
        /// The line.
        line: LineId,
        /// The session it brings.
        session: S,
    },
    /// The feed has adopted a session: numbers begin anew, and so do books. It may be the same session once more, if numbers far ahead to
    /// which the feed had skipped were wrong.
    SessionAdopted {
        /// The session.
        session: S,
        /// Its first message that will be delivered.
        next: Sequence,
    },
    /// All messages of the session were delivered or skipped, and it is over.
    SessionEnded {
        /// One past its last message.
        next: Sequence,
    },
    /// A live line has brought nothing of the session for [`Policy::line_silence_ns`](super::Policy::line_silence_ns).
    LineSilent {
        /// The line.
        line: LineId,
    },
    /// A silent line brings datagrams again.
    LineBack {
        /// The line.
        line: LineId,
    },
}

/// Takes what a feed tells.
pub trait Handler<S> {
    /// A message, once, in its turn.
    fn message(&mut self, message: Delivery<'_>);

    /// A message of a snapshot, in the snapshot's order.
    fn snapshot(&mut self, bytes: &[u8]);

    /// Something to do, or to know.
    fn action(&mut self, action: Action<S>);
}
