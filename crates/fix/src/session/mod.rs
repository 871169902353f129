//! The FIX session as a machine without input and output: messages and time go in, bytes and callbacks come out.
//!
//! ```text
//!  transport ── Framer ── Index::decode ──> Session::on_message ──> Application (from_app, from_admin)
//!      ^                                        │    │ Outbox::send
//!      └──────── Session::output <── Encoder <──┴────┘
//!                                       └──> Store, before the bytes can leave
//! ```
//!
//! Who drives it: [`Session::connected`] when there is a transport, [`on_message`](Session::on_message) and
//! [`on_garbled`](Session::on_garbled) for what comes while the session [takes it](Session::takes_input),
//! [`on_timer`](Session::on_timer) at
//! [`next_deadline`](Session::next_deadline) or more often, writes [`output`](Session::output) and says
//! [`sent`](Session::sent), ends the transport when [`ending`](Session::ending) says so and the output is written, and says
//! [`disconnected`](Session::disconnected).
//!
//! | concern | file |
//! |---|---|
//! | Logon of both roles, reset by Logon | `logon.rs` |
//! | Logout | `logout.rs` |
//! | order of the checks, sequence numbers | `inbound.rs`, `checks.rs` |
//! | what came too early, ResendRequests sent | `gap.rs`, `early.rs` |
//! | ResendRequests answered | `replay.rs`, `patch.rs` |
//! | SequenceReset | `reset.rs` |
//! | Reject, BusinessMessageReject | `reject.rs` |
//! | heartbeats, time-outs, schedule, cancel on disconnect | `timers.rs` |
//! | what leaves | `outbound.rs` |
//! | a full output: who is refused, when reading stops | `flow.rs` |

mod application;
mod checks;
mod counters;
mod early;
mod flow;
mod gap;
mod identity;
mod inbound;
mod logon;
mod logout;
mod outbound;
mod patch;
mod reject;
mod replay;
mod reset;
mod rules;
mod settings;
mod text;
mod timers;

pub use crate::validate::Reason as RejectReason;
pub use application::{Application, Outbox, Refusal, SendError};
pub use counters::{Counters, End};
pub use identity::SessionId;
pub use rules::{Rules, Validate};
pub(crate) use settings::BEGIN_STRINGS;
pub use settings::{CancelOn, Role, SessionSettings, Throttle};
pub use text::BusinessReason;

use crate::clock::Now;
use crate::decode::{Index, Message};
use crate::encode::{Encoder, Parties};
use crate::frame::Garbled;
use crate::schedule::Window;
use crate::store::Store;
use crate::validate::Validator;
use crate::value::Precision;
use early::Early;
use flow::Flow;
use gap::Gap;
use identity::Dialect;
use replay::Replays;
use sidestep_sys::Problem;
use std::sync::Arc;
use text::Phrase;
use timers::Timers;

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is no transport.
    Disconnected,
    /// An acceptor waits for the first Logon.
    LogonExpected,
    /// An initiator waits for the answer to its Logon.
    LogonSent,
    /// Both Logons are exchanged.
    LoggedOn,
    /// Our Logout is not yet answered.
    LogoutSent,
}

/// One FIX session. It outlives its connections.
pub struct Session<S> {
    settings: Arc<SessionSettings>,
    dialect: Dialect,
    rules: Option<Arc<dyn Validate>>,
    validator: Validator,
    encoder: Encoder,
    store: S,
    now: Now,
    phase: Phase,
    ending: Option<End>,
    counters: Counters,
    window: Window,
    timers: Timers,
    /// The number of the message being answered, when it is the expected one.
    in_hand: Option<u64>,
    /// Both numbers were 1 when the transport came.
    was_fresh: bool,
    /// DefaultApplVerID (1137) of the initiator, which an acceptor answers.
    their_appl_ver_id: Option<u8>,
    /// Our Logon carried ResetSeqNumFlag and is not yet answered.
    reset_sent: bool,
    gap: Option<Gap>,
    early: Early,
    /// The message in process came early.
    from_early: bool,
    /// Decodes what came early; taken out while it does.
    early_index: Option<Box<Index>>,
    replays: Replays,
    flow: Flow,
    /// A Logout that the application asked for within a callback.
    logout_asked: Option<Phrase>,
    /// One message while it is patched for being sent again, and the gap fill before it.
    scratch: Vec<u8>,
    gap_fill: Vec<u8>,
    /// One message that came early, while it is processed.
    early_message: Vec<u8>,
}

