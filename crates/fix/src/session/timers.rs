//! Timed actions: heartbeats, test requests, time-outs, the schedule, cancel on disconnect.

use super::application::Application;
use super::checks::missing_or_bad;
use super::counters::End;
use super::inbound::Verdict;
use super::settings::{CancelOn, SessionSettings, Throttle};
use super::text::{HEARTBEAT_TIMEOUT, Phrase, SESSION_OVER, TEST_REQ_ID};
use super::{Now, Phase, Session};
use crate::decode::Message;
use crate::store::Store;
use crate::tag;
use std::time::Duration;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Moments, all in ns of the clock that never goes back.
#[derive(Debug, Default)]
pub(super) struct Timers {
    received_ns: u64,
    sent_ns: u64,
    /// Until when the Logon, then the Logout, must be answered.
    answer_ns: u64,
    heart_bt_int_s: u32,
    silences: Silences,
    /// TestRequests since the last message.
    test_requests: u32,
    /// Garbled messages on this connection.
    pub(super) garbled: u64,
    /// The time of the application's first refusal since bytes were last sent.
    refused_ns: Option<u64>,
    /// The time at which orders are to be cancelled.
    pub(super) cancel_planned: Option<u64>,
    throttle_from_ns: u64,
    throttle_count: u32,
}

/// The allowed periods of silence, computed once, as every message needs them.
#[derive(Debug, Default, Clone, Copy)]
struct Silences {
    /// Ours, before a Heartbeat.
    beat_ns: u64,
    /// Theirs, before a TestRequest, and again before each further one.
    ask_ns: u64,
    /// Theirs, before the end.
    end_ns: u64,
}

impl Timers {
    pub(super) fn connected(&mut self, now_ns: u64, logon_timeout: Duration) {
        *self = Self {
            received_ns: now_ns,
            sent_ns: now_ns,
            answer_ns: now_ns.saturating_add(nanos(logon_timeout)),
            cancel_planned: self.cancel_planned,
            throttle_from_ns: now_ns,
            ..Self::default()
        };
    }

    pub(super) fn heard(&mut self, now_ns: u64) {
        (self.received_ns, self.test_requests) = (now_ns, 0);
    }

    pub(super) fn sent(&mut self, now_ns: u64) {
        self.sent_ns = now_ns;
    }

    pub(super) fn output_moved(&mut self, now_ns: u64) {
        self.refused_ns = self.refused_ns.map(|_| now_ns);
    }

    pub(super) fn refused(&mut self, now_ns: u64) {
        self.refused_ns.get_or_insert(now_ns);
    }

    pub(super) fn logout_sent(&mut self, now_ns: u64, timeout: Duration) {
        self.answer_ns = now_ns.saturating_add(nanos(timeout));
    }

    /// HeartBtInt (108), and how many of it are waited before a TestRequest and before the end.
    pub(super) fn set_heart_bt_int(&mut self, seconds: u32, settings: &SessionSettings) {
        self.heart_bt_int_s = seconds;
        let intervals = |count: f64| (f64::from(seconds) * NS_PER_SECOND as f64 * count) as u64;
        self.silences = Silences {
            beat_ns: intervals(1.0),
            ask_ns: intervals(settings.test_request_delay),
            end_ns: intervals(settings.heartbeat_timeout),
        };
    }

    pub(super) fn heart_bt_int_s(&self) -> u32 {
        self.heart_bt_int_s
    }

    /// The longest silence of the counterparty before the end; `None` if there are no heartbeats.
    pub(super) fn patience_ns(&self) -> Option<u64> {
        (self.heart_bt_int_s > 0).then_some(self.silences.end_ns)
    }

    /// The time at which the counterparty's silence calls for a TestRequest.
    fn ask_at_ns(&self) -> u64 {
        let delay_ns = self.silences.ask_ns.saturating_mul(u64::from(self.test_requests) + 1);
        self.received_ns.saturating_add(delay_ns)
    }

