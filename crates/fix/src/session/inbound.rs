//! The checks of a message, in order, and the answer to one that fails them.
//!
//! The phase allows it; MsgSeqNum is there; BeginString; the dictionary, if MsgSeqNum is the expected one; SendingTime and
//! CompIDs; MsgSeqNum too low or too high; its handler.

use super::application::{Application, Refusal};
use super::counters::End;
use super::text::{INCORRECT_BEGIN_STRING, Phrase, THROTTLED, TOO_MANY_FIELDS, WITHOUT_MSG_SEQ_NUM};
use super::{Phase, Session};
use crate::decode::Message;
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;
use std::cmp::Ordering;

/// The outcome for a message that is not processed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    /// A Reject; the message counts as processed.
    Reject(Reason, Option<i64>),
    /// A Reject, then a Logout.
    RejectAndLogout(Reason, Option<i64>),
    /// A possible duplicate (PossDupFlag) of a message that was processed.
    Duplicate,
    /// MsgSeqNum is too low, without PossDupFlag.
    TooLow { expected: u64, received: u64 },
    /// Messages are missing before it.
    Early(u64),
    /// A Logout with this text; the counterparty may answer.
    Logout(&'static str),
    /// A Logout with this text and the end.
    LogoutAndEnd(&'static str, End),
    /// NextExpectedMsgSeqNum (789) asks for what was never sent.
    NextExpectedTooHigh { expected: u64, received: u64 },
    /// The end of the connection, without an answer.
    End(End),
    /// The application's own answer.
    Refused(Refusal),
    /// A BusinessMessageReject: too many messages.
    Throttled,
    /// A Reject: there are more fields than the session reads.
    TooManyFields,
}

/// The session's own message types (35), and all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Heartbeat,
    TestRequest,
    ResendRequest,
    Reject,
    SequenceReset,
    Logout,
    Logon,
    Application,
}

impl Kind {
    pub(super) fn of(msg_type: &[u8]) -> Self {
        match msg_type {
            b"0" => Self::Heartbeat,
            b"1" => Self::TestRequest,
            b"2" => Self::ResendRequest,
            b"3" => Self::Reject,
            b"4" => Self::SequenceReset,
            b"5" => Self::Logout,
            b"A" => Self::Logon,
            _ => Self::Application,
        }
    }

    pub(super) fn is_admin(self) -> bool {
        self != Self::Application
    }
}

impl<S: Store> Session<S> {
    /// One message, from the wire or from those that came early.
    pub(super) fn process<A: Application + ?Sized>(&mut self, message: &Message<'_, '_>, app: &mut A) {
        if self.phase == Phase::Disconnected || self.ending.is_some() {
            self.counters.ignored += 1;
            return;
        }
        let kind = Kind::of(message.msg_type());
        let result = self.check(message, kind, app);
        if let Err(verdict) = result {
            self.answer(verdict, message, kind, app);
        }
        self.in_hand = None;
        self.follow_gap(kind, message, app);
    }

