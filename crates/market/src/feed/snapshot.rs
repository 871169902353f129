//! Snapshots: what comes meanwhile is collected, and applied from the snapshot's sequence on.

use super::{Action, Feed, Handler, Phase, Why};
use crate::framing::Framing;
use crate::units::{Nanos, Sequence};
use std::fmt::{self, Display, Formatter};

/// A reason why a snapshot is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The attempt is not, or no longer, open.
    NotOpen,
    /// It is older than what was delivered already.
    TooOld,
    /// It is further ahead of all lines than they can be behind.
    TooNew,
}

impl Display for Refused {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotOpen => "the attempt is not open",
            Self::TooOld => "the snapshot is older than what was delivered",
            Self::TooNew => "the snapshot is too far ahead of all lines",
        })
    }
}

impl std::error::Error for Refused {}

impl<F: Framing> Feed<F> {
    /// A snapshot can help: there is a source, and the session goes on.
    pub(super) fn takes_snapshot(&self) -> bool {
        self.policy.has_snapshot && self.ended.is_none()
    }

    /// Takes a snapshot though nothing is missing, as the caller's books are wrong. False if that cannot be done: there is no source, the feed
    /// has not joined or its session is over, or a snapshot is under way.
    pub fn take_snapshot(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) -> bool {
        let can_begin = self.phase == Phase::Synced || self.is_gap_open();
        if can_begin && self.takes_snapshot() {
            self.want_snapshot(Why::Gap, now, handler);
        }
        can_begin && self.takes_snapshot()
    }

    /// From now on only a snapshot makes the feed live.
    pub(super) fn want_snapshot(&mut self, why: Why, now: Nanos, handler: &mut impl Handler<F::Session>) {
        if !self.is_gap_open() {
            self.behind_since = now;
            self.counters.gaps += 1;
        }
        self.snapshot_why = why;
        self.arbiter.collect();
        self.phase = Phase::Pausing { until: self.snapshot_at(now) };
        if self.phase == (Phase::Pausing { until: now }) {
            self.open_snapshot(now, handler);
        }
        self.tell_state(now, handler);
    }

    /// The earliest time for another attempt.
    fn snapshot_at(&self, now: Nanos) -> Nanos {
        self.snapshot_opened.map_or(now, |opened| opened.after(self.policy.snapshot_retry_ns).max(now))
    }

    pub(super) fn open_snapshot(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let Some(session) = self.session else { return };
        self.tell_state(now, handler);
        self.attempt = self.attempt.wrapping_add(1);
        self.counters.snapshots += 1;
        self.snapshot_opened = Some(now);
        self.phase = Phase::Snapshot { until: now.after(self.policy.snapshot_timeout_ns) };
        handler.action(Action::OpenSnapshot { attempt: self.attempt, session, from: self.snapshot_from() });
    }

    /// A snapshot that is continued at this message or a later one leaves nothing out, as far as is known now.
    pub fn snapshot_from(&self) -> Sequence {
        self.arbiter.continuous_from()
    }

    fn has_open(&self, attempt: u32) -> bool {
        matches!(self.phase, Phase::Snapshot { .. }) && attempt == self.attempt
    }

    /// A message of a snapshot; passed on to the handler if its attempt is open.
    pub fn snapshot_message(
        &mut self,
        attempt: u32,
        now: Nanos,
        bytes: &[u8],
        handler: &mut impl Handler<F::Session>,
    ) -> Result<(), Refused> {
        if !self.has_open(attempt) {
            return Err(Refused::NotOpen);
        }
        self.phase = Phase::Snapshot { until: now.after(self.policy.snapshot_timeout_ns) };
        handler.snapshot(bytes);
        Ok(())
    }

    /// A snapshot is complete; `next` is the first live message that is to be applied to it. What was held before that is dropped, the rest
    /// delivered.
    ///
    /// # Errors
    /// The snapshot cannot be used; the attempt has failed, and the next one follows.
    pub fn snapshot_done(
        &mut self,
        attempt: u32,
        now: Nanos,
        next: Sequence,
        handler: &mut impl Handler<F::Session>,
    ) -> Result<(), Refused> {
        if !self.has_open(attempt) {
            return Err(Refused::NotOpen);
        }
        let (before, highest) = (self.arbiter.next(), self.arbiter.highest());
        let refused = match next {
            _ if next < before => Some(Refused::TooOld),
            _ if next.0 > highest.0.saturating_add(self.arbiter.span()) => Some(Refused::TooNew),
            _ => None,
        };
        if let Some(refused) = refused {
            self.fail_snapshot(now, handler);
            self.tell_state(now, handler);
            return Err(refused);
        }
        if next > before {
            self.counters.replaced = self.counters.replaced.saturating_add(next.0 - before.0);
            self.tell_skipped(before, next.0 - before.0, handler);
        }
        self.counters.ended_by_snapshot += 1;
        self.counters.gap_duration.record(now.since(self.behind_since));
        self.has_lost = false;
        self.resume(next, now, handler);
        Ok(())
    }

    /// The source of a snapshot refuses, is gone, or cannot be reached.
    pub fn snapshot_failed(&mut self, attempt: u32, now: Nanos, handler: &mut impl Handler<F::Session>) {
        if self.has_open(attempt) {
            self.fail_snapshot(now, handler);
            self.tell_state(now, handler);
        }
    }

    pub(super) fn fail_snapshot(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.counters.snapshots_failed += 1;
        self.close_snapshot(handler);
        self.phase = Phase::Pausing { until: self.snapshot_at(now) };
        if !self.takes_snapshot() {
            // The session is over: what is held is all that will come.
            self.has_lost = true;
            self.resume(self.arbiter.next(), now, handler);
        }
    }

    pub(super) fn close_snapshot(&mut self, handler: &mut impl Handler<F::Session>) {
        if let Phase::Snapshot { .. } = self.phase {
            handler.action(Action::CloseSnapshot { attempt: self.attempt });
        }
    }

    /// Delivery goes on at `next`.
    fn resume(&mut self, next: Sequence, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let is_outrun = self.arbiter.resume(next);
        self.counters.snapshots_outrun += u64::from(is_outrun);
        if let Some(end) = self.ended {
            self.arbiter.expect(end);
        }
        self.phase = Phase::Synced;
        self.arbiter.drain(&mut |message| handler.message(message));
        self.settle(now, false, handler);
    }
}
