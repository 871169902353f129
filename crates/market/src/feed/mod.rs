//! One channel of market data: lines in, messages in order out, and what is to be done when some are missing.
//!
//! ```text
//!               datagram                              Handler::message
//!  A  ────────┐    │       ┌───────────┐ in order ────────────────────────> books
//!  B  ────────┼────┴──────>│  arbiter  │
//!  answers ───┘            └───────────┘
//!                  gap │          ^ held back
//!                      v          │
//!        wait ──> request ──> snapshot, or skip       Handler::action ────> sockets
//!      for a line   again, in turn, the rest          Request, OpenSnapshot, State ...
//! ```
//!
//! Sources of missing messages are actions, so that one state machine has all shapes: a unicast re-request (MoldUDP64, IEX), a
//! request by TCP with the answer by multicast (Cboe), a snapshot that loops (CME, EOBI) or comes on demand (GLIMPSE, Cboe's spin).
//!
//! Who drives it: [`Feed::datagram`] for all that comes, [`Feed::poll`] at [`Feed::next_poll`] or more often. No call waits. The handler is
//! called in the order in which things happen.
//!
//! | concern | file |
//! |---|---|
//! | a datagram, time, the state | `mod.rs` |
//! | a gap: waiting, requests, giving up | `gap.rs` |
//! | snapshots | `snapshot.rs` |
//! | numbers far ahead that were wrong | `refuted.rs` |
//! | the session: join, change, end | `session.rs` |
//! | lines that are silent | `silence.rs` |
//! | the rules | `policy.rs` |
//! | what is told | `action.rs`, `counters.rs` |

mod action;
mod counters;
mod gap;
mod policy;
mod refuted;
mod session;
mod silence;
mod snapshot;

pub use action::{Action, Handler, State, Why};
pub use counters::Counters;
pub use policy::{Adoption, Join, Policy};
pub use snapshot::Refused;

use crate::arbiter::{self, Arbiter, Delivery, Limits, LineKind, LineStatistics, Placed};
use crate::framing::{Body, Framing, Head};
use crate::units::{LineId, Nanos, Sequence};
use gap::{Gap, Progress};
use refuted::Leap;
use session::Former;
use sidestep_sys::Problem;
use silence::Silence;

/// Deadlines that one call of [`Feed::poll`] handles; what is left is due at once.
const POLL_STEPS_MAX: usize = 64;

/// The state of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No datagram of a session has come.
    Joining,
    /// Nothing is missing.
    Synced,
    /// Another line may bring what is missing.
    Waiting { until: Nanos },
    /// A server was asked for the messages before `end`.
    Requesting { end: u64, tries: u32, progress: Progress, until: Nanos },
    /// A snapshot will be opened.
    Pausing { until: Nanos },
    /// A snapshot is open.
    Snapshot { until: Nanos },
    /// The session is over.
    Ended,
}

/// One channel of market data.
#[derive(Debug)]
pub struct Feed<F: Framing> {
    policy: Policy,
    arbiter: Arbiter,
    phase: Phase,
    state: State,
    session: Option<F::Session>,
    /// The session that is waited for.
    expected: Option<F::Session>,
    former: Former<F::Session>,
    /// The session of the last [`Action::OtherSession`].
    announced: Option<F::Session>,
    /// One past the last message of the session, once that is told.
    ended: Option<Sequence>,
    gap: Gap,
    /// Since when a message has been missing.
    behind_since: Nanos,
    /// Messages were skipped, and no snapshot has replaced them.
    has_lost: bool,
    /// The last skip, while it may have been wrong.
    leap: Option<Leap>,
    /// The server that is asked next.
    server: u8,
    attempt: u32,
    /// When the last snapshot was opened, and the reason.
    snapshot_opened: Option<Nanos>,
    snapshot_why: Why,
    silence: Silence,
    counters: Counters,
}

