//! Logon, of both roles, and the reset that a Logon can carry. FIX session layer, "Logon process", "ResetSeqNumFlag".

use super::application::{Application, Refusal};
use super::checks::missing_or_bad;
use super::counters::End;
use super::inbound::{Kind, Verdict};
use super::settings::Role;
use super::text::{APPL_VER_ID_UNKNOWN, HEART_BT_INT_NEGATIVE, HEART_BT_INT_TOO_LONG};
use super::{BusinessReason, Phase, Session};
use crate::decode::Message;
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;
use std::cmp::Ordering;
use std::sync::Arc;

/// The content of a Logon.
#[derive(Debug, Clone, Copy)]
struct Logon {
    seq: u64,
    heart_bt_int_s: u32,
    reset: bool,
    next_expected: Option<u64>,
    poss_dup: bool,
    appl_ver_id: Option<u8>,
}

impl<S: Store> Session<S> {
    /// The initiator's first message, if the schedule allows one now.
    pub(super) fn begin_logon<A: Application + ?Sized>(&mut self, app: &mut A) {
        self.phase = Phase::LogonSent;
        if !self.may_log_on() {
            return self.end(End::OutsideSchedule);
        }
        self.refresh_store(app);
        if self.ending.is_none() && (self.settings.reset_on_logon || self.is_new_session()) {
            self.reset_store(app);
        }
        let fresh = self.is_fresh();
        let resets = self.settings.reset_on_logon || self.settings.reset_on_logout || self.settings.reset_on_disconnect;
        self.timers.set_heart_bt_int(self.settings.heart_bt_int_s, &self.settings);
        let next_expected = self.store.next_inbound();
        self.write_logon(self.dialect.reset_flag && fresh && resets, next_expected, app);
    }

    /// Both numbers become 1 while the session goes on: a Logon with ResetSeqNumFlag. What the counterparty sends before it has
    /// that Logon still has its old numbers.
    pub(super) fn reset_by_logon<A: Application + ?Sized>(&mut self, app: &mut A) {
        let expected = self.store.next_inbound();
        self.reset_store(app);
        self.expect(expected, app);
        self.write_logon(true, 1, app);
    }

