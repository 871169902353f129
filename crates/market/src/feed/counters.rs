//! Counters of a feed; those of its lines are with the arbiter.

use crate::arbiter::Histogram;

/// Counters of a feed.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Gaps that opened: the next message was missing although a later one was known.
    pub gaps: u64,
    /// Gaps that were filled without an answer to a request.
    pub filled_by_line: u64,
    /// Gaps that were filled with the help of one.
    pub filled_by_request: u64,
    /// Gaps that a snapshot has ended.
    pub ended_by_snapshot: u64,
    /// Gaps that were given up.
    pub given_up: u64,
    /// Messages that were never delivered: no line brought them, no answer did, or a snapshot replaced them.
    pub skipped: u64,
    /// Of those, the ones in whose place a snapshot came.
    pub replaced: u64,
    /// Skips far ahead that were wrong: the lines went on where they had been.
    pub refuted: u64,
    /// Requests.
    pub requests: u64,
    /// Requests without an answer in time, and refused ones.
    pub requests_failed: u64,
    /// Attempts to get a snapshot.
    pub snapshots: u64,
    /// Attempts that failed: refused, too slow, too old, or of numbers that cannot be.
    pub snapshots_failed: u64,
    /// Snapshots that took so long that messages behind them were not held any more: what they left out is a gap. If this grows, the
    /// hold-back buffer is too small for the feed ([`Limits::held_messages`](crate::arbiter::Limits::held_messages)).
    pub snapshots_outrun: u64,
    /// Datagrams that found no place in the hold-back buffer.
    pub overflows: u64,
    /// Datagrams of sessions that are not the feed's.
    pub other_session: u64,
    /// Datagrams by lines that the feed does not have.
    pub no_such_line: u64,
    /// How long gaps were open, ns.
    pub gap_duration: Histogram,
}
