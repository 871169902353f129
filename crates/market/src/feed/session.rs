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
        self.leave(now, handler);
        (self.session, self.expected) = (Some(head.session), None);
        let next = match self.policy.join {
            Join::FirstSeen => head.first,
            Join::Beginning => Sequence(1),
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