    /// The time at which our own silence calls for a Heartbeat. None is sent while a TestRequest is unanswered.
    fn beat_at_ns(&self) -> u64 {
        if self.test_requests == 0 { self.sent_ns.saturating_add(self.silences.beat_ns) } else { u64::MAX }
    }

    /// The time at which the counterparty has been silent for too long.
    fn silence_end_ns(&self) -> u64 {
        self.received_ns.saturating_add(self.silences.end_ns)
    }

    /// Counts an application message. Returns whether it is within the throttle.
    pub(super) fn is_within(&mut self, throttle: Throttle, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.throttle_from_ns) >= nanos(throttle.window) {
            (self.throttle_from_ns, self.throttle_count) = (now_ns, 0);
        }
        self.throttle_count = self.throttle_count.saturating_add(1);
        self.throttle_count <= throttle.messages
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<S: Store> Session<S> {
    /// Does what is due. Cheap when nothing is: call it as often as you like.
    pub fn on_timer<A: Application + ?Sized>(&mut self, now: Now, app: &mut A) {
        self.now = now;
        self.cancel_if_due(app);
        if self.ending.is_some() {
            return;
        }
        let answer_due = now.mono_ns >= self.timers.answer_ns;
        match self.phase {
            Phase::Disconnected => return,
            Phase::LogonExpected | Phase::LogonSent if answer_due => self.end(End::LogonTimeout),
            Phase::LogonExpected | Phase::LogonSent => {}
            Phase::LogoutSent if answer_due => self.end(End::LogoutTimeout),
            Phase::LogoutSent => self.check_silence(app),
            Phase::LoggedOn => {
                if self.is_full() {
                    // Who is not read is not silent, nor who has not yet read what we have asked.
                    self.timers.heard(now.mono_ns);
                }
                self.check_schedule(app);
                self.check_silence(app);
                self.retry_gap(app);
                self.check_consumer();
                self.give_way();
            }
        }
        self.finish_step(app);
    }

    /// The time at which [`on_timer`](Self::on_timer) has work, on the monotonic clock; `None` for never.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.ending.is_some() {
            return self.timers.cancel_planned;
        }
        let of_phase = match self.phase {
            Phase::Disconnected => None,
            Phase::LogonExpected | Phase::LogonSent => Some(self.timers.answer_ns),
            Phase::LogoutSent => Some(self.timers.answer_ns.min(self.silence_deadline_ns())),
            Phase::LoggedOn => self.logged_on_deadline_ns(),
        };
        [of_phase, self.timers.cancel_planned].into_iter().flatten().min()
    }

    fn logged_on_deadline_ns(&self) -> Option<u64> {
        let consumer = self.timers.refused_ns.map(|at| at.saturating_add(nanos(self.settings.slow_consumer_after)));
        let candidates = [
            Some(self.silence_deadline_ns()),
            self.gap_deadline_ns(),
            self.replays.deadline_ns(),
            self.schedule_deadline_ns(),
            consumer,
            self.give_way_ns(),
        ];
        candidates.into_iter().flatten().min()
    }

    /// The next heartbeat, test request or end.
    fn silence_deadline_ns(&self) -> u64 {
        let timers = &self.timers;
        if timers.heart_bt_int_s == 0 {
            return u64::MAX;
        }
        timers.beat_at_ns().min(timers.ask_at_ns()).min(timers.silence_end_ns())
    }

    /// FIX session layer, "Heartbeat" and "Test Request", with QuickFIX's factors.
    fn check_silence<A: Application + ?Sized>(&mut self, app: &mut A) {
        let now_ns = self.now.mono_ns;
        if self.timers.heart_bt_int_s == 0 {
            return;
        }
        if now_ns >= self.timers.silence_end_ns() {
            if self.settings.logout_before_timeout {
                return self.logout_and_end(Phrase::new().text(HEARTBEAT_TIMEOUT), End::HeartbeatTimeout, app);
            }
            return self.end(End::HeartbeatTimeout);
        }
        if now_ns >= self.timers.ask_at_ns() {
            self.timers.test_requests += 1;
            self.counters.test_requests_sent += 1;
            return self.send_admin(app, b"1", |request| {
                request.str(tag::TEST_REQ_ID, TEST_REQ_ID);
            });
        }
        if now_ns >= self.timers.beat_at_ns() {
            self.counters.heartbeats_sent += 1;
            // A heartbeat that waits behind a resend is one, too.
            self.timers.sent(now_ns);
            self.send_admin(app, b"0", |_| {});
        }
    }

    /// A TestRequest is answered with its TestReqID (112).
    pub(super) fn answer_test_request<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        app: &mut A,
    ) -> Result<(), Verdict> {
        let id = message.required(tag::TEST_REQ_ID).map_err(missing_or_bad)?;
        self.send_admin(app, b"0", |heartbeat| {
            heartbeat.echo(tag::TEST_REQ_ID, id);
        });
        Ok(())
    }

    pub(super) fn refresh_window(&mut self) {
        if !self.window.holds_at(self.now.utc_ns) {
            self.window = self.settings.schedule.window(self.now.utc_ns);
        }
    }

    /// The session is open, and so is the time for Logons, if it is another.
    pub(super) fn may_log_on(&mut self) -> bool {
        self.refresh_window();
        let logon = self.settings.logon_schedule.as_ref().map(|schedule| schedule.window(self.now.utc_ns).open);
        self.window.open && logon.unwrap_or(true)
    }

    /// The numbers belong to an earlier session of the schedule.
    pub(super) fn is_new_session(&self) -> bool {
        !self.settings.schedule.same_session(self.store.created_utc_ns(), self.now.utc_ns)
    }

    fn check_schedule<A: Application + ?Sized>(&mut self, app: &mut A) {
        if self.window.holds_at(self.now.utc_ns) {
            return;
        }
        let session = self.window.session_utc_ns;
        self.refresh_window();
        if !self.window.open || self.window.session_utc_ns != session {
            self.begin_logout(SESSION_OVER.as_bytes(), app);
        }
    }

    fn schedule_deadline_ns(&self) -> Option<u64> {
        let left_ns = self.window.until_utc_ns.checked_sub(self.now.utc_ns)?;
        (self.window.until_utc_ns != i64::MAX)
            .then(|| self.now.mono_ns.saturating_add(u64::try_from(left_ns).unwrap_or(0)))
    }

    fn check_consumer(&mut self) {
        let Some(since_ns) = self.timers.refused_ns else { return };
        if self.encoder.output().len() < self.settings.output_bytes_max && !self.replays.is_active() {
            self.timers.refused_ns = None;
        } else if self.now.mono_ns >= since_ns.saturating_add(nanos(self.settings.slow_consumer_after)) {
            self.end(End::SlowConsumer);
        }
    }

    /// The counterparty is gone: its orders may have to go, too.
    pub(super) fn plan_cancel(&mut self, why: End) {
        let logged_out = why == End::LoggedOut;
        let applies = match self.settings.cancel_on {
            CancelOn::Nothing => false,
            CancelOn::Disconnect => !logged_out,
            CancelOn::Logout => logged_out,
            CancelOn::Both => true,
        };
        if applies {
            self.timers.cancel_planned = Some(self.now.mono_ns.saturating_add(nanos(self.settings.cancel_after)));
        }
    }

    pub(super) fn cancel_if_due<A: Application + ?Sized>(&mut self, app: &mut A) {
        if self.timers.cancel_planned.is_some_and(|due_ns| self.now.mono_ns >= due_ns) {
            self.timers.cancel_planned = None;
            app.on_cancel(&self.settings.id);
        }
    }
}