    /// A Logon came, in a phase that allows one.
    pub(super) fn on_logon<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        seq: u64,
        app: &mut A,
    ) -> Result<(), Verdict> {
        self.check_logon_header(message)?;
        let logon = self.read_logon(message, seq)?;
        if logon.poss_dup && matches!(self.phase, Phase::LoggedOn | Phase::LogoutSent) {
            return self.logon_again(message, seq);
        }
        if self.phase == Phase::LogonExpected && !self.may_log_on() {
            return Err(Verdict::End(End::OutsideSchedule));
        }
        // Who is refused must not have reset anything: the names in a Logon are no secret.
        app.from_admin(&self.settings.id, message).map_err(refused_logon)?;
        if self.phase == Phase::LogonExpected {
            self.prepare_acceptor(app);
        }
        self.reset_as_asked(logon, app);
        self.check_next_expected(logon)?;
        let order = seq.cmp(&self.store.next_inbound());
        if order == Ordering::Less && self.settings.validate_sequence_numbers {
            return Err(self.late(message, Kind::Logon, seq));
        }
        self.in_hand = (order == Ordering::Equal).then_some(seq);
        self.answer_logon(logon, order, app);
        Ok(())
    }

    /// Checks SendingTime and CompIDs; a fault is not reported, since the sender is not identified.
    fn check_logon_header(&self, message: &Message<'_, '_>) -> Result<(), Verdict> {
        self.check_header(message).map_err(|verdict| match (self.phase, verdict) {
            (Phase::LoggedOn | Phase::LogoutSent, verdict) => verdict,
            _ => Verdict::End(End::LogonRefused),
        })
    }

    fn read_logon(&self, message: &Message<'_, '_>, seq: u64) -> Result<Logon, Verdict> {
        let refuse = |text| Verdict::LogoutAndEnd(text, End::LogonRefused);
        let seconds = message.integer(tag::HEART_BT_INT).map_err(missing_or_bad)?;
        if seconds < 0 {
            return Err(refuse(HEART_BT_INT_NEGATIVE));
        }
        let heart_bt_int_s = u32::try_from(seconds).ok().filter(|seconds| *seconds <= self.settings.heart_bt_int_max_s);
        let mut appl_ver_id = None;
        if self.dialect.appl_ver_id {
            let text = message.required(tag::DEFAULT_APPL_VER_ID).map_err(missing_or_bad)?;
            appl_ver_id = Some(known_appl_ver_id(text).ok_or_else(|| refuse(APPL_VER_ID_UNKNOWN))?);
        }
        let next_expected =
            message.get(tag::NEXT_EXPECTED_MSG_SEQ_NUM).map(|_| message.unsigned(tag::NEXT_EXPECTED_MSG_SEQ_NUM));
        Ok(Logon {
            seq,
            heart_bt_int_s: heart_bt_int_s.ok_or_else(|| refuse(HEART_BT_INT_TOO_LONG))?,
            reset: message.get(tag::RESET_SEQ_NUM_FLAG) == Some(b"Y"),
            next_expected: next_expected.transpose().map_err(missing_or_bad)?,
            poss_dup: message.get(tag::POSS_DUP_FLAG) == Some(b"Y"),
            appl_ver_id,
        })
    }

    /// A resent Logon changes nothing: it was processed before, or a gap fill should replace it.
    fn logon_again(&mut self, message: &Message<'_, '_>, seq: u64) -> Result<(), Verdict> {
        match seq.cmp(&self.store.next_inbound()) {
            Ordering::Less => Err(self.late(message, Kind::Logon, seq)),
            Ordering::Equal => Err(Verdict::Reject(Reason::ValueIncorrect, Some(tag::MSG_TYPE.into()))),
            Ordering::Greater => Err(Verdict::Early(seq)),
        }
    }

    fn prepare_acceptor<A: Application + ?Sized>(&mut self, app: &mut A) {
        self.refresh_store(app);
        if self.ending.is_none() && (self.settings.reset_on_logon || self.is_new_session()) {
            self.reset_store(app);
        }
    }

    fn refresh_store<A: Application + ?Sized>(&mut self, app: &mut A) {
        if !self.settings.refresh_on_logon {
            return;
        }
        if let Err(problem) = self.store.refresh() {
            self.fail(&problem, app);
        }
    }

    /// ResetSeqNumFlag that does not answer our own. An initiator's Logon that was answered so counts as the first message.
    fn reset_as_asked<A: Application + ?Sized>(&mut self, logon: Logon, app: &mut A) {
        if self.reset_sent && self.phase == Phase::LoggedOn {
            self.expect(1, app);
        }
        if !logon.reset || self.reset_sent {
            return;
        }
        let answers_ours = self.phase == Phase::LogonSent;
        self.reset_store(app);
        if answers_ours
            && self.ending.is_none()
            && let Err(problem) = self.store.set_next_outbound(2)
        {
            self.fail(&problem, app);
        }
    }

    /// NextExpectedMsgSeqNum (789) cannot be beyond what will be sent next.
    fn check_next_expected(&self, logon: Logon) -> Result<(), Verdict> {
        let next = self.store.next_outbound();
        match logon.next_expected {
            Some(asked) if self.settings.next_expected_msg_seq_num && asked > next => {
                Err(Verdict::NextExpectedTooHigh { expected: next, received: asked })
            }
            _ => Ok(()),
        }
    }

    /// The Logon is accepted: answer it if it is the first, then see what either side misses.
    fn answer_logon<A: Application + ?Sized>(&mut self, logon: Logon, order: Ordering, app: &mut A) {
        let is_first = matches!(self.phase, Phase::LogonExpected | Phase::LogonSent);
        let asks = self.phase != Phase::LogonSent && !self.reset_sent;
        let before = self.store.next_outbound();
        if self.settings.role == Role::Acceptor {
            // FIX Latest (10) is no fixed version, and versions before 4.0 are not in use: our own is sent then.
            self.their_appl_ver_id = logon.appl_ver_id.filter(|version| (2..=9).contains(version));
            self.timers.set_heart_bt_int(logon.heart_bt_int_s, &self.settings);
        }
        if asks {
            let next_expected = self.store.next_inbound() + u64::from(order == Ordering::Equal);
            self.write_logon(logon.reset, next_expected, app);
        }
        self.reset_sent = false;
        if self.ending.is_some() {
            return;
        }
        if is_first {
            self.phase = Phase::LoggedOn;
            self.counters.logons += 1;
            self.timers.cancel_planned = None;
        }
        self.count_processed(order, app);
        self.in_hand = None;
        self.recover(logon, order, before, asks, app);
        if is_first && self.ending.is_none() {
            self.flow.answers = true;
            app.on_logon(self);
            self.flow.answers = false;
        }
    }

    /// Requests and announces the messages that either side misses.
    fn recover<A: Application + ?Sized>(
        &mut self,
        logon: Logon,
        order: Ordering,
        before: u64,
        answered: bool,
        app: &mut A,
    ) {
        let next_expected = logon.next_expected.filter(|_| self.settings.next_expected_msg_seq_num);
        if let Some(asked) = next_expected.filter(|asked| *asked < before) {
            let last = if answered { before } else { before - 1 };
            self.resend(asked.max(1), last);
        }
        if order == Ordering::Greater && self.settings.validate_sequence_numbers {
            self.note_early(logon.seq, b"");
            if next_expected.is_some() {
                self.await_gap(logon.seq);
            } else {
                self.ask_for_gap(logon.seq, app);
            }
        }
    }

    fn write_logon<A: Application + ?Sized>(&mut self, reset: bool, next_expected: u64, app: &mut A) {
        let heart_bt_int_s = self.timers.heart_bt_int_s();
        let settings = Arc::clone(&self.settings);
        let theirs = self.their_appl_ver_id;
        let has_version = self.dialect.appl_ver_id && !settings.default_appl_ver_id.is_empty();
        self.reset_sent = reset && self.phase != Phase::LogonExpected;
        self.send_admin(app, b"A", |logon| {
            logon.unsigned(tag::ENCRYPT_METHOD, 0).unsigned(tag::HEART_BT_INT, u64::from(heart_bt_int_s));
            if reset {
                logon.bool(tag::RESET_SEQ_NUM_FLAG, true);
            }
            for (tag, text) in [(tag::USERNAME, &settings.username), (tag::PASSWORD, &settings.password)] {
                if !text.is_empty() {
                    logon.str(tag, text);
                }
            }
            if settings.next_expected_msg_seq_num {
                logon.unsigned(tag::NEXT_EXPECTED_MSG_SEQ_NUM, next_expected);
            }
            // FIXT.1.1: both sides have to mean the same by a message without ApplVerID (1128).
            match theirs {
                Some(version) => _ = logon.unsigned(tag::DEFAULT_APPL_VER_ID, version.into()),
                None if has_version => _ = logon.str(tag::DEFAULT_APPL_VER_ID, &settings.default_appl_ver_id),
                None => {}
            }
        });
    }
}

/// ApplVerID (1128) of FIX 2.7 (0) to FIX Latest (10).
fn known_appl_ver_id(text: &[u8]) -> Option<u8> {
    let number = crate::value::unsigned(text).filter(|number| *number <= 10)?;
    // Written otherwise, as in 09, it is another value.
    (text.len() == if number == 10 { 2 } else { 1 }).then_some(number as u8)
}

/// A refused Logon ends the connection, whatever kind of answer was meant.
fn refused_logon(refusal: Refusal) -> Verdict {
    match refusal {
        Refusal::Logout(text) => Verdict::LogoutAndEnd(text, End::LogonRefused),
        Refusal::Business { reason, text } => Verdict::LogoutAndEnd(text.unwrap_or(reason.text()), End::LogonRefused),
        Refusal::Missing(_) => Verdict::LogoutAndEnd(BusinessReason::FieldMissing.text(), End::LogonRefused),
        Refusal::Session { reason, .. } => Verdict::LogoutAndEnd(reason.text(), End::LogonRefused),
    }
}