impl<F: Framing> Feed<F> {
    /// A feed of these lines ([`LineId`] is the index) which has not joined a session yet. All memory is allocated here.
    ///
    /// # Errors
    /// Of usage: no live line, too many lines, limits or rules out of range.
    pub fn new(lines: &[LineKind], limits: Limits, policy: Policy, now: Nanos) -> Result<Self, Problem> {
        policy.check()?;
        if !lines.contains(&LineKind::Live) {
            return Err(
                Problem::usage("cannot make a feed", "it has no live line").next("add a line of LineKind::Live")
            );
        }
        Ok(Self {
            policy,
            arbiter: Arbiter::new(lines, limits, Sequence(1))?,
            phase: Phase::Joining,
            state: State::Stale { since: now, why: Why::NotJoined },
            session: None,
            expected: None,
            former: Former::default(),
            announced: None,
            ended: None,
            gap: Gap::default(),
            behind_since: now,
            has_lost: false,
            leap: None,
            server: 0,
            attempt: 0,
            snapshot_opened: None,
            snapshot_why: Why::Gap,
            silence: Silence::new(lines, now, &policy),
            counters: Counters::default(),
        })
    }

    /// A datagram that came by `line` at `arrived`, read at `now`; both by one clock. What cannot be read is counted and changes
    /// nothing.
    #[inline]
    pub fn datagram(
        &mut self,
        line: LineId,
        now: Nanos,
        arrived: Nanos,
        datagram: &[u8],
        handler: &mut impl Handler<F::Session>,
    ) {
        let Ok(head) = F::head(datagram) else { return self.arbiter.malformed(line) };
        if self.session != Some(head.session) && !self.takes_session(line, &head, datagram, now, handler) {
            return;
        }
        let placed = match head.body {
            Body::Data { count } => match self.data(line, arrived, &head, count, datagram, handler) {
                Some(placed) => placed,
                None => return self.arbiter.malformed(line),
            },
            Body::Heartbeat => self.arbiter.heartbeat(line, arrived, head.first),
            Body::EndOfSession => self.end_of_session(line, arrived, head.first),
        };
        let is_news = self.is_news(placed, &head);
        let was_silent = self.silence.heard(line, now, is_news);
        let is_usual = matches!(placed, Placed::Delivered | Placed::Duplicate);
        if !is_usual || was_silent || self.state != State::Live || self.ended.is_some() {
            self.follow(line, placed, now, handler);
            self.doubt_leap(line, &head, now, handler);
        }
    }

    /// A datagram shows that the feed goes on: it brings something, or is the copy of what was delivered last. One that only tells older
    /// numbers does not, as of a sender that has begun anew under the same session.
    #[inline]
    fn is_news(&self, placed: Placed, head: &Head<F::Session>) -> bool {
        let count = if let Body::Data { count } = head.body { count } else { 0 };
        match placed {
            Placed::Duplicate => head.first.0.saturating_add(u64::from(count)) >= self.arbiter.next().0,
            Placed::Delivered | Placed::Held | Placed::Overflow => true,
            Placed::Implausible | Placed::NoSuchLine => false,
        }
    }

    /// The messages of a datagram. Nothing if it is malformed, which changes nothing.
    #[inline]
    fn data(
        &mut self,
        line: LineId,
        arrived: Nanos,
        head: &Head<F::Session>,
        count: u32,
        datagram: &[u8],
        handler: &mut impl Handler<F::Session>,
    ) -> Option<Placed> {
        let range = arbiter::range(head.first, count as usize)?;
        if range.end <= self.arbiter.next().0 {
            return Some(self.arbiter.duplicate(line, arrived, &range));
        }
        let turn = self.arbiter.turn(&range);
        let messages = F::messages(datagram, head, turn.unwrap_or(0) as u32).ok()?;
        let Some(turn) = turn.and_then(|_| self.arbiter.take_turn(line, arrived, &range)) else {
            let deliver = &mut |message: Delivery<'_>| handler.message(message);
            return Some(self.arbiter.out_of_turn(line, arrived, &range, messages, deliver));
        };
        turn.deliver(arrived, messages, &mut |message| handler.message(message));
        Some(Placed::Delivered)
    }

