//! The session: join, change, end.

use super::{Action, Adoption, Feed, Handler, Join, Phase, State, Why};
use crate::arbiter::{LineKind, Placed};
use crate::framing::{Body, Framing, Head};
use crate::units::{LineId, Nanos, Sequence};

/// Sessions that were left and are remembered, so that their late datagrams are not taken for a new session.
const FORMER_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Former<S> {
    sessions: [Option<S>; FORMER_MAX],
    next: usize,
}

impl<S: Copy + Eq> Default for Former<S> {
    fn default() -> Self {
        Self { sessions: [None; FORMER_MAX], next: 0 }
    }
}

impl<S: Copy + Eq> Former<S> {
    fn add(&mut self, session: S) {
        self.sessions[self.next % FORMER_MAX] = Some(session);
        self.next = (self.next + 1) % FORMER_MAX;
    }

    fn remove(&mut self, session: S) {
        self.sessions.iter_mut().filter(|one| **one == Some(session)).for_each(|one| *one = None);
    }

    fn is_empty(&self) -> bool {
        self.sessions.iter().all(Option::is_none)
    }

    fn has(&self, session: S) -> bool {
        self.sessions.contains(&Some(session))
    }
}

impl<F: Framing> Feed<F> {
    /// A datagram of another session than the current one: whether it belongs to the feed, which may begin with it.
    #[cold]
    pub(super) fn takes_session(
        &mut self,
        line: LineId,
        head: &Head<F::Session>,
        datagram: &[u8],
        now: Nanos,
        handler: &mut impl Handler<F::Session>,
    ) -> bool {
        let Some(kind) = self.silence.kind(line) else {
            self.counters.no_such_line += 1;
            return false;
        };
        if matches!(head.body, Body::Data { .. }) && F::messages(datagram, head, 0).is_err() {
            self.arbiter.malformed(line);
            return false;
        }
        if kind != LineKind::Recovery && self.may_adopt(head.session) {
            self.begin(head, now, handler);
            return true;
        }
        self.counters.other_session += 1;
        if self.announced != Some(head.session) && !self.former.has(head.session) {
            self.announced = Some(head.session);
            handler.action(Action::OtherSession { line, session: head.session });
        }
        false
    }

    fn may_adopt(&self, session: F::Session) -> bool {
        if self.former.has(session) {
            return false;
        }
        match (self.session, self.expected, self.policy.adoption) {
            (None, Some(expected), _) => session == expected,
            (None, None, _) | (_, _, Adoption::AtOnce) => true,
            (_, _, Adoption::AfterEnd) => self.phase == Phase::Ended || self.silence.is_all_silent(),
            (_, _, Adoption::Never) => false,
        }
    }

    /// Leaves the current session, if there is one, and waits for this one.
    pub fn adopt(&mut self, session: F::Session, now: Nanos, handler: &mut impl Handler<F::Session>) {
        if self.session == Some(session) {
            return;
        }
        self.leave(now, handler);
        self.former.remove(session);
        self.expected = Some(session);
    }

    fn begin(&mut self, head: &Head<F::Session>, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let is_first = self.session.is_none() && self.former.is_empty();
        self.leave(now, handler);
        (self.session, self.expected) = (Some(head.session), None);
        let next = match self.policy.join {
            Join::FirstSeen => head.first,
            Join::At(next) if is_first => next,
            Join::Beginning | Join::At(_) => Sequence(1),
        };
        self.arbiter.restart(next);
        handler.action(Action::SessionAdopted { session: head.session, next });
    }

    /// Leaves the current session. What is missing of it is skipped, and what is held behind that.
    fn leave(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let Some(session) = self.session.take() else { return };
        self.close_snapshot(handler);
        self.phase = Phase::Ended;
        self.tell_state(now, handler);
        let (next, highest) = (self.arbiter.next(), self.arbiter.highest());
        if highest > next {
            self.tell_skipped(next, highest.0 - next.0, handler);
        }
        self.former.add(session);
        (self.announced, self.ended, self.leap, self.has_lost) = (None, None, None, false);
        self.phase = Phase::Joining;
        self.arbiter.restart(highest);
    }

    /// A datagram tells that the session is over before `end`.
    pub(super) fn end_of_session(&mut self, line: LineId, arrived: Nanos, end: Sequence) -> Placed {
        let placed = self.arbiter.heartbeat(line, arrived, end);
        if !matches!(placed, Placed::Implausible | Placed::NoSuchLine) && end >= self.arbiter.next() {
            self.ended = Some(end);
        }
        placed
    }

    /// Whether the feed is stale for good: the session is over.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Stale { why: Why::SessionEnded, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::super::*;
    use crate::mold64::PacketWriter;

