//! What a feed handler shows to its program.

use sidestep_market::arbiter::Origin;
use sidestep_market::book::{Books, Change, Refusal};
use sidestep_market::feed::Action;
use sidestep_market::itch::Message;
use sidestep_market::mold64::Session;
use sidestep_market::units::{Nanos, Sequence};

/// A message that was applied to the books.
#[derive(Clone, Copy)]
pub struct Update<'a> {
    /// Its number. A message of a snapshot has none of its own: it is that of the next message of the feed.
    pub sequence: Sequence,
    /// The line that brought it; 0 of a snapshot.
    pub origin: Origin,
    /// When its datagram was received, CLOCK_MONOTONIC; however long it was held back. 0 of a snapshot.
    pub arrived: Nanos,
    /// It belongs to a snapshot, which is not complete yet.
    pub is_snapshot: bool,
    /// The feed is live: this is the newest message that is known to exist. Without it the books are behind, or wrong: what is held back
    /// behind a gap comes so, all at once, before [`Application::notice`] tells that the feed is live again. A book may be suspect all the
    /// same ([`Book::suspect`](sidestep_market::book::Book::suspect)).
    pub is_live: bool,
    /// The message.
    pub message: Message<'a>,
    /// What it has changed in the book of its instrument; nothing, if it changes none; or why the books refused it.
    pub change: Result<Option<Change>, Refusal>,
    /// All books, after it.
    pub books: &'a Books,
}

/// The program of a feed handler. Every method does nothing by default.
pub trait Application {
    /// A message, in its turn, after it was applied.
    fn message(&mut self, update: &Update<'_>) {
        let _ = update;
    }

    /// A message that is too short for its type. Nobody knows what it said, so that all books are suspect from here on.
    fn unreadable(&mut self, sequence: Sequence, bytes: &[u8], books: &Books) {
        let _ = (sequence, bytes, books);
    }

    /// A change of the feed: its state, a session, messages that are lost, a line that is silent. Requests and snapshots are told, too;
    /// the handler makes them itself.
    fn notice(&mut self, action: &Action<Session>, books: &Books) {
        let _ = (action, books);
    }
}

/// A program that looks at the books after each poll.
impl Application for () {}
