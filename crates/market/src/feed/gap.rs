//! A gap: waiting for another line, requests, giving up.

use super::{Action, Feed, Handler, Phase, State, Why};
use crate::framing::Framing;
use crate::units::{Nanos, Sequence};

/// Missing messages that are looked at to find the end of a gap. A longer one is counted in pieces.
const GAP_LOOK_MAX: u64 = 65_536;

/// What has come of a gap since it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    None,
    /// A live line has brought a part of it.
    Moved,
    /// An answer has.
    Answered,
}

/// The messages that are missing first.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// The first one, when the gap was looked at last.
    first: u64,
    /// One past the last one.
    end: u64,
    /// When the first message behind it came.
    since: Nanos,
    /// An answer to a request has brought a part of it.
    was_answered: bool,
}

impl<F: Framing> Feed<F> {
    pub(super) fn is_gap_open(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Requesting { .. })
    }

    /// An answer to a request came: whether it has brought a part of the gap.
    pub(super) fn note_answer(&mut self) {
        self.gap.was_answered |= self.is_gap_open() && self.arbiter.next().0 > self.gap.first;
    }

    /// Nothing is missing.
    pub(super) fn synced(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.close_gap(now);
        let next = self.arbiter.next();
        match self.ended {
            Some(end) if next == end && self.phase != Phase::Ended => {
                self.phase = Phase::Ended;
                self.tell_state(now, handler);
                handler.action(Action::SessionEnded { next });
            }
            Some(end) if next == end => {}
            Some(_) => {
                // What comes behind the end of a session shows that it was none.
                self.phase = Phase::Synced;
                self.end_is_refuted(now, handler);
            }
            None => self.phase = Phase::Synced,
        }
    }

    /// A message is missing.
    pub(super) fn follow_gap(&mut self, now: Nanos, is_answer: bool, handler: &mut impl Handler<F::Session>) {
        let next = self.arbiter.next().0;
        if !self.is_gap_open() || next >= self.gap.end {
            return self.open_gap(now);
        }
        let has_moved = next > self.gap.first;
        self.gap.first = next;
        if let (true, Phase::Requesting { end, tries, progress, until }) = (has_moved, self.phase) {
            let rest_wait_ns = self.policy.rest_wait_ns;
            if next >= end || is_answer && rest_wait_ns == 0 {
                return self.ask(0, now, handler);
            }
            let (progress, until) = match is_answer {
                true => (Progress::Answered, now.after(rest_wait_ns)),
                false => (progress.max(Progress::Moved), until),
            };
            self.phase = Phase::Requesting { end, tries, progress, until };
        }
    }

    /// The first gap, after the one before is filled.
    fn open_gap(&mut self, now: Nanos) {
        self.close_gap(now);
        let Some((first, count)) = self.arbiter.missing(GAP_LOOK_MAX) else { return };
        let end = first.0 + count;
        let since = self.arbiter.arrival(Sequence(end)).map_or(now, |arrived| arrived.min(now));
        if matches!(self.phase, Phase::Synced | Phase::Ended) {
            self.behind_since = since;
        }
        self.gap = Gap { first: first.0, end, since, was_answered: false };
        self.counters.gaps += 1;
        self.phase = Phase::Waiting { until: since.after(self.policy.gap_wait_ns) };
    }

    /// The gap is filled, if one was open.
    fn close_gap(&mut self, now: Nanos) {
        if self.is_gap_open() {
            self.counters.gap_duration.record(now.since(self.gap.since));
            match self.gap.was_answered {
                true => self.counters.filled_by_request += 1,
                false => self.counters.filled_by_line += 1,
            }
        }
    }

    /// Asks for what is missing first, unless so many requests were in vain.
    pub(super) fn ask(&mut self, tries: u32, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let span = self.arbiter.highest().0 - self.arbiter.next().0;
        let is_long = self.policy.has_snapshot && span > self.policy.request_span_max;
        let missing = self.arbiter.missing(u64::from(self.policy.request_count_max));
        let (Some((first, count)), Some(session)) = (missing, self.session) else {
            return self.settle(now, false, handler);
        };
        if self.policy.servers == 0 || is_long || tries >= self.policy.request_tries {
            return self.give_up(now, handler);
        }
        self.counters.requests += 1;
        let until = now.after(self.policy.request_timeout_ns);
        self.phase = Phase::Requesting { end: first.0 + count, tries, progress: Progress::None, until };
        handler.action(Action::Request { server: self.server, session, first, count: count as u32 });
    }

    /// The server did not answer, or not in time: the next one is asked, after so many tries in vain.
    pub(super) fn ask_another(&mut self, tries: u32, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.counters.requests_failed += 1;
        self.server = (self.server + 1) % self.policy.servers.max(1);
        self.ask(tries, now, handler);
    }

    /// A server refuses, or cannot be reached. Another one is asked at once.
    pub fn request_refused(&mut self, server: u8, now: Nanos, handler: &mut impl Handler<F::Session>) {
        if let Phase::Requesting { tries, .. } = self.phase
            && server == self.server
        {
            self.ask_another(tries + 1, now, handler);
            self.tell_state(now, handler);
        }
    }

    /// More came behind a gap than can be held.
    pub(super) fn overflow(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        match self.phase {
            Phase::Pausing { .. } | Phase::Snapshot { .. } => {}
            _ if self.takes_snapshot() => self.want_snapshot(Why::Overflow, now, handler),
            _ if self.policy.servers > 0 => {}
            _ => self.skip(now, handler),
        }
    }

    /// Requests do not help.
    fn give_up(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        match self.takes_snapshot() {
            true => self.want_snapshot(Why::Gap, now, handler),
            false => {
                self.skip(now, handler);
                self.settle(now, false, handler);
            }
        }
    }

    /// Goes on behind the first gap, without its messages.
    fn skip(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        if self.is_gap_open() {
            self.counters.gap_duration.record(now.since(self.gap.since));
        } else {
            self.counters.gaps += 1;
        }
        self.has_lost = true;
        self.counters.given_up += 1;
        self.phase = Phase::Synced;
        self.tell_state(now, handler);
        if let Some((first, count)) = self.arbiter.give_up(Sequence(u64::MAX)) {
            self.note_leap(first.0);
            self.tell_skipped(first, count, handler);
        }
        self.arbiter.drain(&mut |message| handler.message(message));
    }

    pub(super) fn tell_skipped(&mut self, first: Sequence, count: u64, handler: &mut impl Handler<F::Session>) {
        debug_assert!(matches!(self.state, State::Stale { .. }), "what is skipped is told while the feed is stale");
        self.counters.skipped = self.counters.skipped.saturating_add(count);
        handler.action(Action::Skipped { first, count });
    }
}