    /// What follows from a datagram that was not simply the next, or came while the feed was not simply live.
    #[cold]
    fn follow(&mut self, line: LineId, placed: Placed, now: Nanos, handler: &mut impl Handler<F::Session>) {
        match placed {
            Placed::NoSuchLine => {
                self.counters.no_such_line += 1;
                return;
            }
            Placed::Implausible => return,
            Placed::Overflow => self.counters.overflows += 1,
            _ => {}
        }
        if self.phase == Phase::Joining {
            self.phase = Phase::Synced;
        }
        if self.silence.ends(line, now, &self.policy) {
            handler.action(Action::LineBack { line });
        }
        if placed == Placed::Overflow {
            self.overflow(now, handler);
        }
        let is_answer = self.silence.kind(line) == Some(LineKind::Recovery);
        self.settle(now, is_answer, handler);
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.silence.check(now, &self.policy, |line| handler.action(Action::LineSilent { line }));
        for _ in 0..POLL_STEPS_MAX {
            if self.deadline().is_none_or(|until| until > now) {
                break;
            }
            self.expire(now, handler);
        }
        self.tell_state(now, handler);
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn next_poll(&self) -> Nanos {
        let stale_at = match self.state {
            State::Recovering { since } => since.after(self.policy.stale_after_ns),
            _ => Nanos(u64::MAX),
        };
        self.silence.next_check().min(stale_at).min(self.deadline().unwrap_or(Nanos(u64::MAX)))
    }

    fn deadline(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Waiting { until }
            | Phase::Requesting { until, .. }
            | Phase::Pausing { until }
            | Phase::Snapshot { until } => Some(until),
            Phase::Joining | Phase::Synced | Phase::Ended => None,
        }
    }

    fn expire(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        match self.phase {
            Phase::Waiting { .. } => self.ask(0, now, handler),
            Phase::Requesting { tries, progress, .. } => match progress {
                Progress::Answered => self.ask(0, now, handler),
                Progress::Moved => self.ask_another(0, now, handler),
                Progress::None => self.ask_another(tries + 1, now, handler),
            },
            Phase::Pausing { .. } => self.open_snapshot(now, handler),
            Phase::Snapshot { .. } => self.fail_snapshot(now, handler),
            Phase::Joining | Phase::Synced | Phase::Ended => {}
        }
    }

    /// Finds the phase that the arbiter's numbers ask for, and tells the state.
    fn settle(&mut self, now: Nanos, is_answer: bool, handler: &mut impl Handler<F::Session>) {
        if is_answer {
            self.note_answer();
        }
        match self.phase {
            Phase::Joining | Phase::Pausing { .. } | Phase::Snapshot { .. } => {}
            _ if self.arbiter.highest() == self.arbiter.next() => self.synced(now, handler),
            _ => self.follow_gap(now, is_answer, handler),
        }
        self.tell_state(now, handler);
    }

    fn tell_state(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        let is_late = now.since(self.behind_since) >= self.policy.stale_after_ns;
        let why = match self.phase {
            Phase::Joining => Some(Why::NotJoined),
            Phase::Pausing { .. } | Phase::Snapshot { .. } => Some(self.snapshot_why),
            Phase::Ended => Some(Why::SessionEnded),
            _ if self.silence.is_all_silent() => Some(Why::Silence),
            _ if self.has_lost => Some(Why::Gap),
            Phase::Waiting { .. } | Phase::Requesting { .. } => is_late.then_some(Why::Gap),
            Phase::Synced => None,
        };
        let state = match (why, self.state, self.phase) {
            (Some(why), State::Stale { why: before, .. }, _) if why == before => self.state,
            (Some(why), ..) => State::Stale { since: now, why },
            (None, _, Phase::Synced) => State::Live,
            (None, ..) => State::Recovering { since: self.behind_since },
        };
        if state != self.state {
            self.state = state;
            handler.action(Action::State(state));
        }
    }

    /// Takes the messages that were skipped for lost: the feed is no longer stale because of them. For callers who repair their books by other
    /// means, or need no earlier messages.
    pub fn accept_loss(&mut self, now: Nanos, handler: &mut impl Handler<F::Session>) {
        self.has_lost = false;
        self.tell_state(now, handler);
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// The session; nothing before the first datagram.
    pub fn session(&self) -> Option<F::Session> {
        self.session
    }

    /// The next message to deliver.
    pub fn next(&self) -> Sequence {
        self.arbiter.next()
    }

    /// Counters of the feed.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counters of a line.
    pub fn line(&self, line: LineId) -> Option<&LineStatistics> {
        self.arbiter.line(line)
    }

    /// Messages that are held back now, and the most so far.
    pub fn held(&self) -> (usize, usize) {
        self.arbiter.held()
    }
}

#[cfg(test)]
mod tests;