impl<S: Store> Session<S> {
    /// Makes a session with these settings over `store`. Without `rules` only the session layer is checked.
    ///
    /// # Errors
    /// The settings make no session, or the store's numbers are none.
    pub fn new(
        settings: SessionSettings,
        store: S,
        rules: Option<Arc<dyn Validate>>,
        now: Now,
    ) -> Result<Self, Problem> {
        settings.check()?;
        let dialect = settings.id.dialect();
        let usual = if dialect.milliseconds { Precision::Millis } else { Precision::Seconds };
        let precision = settings.precision.unwrap_or(usual);
        // Answers have as much room again as the application, and what then goes to the store is written here, too.
        let room = 2 * settings.output_bytes_max + crate::encode::MESSAGE_BYTES_MAX;
        let encoder = Encoder::with_room(&parties(&settings.id), precision, room);
        let encoder = encoder.map_err(|rejected| {
            Problem::usage(format!("session {}", settings.id), format!("its names cannot be written: {rejected}"))
                .next("use printable names")
        })?;
        let early = Early::new(settings.early_bytes_max);
        let window = settings.schedule.window(now.utc_ns);
        let replays = Replays::new(settings.resend_requests_per_second, now);
        Ok(Self {
            dialect,
            rules,
            validator: Validator::new(),
            encoder,
            store,
            now,
            phase: Phase::Disconnected,
            ending: None,
            counters: Counters::default(),
            window,
            timers: Timers::default(),
            in_hand: None,
            was_fresh: false,
            their_appl_ver_id: None,
            reset_sent: false,
            gap: None,
            early,
            from_early: false,
            early_index: None,
            replays,
            flow: Flow::default(),
            logout_asked: None,
            scratch: Vec::new(),
            gap_fill: Vec::new(),
            early_message: Vec::new(),
            settings: Arc::new(settings),
        })
    }

