//! Who takes what a feed tells, and holds it against the rules: every number once, in order, or skipped while stale.

use sidestep_market::arbiter::Delivery;
use sidestep_market::feed::{Action, Handler, State};
use sidestep_market::mold64::Session;
use std::collections::VecDeque;

/// The bytes of a message: up to 47, none at times.
pub(crate) fn content(session: Session, sequence: u64) -> Vec<u8> {
    let word = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(session.0[9]);
    (0..word >> 32 & 47).map(|at| (word >> (at % 8)) as u8).collect()
}

#[derive(Debug, Default)]
pub(crate) struct Consumer {
    pub(crate) session: Option<Session>,
    /// The next number; nothing before a session.
    pub(crate) next: u64,
    pub(crate) state: Option<State>,
    pub(crate) delivered: u64,
    pub(crate) skipped: u64,
    pub(crate) requests: u64,
    pub(crate) snapshots: u64,
    /// Sessions that were adopted.
    pub(crate) sessions: u64,
    /// Actions that the driver has to do.
    pub(crate) todo: VecDeque<Action<Session>>,
    /// A hash of all that was told.
    pub(crate) digest: u64,
    /// The first rule that was broken.
    pub(crate) fault: Option<String>,
    /// Messages are those of `content`.
    pub(crate) is_content_known: bool,
    pub(crate) snapshot: Option<u32>,
    /// Its end has come: unless it is refused, messages may follow.
    pub(crate) is_ending: bool,
}

impl Consumer {
    pub(crate) fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    fn hash(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
    }

    fn is_stale(&self) -> bool {
        matches!(self.state, Some(State::Stale { .. }) | None)
    }
}

impl Handler<Session> for Consumer {
    fn message(&mut self, message: Delivery<'_>) {
        let Some(session) = self.session else { return self.fail("a message without a session".into()) };
        if message.sequence.0 != self.next {
            self.fail(format!("message {} instead of {}", message.sequence.0, self.next));
        }
        if self.is_content_known && message.bytes != content(session, self.next) {
            self.fail(format!("message {} has other bytes", self.next));
        }
        if self.snapshot.is_some() && !self.is_ending {
            self.fail(format!("message {} while a snapshot is open", self.next));
        }
        self.hash(self.next);
        self.next = message.sequence.0.wrapping_add(1);
        self.delivered += 1;
    }

    fn snapshot(&mut self, _bytes: &[u8]) {
        if self.snapshot.is_none() {
            self.fail("a message of a snapshot that is not open".into());
        }
    }

    fn action(&mut self, action: Action<Session>) {
        self.hash(format!("{action:?}").bytes().fold(7, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte)));
        match action {
            Action::State(state) => {
                if !matches!(state, State::Stale { .. }) && self.snapshot.is_some() && !self.is_ending {
                    self.fail(format!("{state:?} while a snapshot is open"));
                }
                if self.state == Some(state) {
                    self.fail(format!("told twice: {state:?}"));
                }
                self.state = Some(state);
            }
            Action::Skipped { first, count } => {
                if first.0 != self.next || count == 0 || !self.is_stale() {
                    self.fail(format!("skips {count} from {} at {} in {:?}", first.0, self.next, self.state));
                }
                self.next = first.0 + count;
                self.skipped = self.skipped.saturating_add(count);
            }
            Action::SessionAdopted { session, next } => {
                (self.session, self.next) = (Some(session), next.0);
                self.sessions += 1;
                if !self.is_stale() {
                    self.fail(format!("another session while {:?}", self.state));
                }
            }
            Action::Request { first, count, session, .. } => {
                self.requests += 1;
                if first.0 != self.next || count == 0 || Some(session) != self.session {
                    self.fail(format!("requests {count} from {} at {}", first.0, self.next));
                }
            }
            Action::OpenSnapshot { attempt, .. } => {
                self.snapshots += 1;
                let is_second = self.snapshot.replace(attempt).is_some() && !self.is_ending;
                self.is_ending = false;
                if is_second || !self.is_stale() {
                    self.fail(format!("a second snapshot, or one while {:?}", self.state));
                }
            }
            Action::CloseSnapshot { attempt } => {
                if self.snapshot.take() != Some(attempt) {
                    self.fail(format!("closes snapshot {attempt}, which is not open"));
                }
            }
            Action::SessionEnded { next } if next.0 != self.next => {
                self.fail(format!("ended before {} at {}", next.0, self.next));
            }
            Action::OtherSession { .. }
            | Action::SessionEnded { .. }
            | Action::LineSilent { .. }
            | Action::LineBack { .. } => {}
        }
        self.todo.push_back(action);
    }
}

impl Consumer {
    /// The driver is about to end an attempt.
    pub(crate) fn snapshot_ends(&mut self, attempt: u32) {
        self.is_ending = self.snapshot == Some(attempt);
    }

    /// The feed has answered that.
    pub(crate) fn snapshot_ended(&mut self, is_taken: bool) {
        if self.is_ending && is_taken {
            self.snapshot = None;
        }
        self.is_ending = false;
    }
}