    #[test]
    fn another_session_is_told_once_and_adopted_when_the_current_one_is_over() {
        let mut bench = Bench::live(Policy::default());
        bench.packet(B, TWO, 1..2);
        bench.packet(B, TWO, 2..3);
        let other = Told::Do(Action::OtherSession { line: B, session: TWO });
        assert_eq!(bench.told(), [other]);
        bench.end(A, 2);
        let ended = Told::Do(Action::SessionEnded { next: Sequence(2) });
        assert_eq!(bench.told(), [bench.since(0, Why::SessionEnded), ended]);
        assert!(bench.feed.is_over());
        bench.packet(B, TWO, 1..2);
        let adopted = Told::Do(Action::SessionAdopted { session: TWO, next: Sequence(1) });
        assert_eq!(bench.told(), [adopted, Told::Message(1), LIVE]);
        bench.data(A, 2..3);
        bench.end(A, 3);
        assert_eq!(bench.told(), [], "the session that was left disturbs nothing");
        assert_eq!(bench.feed.counters().other_session, 4);
    }

    #[test]
    fn a_datagram_that_cannot_be_read_is_no_session() {
        let mut bench = Bench::live(Policy { adoption: Adoption::AtOnce, ..Policy::default() });
        let mut buffer = [0; 1400];
        let mut writer = PacketWriter::new(&mut buffer, TWO, Sequence(1)).unwrap();
        assert!(writer.push(b"cut off"));
        let datagram = writer.finish();
        bench.feed.datagram(A, Nanos(0), Nanos(0), &datagram[..datagram.len() - 1], &mut bench.log);
        assert_eq!((bench.told(), bench.feed.session()), (vec![], Some(ONE)));
        assert_eq!(bench.feed.line(A).unwrap().malformed, 1);
    }

    #[test]
    fn a_session_that_was_left_is_not_adopted_again() {
        let mut bench = Bench::live(Policy { adoption: Adoption::AtOnce, ..Policy::default() });
        bench.packet(ANSWERS, TWO, 1..2);
        assert_eq!(bench.told(), [Told::Do(Action::OtherSession { line: ANSWERS, session: TWO })], "not by an answer");
        bench.packet(A, TWO, 1..2);
        assert_eq!(bench.feed.session(), Some(TWO));
        bench.told();
        bench.data(B, 2..3);
        assert_eq!((bench.told(), bench.feed.session()), (vec![], Some(TWO)));
    }

    #[test]
    fn a_session_is_adopted_by_the_caller_whatever_the_policy() {
        let mut bench = Bench::live(Policy { adoption: Adoption::Never, ..Policy::default() });
        bench.data(A, 4..5);
        bench.told();
        bench.feed.adopt(TWO, Nanos(0), &mut bench.log);
        assert_eq!(bench.told(), [bench.since(0, Why::SessionEnded), skipped(2, 3)]);
        bench.data(A, 2..3);
        assert_eq!(bench.told(), []);
        bench.packet(A, TWO, 1..2);
        let adopted = Told::Do(Action::SessionAdopted { session: TWO, next: Sequence(1) });
        assert_eq!(bench.told(), [adopted, Told::Message(1), LIVE]);
    }

    #[test]
    fn the_end_of_a_session_waits_for_what_is_missing() {
        let mut bench = Bench::live(with_servers());
        bench.end(A, 3);
        bench.wait(MS);
        assert_eq!(bench.told(), [recovering(0), request(0, 2, 1)]);
        bench.data(ANSWERS, 2..3);
        let ended = Told::Do(Action::SessionEnded { next: Sequence(3) });
        assert_eq!(bench.told(), [Told::Message(2), bench.since(1, Why::SessionEnded), ended]);
        bench.end(B, 3);
        bench.end(A, 2);
        assert_eq!(bench.told(), [], "it is repeated for a while");
    }

    #[test]
    fn a_session_that_ends_during_a_snapshot_gives_up_with_it() {
        let mut bench = Bench::live(with_snapshot());
        bench.data(A, 3..5);
        bench.wait(MS);
        bench.end(A, 6);
        bench.told();
        bench.feed.snapshot_failed(1, Nanos(bench.now), &mut bench.log);
        (0..2).for_each(|_| bench.wait(MS));
        let told = bench.told();
        assert!(
            [skipped(2, 1), Told::Message(3), Told::Message(4), skipped(5, 1)].iter().all(|one| told.contains(one)),
            "{told:?}"
        );
        assert_eq!(told.last(), Some(&Told::Do(Action::SessionEnded { next: Sequence(6) })));
    }
}
