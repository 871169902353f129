//! Orders by FIX 4.2 and 4.4: sessions are those of `sidestep-fix`, orders meet in the same books as all others.
//!
//! * `request`: NewOrderSingle, OrderCancelRequest, OrderCancelReplaceRequest.
//! * `desk`: the orders, and what comes of them.
//! * `report`: ExecutionReport, OrderCancelReject.
//!
//! OrderID (37) is the order reference of ITCH, so a replaced order has another one. OrdType (40) 1 and 2, TimeInForce (59) 0 and
//! 3; MaxFloor (111) 0 hides an order. A report waits while its session is not logged on, and is sent after the next Logon.

mod desk;
mod report;
mod request;

pub use desk::{LIVE_MAX, WAITING_ALL_MAX, WAITING_MAX};

use crate::core::Core;
use crate::matching::Answer;
use crate::service::Time;
use desk::Desk;
use request::Request;
use sidestep_fix::Message;
use sidestep_fix::engine::{Endpoint, Engine, SessionPlan, SocketOptions};
use sidestep_fix::exchange::anyone;
use sidestep_fix::session::{
    Application, BusinessReason, Outbox, Refusal, Role, SendError, SessionId, SessionSettings,
};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::collections::HashMap;

/// Requests that are taken in one poll of the engine; more are refused as "application not available".
pub const REQUESTS_MAX: usize = 4_096;

/// Sessions of different names, in all. Those that came first keep their orders and reports.
pub const SESSIONS_MAX: usize = 10_000;

/// Counts of FIX orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FixCounters {
    /// Requests that were taken.
    pub requests: u64,
    /// Reports that were sent.
    pub reports: u64,
    /// Reports that were dropped, as too many waited for their session.
    pub dropped: u64,
    /// Live orders.
    pub live: usize,
}

/// Takes the messages of all sessions, and keeps what they ask for until the books are free.
#[derive(Debug, Default)]
struct Inbox {
    sessions: HashMap<SessionId, usize>,
    requests: Vec<(usize, Request)>,
}

impl Inbox {
    /// The number of a session; that of a session that comes again is the same. `None`: it is one name too many.
    fn session(&mut self, id: &SessionId) -> Option<usize> {
        let next = self.sessions.len();
        if let Some(number) = self.sessions.get(id) {
            return Some(*number);
        }
        (next < SESSIONS_MAX).then(|| *self.sessions.entry(id.clone()).or_insert(next))
    }
}

impl Application for Inbox {
    fn on_problem(&mut self, id: &SessionId, problem: &Problem) {
        say(format!("{id}: {problem}"));
    }

    fn on_cancel(&mut self, id: &SessionId) {
        if let Some(session) = self.sessions.get(id) {
            self.requests.push((*session, Request::CancelAll));
        }
    }

    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        let busy = Refusal::Business { reason: BusinessReason::ApplicationNotAvailable, text: None };
        if self.requests.len() >= REQUESTS_MAX {
            return Err(busy);
        }
        let request = Request::read(message)?;
        let session = self.session(out.id()).ok_or(busy)?;
        self.requests.push((session, request));
        Ok(())
    }
}

/// FIX sessions and their orders.
pub struct Fix {
    engine: Engine<Inbox>,
    desk: Desk,
    requests: Vec<(usize, Request)>,
    counters: FixCounters,
}

impl Fix {
    /// Listens at `endpoint` for any session of FIX 4.0 to 4.4.
    ///
    /// # Errors
    ///
    /// The address cannot be had.
    pub fn listen(endpoint: &Endpoint, options: &SocketOptions) -> Result<Self, Problem> {
        let mut engine = Engine::new(Inbox::default());
        let acceptor = engine.listen(endpoint, None, options)?;
        let settings = SessionSettings::new(Role::Acceptor, anyone());
        engine.add_template(acceptor, SessionPlan::new(settings));
        Ok(Self { engine, desk: Desk::default(), requests: Vec::new(), counters: FixCounters::default() })
    }

    /// Where it listens.
    pub fn endpoints(&self) -> impl Iterator<Item = String> {
        self.engine.endpoints().map(ToString::to_string)
    }

    /// Reads, does what was asked for, and answers. Returns how much that was; 0 for nothing.
    pub fn poll(&mut self, time: Time, utc_ns: i64, core: &mut Core) -> usize {
        let work = self.engine.poll();
        std::mem::swap(&mut self.requests, &mut self.engine.app_mut().requests);
        let mut requests = std::mem::take(&mut self.requests);
        // What others did to these orders before counts before.
        self.fetch(utc_ns, core);
        for (session, request) in requests.drain(..) {
            self.counters.requests += 1;
            self.desk.handle(time, utc_ns, session, request, core);
            self.fetch(utc_ns, core);
        }
        self.requests = requests;
        work
    }

    fn fetch(&mut self, utc_ns: i64, core: &mut Core) {
        let mut answers = Vec::new();
        core.take_answers_of(Desk::owns, &mut answers);
        answers.iter().for_each(|(owner, answer)| self.desk.hear(utc_ns, *owner, answer));
    }

    /// True if an answer with this owner is for [`Self::hear`].
    pub fn owns(owner: u64) -> bool {
        Desk::owns(owner)
    }

    /// Tells a session what happened to its order.
    pub fn hear(&mut self, utc_ns: i64, owner: u64, answer: &Answer) {
        self.desk.hear(utc_ns, owner, answer);
    }

    /// Sends the reports that wait for sessions that are logged on and read.
    pub fn flush(&mut self) {
        if self.desk.is_quiet() {
            return;
        }
        let handles: Vec<_> = self.engine.handles().collect();
        for handle in handles {
            if !self.engine.session(handle).is_logged_on() {
                continue;
            }
            let id = self.engine.session(handle).id().clone();
            let is_old = *id.begin_string < *"FIX.4.3";
            let Some(session) = self.engine.app().sessions.get(&id).copied() else { continue };
            while let Some(report) = self.desk.next_report(session) {
                match self.engine.send(handle, report.msg_type(), |builder| report.write(builder, is_old)) {
                    Ok(_) => self.counters.reports += 1,
                    Err(SendError::Full | SendError::NotLoggedOn) => break,
                    Err(error) => {
                        say(format!("{id}: a report could not be sent: {error}"));
                        self.desk.dropped += 1;
                    }
                }
                self.desk.report_done(session);
            }
        }
    }

    /// What was done.
    pub fn counters(&self) -> FixCounters {
        FixCounters { dropped: self.desk.dropped, live: self.desk.live(), ..self.counters }
    }

    /// Logs all sessions out.
    pub fn shut_down(&mut self, timeout: std::time::Duration) {
        self.engine.shut_down("end of session", timeout);
    }
}
