//! The rules by which a feed recovers.

use crate::units::Sequence;
use sidestep_sys::Problem;

/// The first message of a session that is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The first one that comes. Books are incomplete for what was added before.
    FirstSeen,
    /// Number 1. What came before the join is recovered like any other gap: by requests, or by a snapshot if it is too much.
    Beginning,
    /// This one of the feed's first session, for whoever knows all before it from elsewhere, such as a checkpoint of its own. What is missing
    /// from there on is recovered like any other gap. Later sessions are joined at number 1.
    At(Sequence),
}

/// The moment at which another session is adopted. Datagrams of a session that was left never count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// Only by [`Feed::adopt`](super::Feed::adopt).
    Never,
    /// When the current one has ended, or is silent on all lines.
    AfterEnd,
    /// With its first datagram.
    AtOnce,
}

/// The rules of a feed: those of the venue, and those of the desk. The defaults suit MoldUDP64 on two lines in one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The first message to deliver. Default: number 1, since books need all of them.
    pub join: Join,
    /// When another session is adopted. Default: when the current one is over, so that a stray datagram changes nothing.
    pub adoption: Adoption,
    /// How long a missing message is waited for before it is asked for, ns. Default 1 ms: lines of one site lie tens of us apart, and
    /// a datagram by the kernel's twin may wait for its thread.
    pub gap_wait_ns: u64,
    /// Re-request servers, asked in turn. Default 0: none.
    pub servers: u8,
    /// The most messages in one request. Default 65,534, the most that a MoldUDP64 packet can have; Cboe's servers take 100.
    pub request_count_max: u32,
    /// A gap of more messages than this is left to the snapshot, if there is one: many requests take longer, and servers
    /// limit them. Default 10,000: some 250 requests of one datagram each.
    pub request_span_max: u64,
    /// How long an answer is waited for, ns. Default 20 ms: servers of one site answer in less than one, Cboe's wait for 2 ms by themselves.
    pub request_timeout_ns: u64,
    /// Requests without any progress before requests are given up. Default 4.
    pub request_tries: u32,
    /// After a part of an answer, how long the rest is waited for before it is asked for, ns. Default 0: a MoldUDP64 server answers with one
    /// datagram. Set it where an answer comes in several (Cboe's gap groups).
    pub rest_wait_ns: u64,
    /// There is a source of snapshots. Default: no. Without one, what cannot be recovered is skipped and told.
    pub has_snapshot: bool,
    /// A snapshot that makes no progress for so long has failed, ns. Default 5 s: a login takes one round trip, a loop seconds.
    pub snapshot_timeout_ns: u64,
    /// The least time from one attempt to the next, ns. Default 1 s, so that a server that refuses is not flooded.
    pub snapshot_retry_ns: u64,
    /// A gap that stays open for so long is told as stale, though it may still be recovered, ns. Default 100 ms.
    pub stale_after_ns: u64,
    /// A live line that brings nothing for so long is silent, ns. Default 3.5 s: three heartbeats of one second are missing.
    pub line_silence_ns: u64,
    /// A feed whose lines (but those of answers) all bring nothing for so long, or nothing that is not older than what was delivered, is
    /// stale, ns. Default 3.5 s.
    pub silence_ns: u64,
}

const MS: u64 = 1_000_000;

impl Default for Policy {
    fn default() -> Self {
        Self {
            join: Join::Beginning,
            adoption: Adoption::AfterEnd,
            gap_wait_ns: MS,
            servers: 0,
            request_count_max: 65_534,
            request_span_max: 10_000,
            request_timeout_ns: 20 * MS,
            request_tries: 4,
            rest_wait_ns: 0,
            has_snapshot: false,
            snapshot_timeout_ns: 5_000 * MS,
            snapshot_retry_ns: 1_000 * MS,
            stale_after_ns: 100 * MS,
            line_silence_ns: 3_500 * MS,
            silence_ns: 3_500 * MS,
        }
    }
}

impl Policy {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let positive = [
            ("request_count_max", u64::from(self.request_count_max)),
            ("request_timeout_ns", self.request_timeout_ns),
            ("request_tries", u64::from(self.request_tries)),
            ("snapshot_timeout_ns", self.snapshot_timeout_ns),
            ("snapshot_retry_ns", self.snapshot_retry_ns),
            ("line_silence_ns", self.line_silence_ns),
            ("silence_ns", self.silence_ns),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => {
                Err(Problem::usage("cannot make a feed", format!("{name} is 0")).next("set it to 1 or more"))
            }
            None => Ok(()),
        }
    }
}