    fn check<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        app: &mut A,
    ) -> Result<(), Verdict> {
        self.check_phase(message, kind)?;
        self.timers.heard(self.now.mono_ns);
        let without = || Verdict::LogoutAndEnd(WITHOUT_MSG_SEQ_NUM, End::SequenceTooLow);
        let seq = message.seq_num().map_err(|_| without())?;
        if message.begin_string() != self.settings.id.begin_string.as_bytes() {
            return Err(self.other_begin_string(kind));
        }
        let order = seq.cmp(&self.store.next_inbound());
        // An early message is validated when it is next in order, a late one was before.
        if order == Ordering::Equal || !self.is_numbered(message, kind) {
            if message.is_cut() {
                return Err(Verdict::TooManyFields);
            }
            self.validate(message)?;
        }
        if kind == Kind::Logon {
            return self.on_logon(message, seq, app);
        }
        self.check_header(message)?;
        if self.is_numbered(message, kind) {
            self.check_order(message, kind, seq, order)?;
        }
        if order == Ordering::Equal {
            self.in_hand = Some(seq);
        }
        self.handle(message, kind, seq, order, app)
    }

    /// Returns whether MsgSeqNum decides if the message is taken. A ResendRequest is answered and a Logout taken whatever their
    /// numbers are, else two sides that both miss messages wait for each other (FIX session test case 20).
    fn is_numbered(&self, message: &Message<'_, '_>, kind: Kind) -> bool {
        let numbered = match kind {
            Kind::ResendRequest | Kind::Logout | Kind::Logon => false,
            Kind::SequenceReset => message.get(tag::GAP_FILL_FLAG) == Some(b"Y"),
            _ => true,
        };
        numbered && self.settings.validate_sequence_numbers
    }

    fn handle<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        seq: u64,
        order: Ordering,
        app: &mut A,
    ) -> Result<(), Verdict> {
        if kind == Kind::Application {
            self.check_throttle()?;
            self.counters.delivered += 1;
            self.flow.answers = true;
            let taken = app.from_app(message, self);
            self.flow.answers = false;
            taken.map_err(Verdict::Refused)?;
        } else {
            app.from_admin(&self.settings.id, message).map_err(Verdict::Refused)?;
        }
        match kind {
            Kind::TestRequest => self.answer_test_request(message, app)?,
            Kind::ResendRequest => self.on_resend_request(message, seq, order)?,
            Kind::SequenceReset => return self.on_sequence_reset(message, app),
            Kind::Logout => return self.on_logout(order, app),
            Kind::Heartbeat | Kind::Reject | Kind::Logon | Kind::Application => {}
        }
        self.count_processed(order, app);
        Ok(())
    }

    /// The expected message was processed: the next one is expected.
    pub(super) fn count_processed<A: Application + ?Sized>(&mut self, order: Ordering, app: &mut A) {
        let taken = order == Ordering::Equal || !self.settings.validate_sequence_numbers;
        if taken && self.ending != Some(End::StoreFailed) {
            self.expect(self.store.next_inbound() + 1, app);
        }
    }

    /// Makes `next` the expected number.
    pub(super) fn expect<A: Application + ?Sized>(&mut self, next: u64, app: &mut A) {
        if let Err(problem) = self.store.record_inbound(next) {
            self.fail(&problem, app);
        }
    }

    fn answer<A: Application + ?Sized>(
        &mut self,
        verdict: Verdict,
        message: &Message<'_, '_>,
        kind: Kind,
        app: &mut A,
    ) {
        match verdict {
            Verdict::Reject(reason, tag) => self.reject(message, kind, reason, tag, app),
            Verdict::RejectAndLogout(reason, tag) => {
                self.reject(message, kind, reason, tag, app);
                let text = if self.settings.reject_details { reason.text() } else { "" };
                self.begin_logout(text.as_bytes(), app);
            }
            Verdict::Duplicate => self.counters.duplicates += 1,
            Verdict::TooLow { expected, received } => {
                self.counters.too_low += 1;
                self.logout_and_end(Phrase::too_low(expected, received), End::SequenceTooLow, app);
            }
            Verdict::Early(seq) => self.on_early(message, seq, app),
            Verdict::Logout(text) => {
                self.begin_logout(text.as_bytes(), app);
                self.count_if_expected(message, app);
            }
            Verdict::LogoutAndEnd(text, why) => self.logout_and_end(Phrase::new().text(text), why, app),
            Verdict::NextExpectedTooHigh { expected, received } => {
                let text = Phrase::next_expected_too_high(expected, received);
                self.logout_and_end(text, End::LogonRefused, app);
            }
            Verdict::End(why) => {
                self.counters.logons_refused += u64::from(kind == Kind::Logon);
                self.end(why);
            }
            Verdict::Refused(refusal) => self.refuse(message, kind, refusal, app),
            Verdict::TooManyFields => self.reject_as(message, kind, (Reason::Other, TOO_MANY_FIELDS), None, app),
            Verdict::Throttled => {
                self.counters.throttled += 1;
                self.reject_throttled(message, kind, app);
            }
        }
    }

    /// Counts the message as processed if it is the expected one, whatever became of it.
    pub(super) fn count_if_expected<A: Application + ?Sized>(&mut self, message: &Message<'_, '_>, app: &mut A) {
        if message.seq_num() == Ok(self.store.next_inbound()) {
            self.count_processed(Ordering::Equal, app);
        }
    }

    fn other_begin_string(&self, kind: Kind) -> Verdict {
        match kind {
            Kind::Logout => Verdict::End(End::LoggedOut),
            Kind::Logon => Verdict::End(End::LogonRefused),
            _ => Verdict::Logout(INCORRECT_BEGIN_STRING),
        }
    }

    /// The throttle of application messages.
    fn check_throttle(&mut self) -> Result<(), Verdict> {
        let Some(throttle) = self.settings.throttle else { return Ok(()) };
        if self.timers.is_within(throttle, self.now.mono_ns) { Ok(()) } else { Err(Verdict::Throttled) }
    }

    fn reject_throttled<A: Application + ?Sized>(&mut self, message: &Message<'_, '_>, kind: Kind, app: &mut A) {
        let refusal = Refusal::Business { reason: super::BusinessReason::Other, text: Some(THROTTLED) };
        self.refuse(message, kind, refusal, app);
    }
}