    /// The identity of the session.
    pub fn id(&self) -> &SessionId {
        &self.settings.id
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The progress of the connection.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Messages of the application can be sent.
    pub fn is_logged_on(&self) -> bool {
        self.phase == Phase::LoggedOn && self.ending.is_none()
    }

    /// The reason why the connection is to be ended, once [`output`](Self::output) is written.
    pub fn ending(&self) -> Option<End> {
        self.ending
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Decodes one message, with the data fields of the session's dictionary. One of more fields than MaxMessageFields, or than the
    /// index has room for, is cut: the session rejects it.
    ///
    /// # Errors
    /// It is garbled.
    pub fn decode<'a, 'i>(&self, index: &'i mut Index, raw: &'a [u8]) -> Result<Message<'a, 'i>, Garbled> {
        let data = self.rules.as_ref().and_then(|rules| rules.data_fields());
        index.decode_first(raw, data, self.settings.message_fields_max)
    }

    /// The session's memory.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The session's store, to correct numbers by hand while the session is not connected, or to make it durable.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Bytes to be written, in order.
    pub fn output(&self) -> &[u8] {
        self.encoder.output()
    }

    /// Says that `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize, now: Now) {
        self.now = now;
        self.encoder.sent(count);
        if count > 0 {
            self.output_moved();
        }
    }

    /// Returns whether a resend is in progress, or messages wait for one.
    pub fn is_resending(&self) -> bool {
        self.replays.is_active()
    }

    /// A transport is there. An initiator sends its Logon, an acceptor waits for one.
    pub fn connected<A: Application + ?Sized>(&mut self, now: Now, app: &mut A) {
        self.now = now;
        self.encoder.clear();
        self.ending = None;
        self.in_hand = None;
        self.was_fresh = self.is_fresh();
        self.their_appl_ver_id = None;
        self.reset_sent = false;
        self.forget_gap();
        self.replays.forget();
        self.flow = Flow::default();
        self.logout_asked = None;
        self.timers.connected(now.mono_ns, self.settings.logon_timeout);
        self.refresh_window();
        self.phase = Phase::LogonExpected;
        if self.settings.role == Role::Initiator {
            self.begin_logon(app);
        }
    }

    /// A whole message came, decoded.
    pub fn on_message<A: Application + ?Sized>(&mut self, message: &Message<'_, '_>, now: Now, app: &mut A) {
        self.now = now;
        self.counters.received += 1;
        self.process(message, app);
        self.process_early(app);
        self.follow_flow(message.raw().len());
        self.finish_step(app);
    }

    /// Bytes came that are no message. They are ignored and counted, unless they end the connection.
    pub fn on_garbled<A: Application + ?Sized>(&mut self, garbled: Garbled, now: Now, app: &mut A) {
        self.now = now;
        self.counters.garbled += 1;
        self.timers.garbled += 1;
        let too_many = self.settings.garbled_max != 0 && self.timers.garbled > self.settings.garbled_max;
        if garbled.is_fatal() || too_many {
            self.end(End::Garbled);
        } else if self.phase == Phase::LogonExpected || self.phase == Phase::LogonSent {
            // FIX session test case 1d: an invalid Logon ends the connection without an answer.
            if garbled.logon {
                self.counters.logons_refused += 1;
                self.end(End::LogonRefused);
            }
        }
        self.finish_step(app);
    }

    /// The transport is gone.
    pub fn disconnected<A: Application + ?Sized>(&mut self, now: Now, app: &mut A) {
        self.now = now;
        if self.phase == Phase::Disconnected {
            return;
        }
        let why = self.ending.take().unwrap_or(End::Disconnected);
        let was_logged_on = matches!(self.phase, Phase::LoggedOn | Phase::LogoutSent);
        // What a Logon that was refused has used up: of ours, or of a stranger who only names us, as long as it was all there was.
        let asked = self.phase == Phase::LogonSent && why != End::OutsideSchedule;
        let resets = was_logged_on || asked || (self.was_fresh && !self.is_fresh());
        self.phase = Phase::Disconnected;
        self.encoder.clear();
        self.in_hand = None;
        self.forget_gap();
        self.replays.forget();
        if was_logged_on {
            self.plan_cancel(why);
            app.on_logout(&self.settings.id, why);
        }
        let logged_out = self.settings.reset_on_logout && why == End::LoggedOut;
        if (self.settings.reset_on_disconnect && resets) || logged_out {
            self.reset_store(app);
        }
        self.cancel_if_due(app);
    }

    /// Asks for a Logout with this text, empty for none.
    pub fn logout<A: Application + ?Sized>(&mut self, text: &str, now: Now, app: &mut A) {
        self.now = now;
        self.logout_asked = Some(Phrase::new().text(text));
        self.finish_step(app);
    }

    /// Sends a message of the application; returns its MsgSeqNum (34).
    ///
    /// # Errors
    /// See [`SendError`]. Nothing was sent then.
    pub fn send(
        &mut self,
        msg_type: &[u8],
        now: Now,
        mut fill: impl FnMut(&mut crate::encode::Builder<'_>),
    ) -> Result<u64, SendError> {
        self.now = now;
        self.send_app(msg_type, &mut fill)
    }

    /// Resets both numbers to 1: at once if the session is not connected, else by a Logon with ResetSeqNumFlag (FIX 4.1
    /// and later).
    ///
    /// # Errors
    /// The version has no such flag and the session is connected, or the store fails.
    pub fn reset<A: Application + ?Sized>(&mut self, now: Now, app: &mut A) -> Result<(), Problem> {
        self.now = now;
        match self.phase {
            Phase::Disconnected => {
                self.store.reset(now.utc_ns)?;
                self.counters.resets += 1;
                app.on_reset(&self.settings.id);
            }
            Phase::LoggedOn if self.dialect.reset_flag => self.reset_by_logon(app),
            _ => {
                let what = format!("session {}", self.settings.id);
                return Err(Problem::failed(what, "it cannot be reset now").next("log out first, then reset"));
            }
        }
        Ok(())
    }

    fn is_fresh(&self) -> bool {
        self.store.next_outbound() == 1 && self.store.next_inbound() == 1
    }

    /// Finishes every step: a Logout requested meanwhile, more of a resend, the notice that messages can be sent again.
    fn finish_step<A: Application + ?Sized>(&mut self, app: &mut A) {
        if let Some(text) = self.logout_asked.take() {
            self.begin_logout(text.as_bytes(), app);
        }
        self.pump_replay(app);
        self.tell_of_room(app);
    }

    /// The connection is to end; what is in the output still leaves.
    fn end(&mut self, why: End) {
        if self.phase != Phase::Disconnected {
            self.ending.get_or_insert(why);
            self.replays.forget();
        }
    }

    /// The store failed: nothing that is not kept may leave.
    fn fail<A: Application + ?Sized>(&mut self, problem: &Problem, app: &mut A) {
        self.encoder.clear();
        self.end(End::StoreFailed);
        app.on_problem(&self.settings.id, problem);
    }
}

fn parties(id: &SessionId) -> Parties {
    Parties {
        begin_string: id.begin_string.clone(),
        sender: id.sender_comp_id.clone(),
        sender_sub: id.sender_sub_id.clone(),
        sender_location: id.sender_location_id.clone(),
        target: id.target_comp_id.clone(),
        target_sub: id.target_sub_id.clone(),
        target_location: id.target_location_id.clone(),
    }
}
