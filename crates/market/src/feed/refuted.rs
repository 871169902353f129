//! Numbers far ahead that were told and turn out to be wrong: by a damaged datagram, another sender, or a mistake of the venue.
//!
//! Without a source of snapshots a feed that was told of messages far ahead skips to them. If that was wrong, all that the lines bring is older
//! than what is waited for, and would be dropped for the rest of the day. So the lines have the last word: once enough of their datagrams
//! bring messages that were skipped, one behind the other, and none brings what was told, the feed begins again where they are.

use super::{Action, Feed, Handler, Phase, Why};
use crate::arbiter::LineKind;
use crate::framing::{Body, Framing, Head};
use crate::units::{LineId, Nanos, Sequence};

/// Datagrams that refute what was told: more than one line lies behind another of the same site.
const REFUTED_BY: u32 = 32;

/// A skip over more messages than can be held, while nothing behind it has come.
#[derive(Debug)]
pub(super) struct Leap {
    first: u64,
    next: u64,
    /// One past the last of the messages within that have come since, and their datagrams.
    seen: u64,
    datagrams: u32,
}

impl<F: Framing> Feed<F> {
    /// Messages from `first` on were skipped.
    pub(super) fn note_leap(&mut self, first: u64) {
        let next = self.arbiter.next().0;
        if next - first > self.arbiter.span() {
            self.leap = Some(Leap { first, next, seen: first, datagrams: 0 });
        }
    }

    /// A datagram came that was not simply the next: it may show that the last skip was wrong.
    #[cold]
    pub(super) fn doubt_leap(
        &mut self,
        line: LineId,
        head: &Head<F::Session>,
        now: Nanos,
        handler: &mut impl Handler<F::Session>,
    ) {
        let (Some(leap), Body::Data { count }) = (&mut self.leap, head.body) else { return };
        if self.arbiter.next().0 != leap.next {
            self.leap = None;
            return;
        }
        let range = head.first.0..head.first.0.saturating_add(u64::from(count));
        let is_within = range.start >= leap.seen.max(leap.first) && range.end <= leap.next;
        if !is_within || self.silence.kind(line) == Some(LineKind::Recovery) {
            return;
        }
        leap.seen = range.end;
        leap.datagrams += 1;
        if leap.datagrams == REFUTED_BY {
            self.begin_again(Sequence(range.end), now, handler);
        }
    }

    fn begin_again(&mut self, next: Sequence, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let Some(session) = self.session else { return };
        (self.leap, self.ended, self.has_lost) = (None, None, true);
        self.counters.refuted += 1;
        self.arbiter.restart(next);
        self.phase = Phase::Synced;
        self.tell_state(now, handler);
        handler.action(Action::SessionAdopted { session, next });
    }

    /// What was told of the end of the session is refuted: messages that were given up because of it are got by a snapshot.
    pub(super) fn end_is_refuted(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.ended = None;
        if self.has_lost && self.takes_snapshot() {
            self.want_snapshot(Why::Gap, now, handler);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A, B, Bench, MS, Told, with_servers, with_snapshot};
    use super::super::{Policy, State};
    use super::*;

    fn is_stale(bench: &Bench) -> bool {
        matches!(bench.feed.state(), State::Stale { why: Why::Gap, .. })
    }

    /// Lets the feed do what it wants for a second.
    fn rest(bench: &mut Bench) {
        (0..1_000).for_each(|_| bench.wait(MS));
    }

    #[test]
    fn numbers_far_ahead_that_nobody_brings_do_not_end_the_feed() {
        for policy in [Policy::default(), with_servers()] {
            for far in [1_000, u64::MAX - 1, u64::MAX] {
                let mut bench = Bench::live(policy);
                (0..2).for_each(|_| bench.heartbeat(A, far));
                rest(&mut bench);
                assert!(is_stale(&bench) && bench.feed.next() == Sequence(far), "{:?}", bench.feed.next());
                bench.told();
                // Both lines bring the same; what was skipped is counted once.
                for sequence in 2..2 + u64::from(REFUTED_BY) {
                    [A, B].into_iter().for_each(|line| bench.data(line, sequence..sequence + 1));
                }
                let next = 2 + u64::from(REFUTED_BY);
                let again =
                    Told::Do(Action::SessionAdopted { session: super::super::tests::ONE, next: Sequence(next) });
                assert_eq!(bench.told(), [again]);
                bench.data(B, next..next + 2);
                assert_eq!(bench.told(), [Told::Message(next), Told::Message(next + 1)]);
                assert!(is_stale(&bench), "what was skipped is missing still");
                assert_eq!(bench.feed.counters().refuted, 1);
            }
        }
    }

    #[test]
    fn an_outage_that_was_skipped_is_not_taken_for_a_lie() {
        let mut bench = Bench::live(Policy::default());
        (0..2).for_each(|_| bench.data(A, 1_000..1_002));
        bench.data(A, 1_002..1_003);
        assert_eq!(bench.feed.next(), Sequence(1_003));
        (2..900).for_each(|sequence| bench.data(B, sequence..sequence + 1));
        assert_eq!((bench.feed.next(), bench.feed.counters().refuted), (Sequence(1_003), 0));
    }

    #[test]
    fn an_end_that_was_none_costs_a_snapshot_and_not_the_day() {
        let mut bench = Bench::live(with_snapshot());
        bench.end(A, 5);
        rest(&mut bench);
        assert!(bench.feed.is_over());
        (2..7).for_each(|sequence| bench.data(B, sequence..sequence + 1));
        bench.wait(MS);
        let told = bench.told();
        assert!(told.iter().any(|told| matches!(told, Told::Do(Action::OpenSnapshot { .. }))), "{told:?}");
        let attempt = bench.feed.counters().snapshots as u32;
        bench.feed.snapshot_done(attempt, Nanos(bench.now), Sequence(7), &mut bench.log).unwrap();
        assert_eq!(bench.feed.state(), State::Live);
    }
}
