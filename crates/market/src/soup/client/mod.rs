//! The session of a client: its states and timers.

mod event;

pub use event::{Counters, End, Event, State};

use super::input::Input;
use super::login::{LoginAccepted, LoginRequest, Rejection, SessionName};
use super::output::{Outbox, SendError};
use super::packet::*;
use super::settings::Settings;
use crate::units::{Nanos, Sequence};
use sidestep_sys::Problem;

/// One session of a client. It outlives its connections: [`connected`](Self::connected) asks for the session of the last one, from the
/// number that is expected next.
///
/// The caller connects a transport, says `connected`, writes [`output`](Self::output) and says [`written`](Self::written), hands over
/// what it reads ([`receive`](Self::receive)), calls [`poll`](Self::poll) at [`next_poll`](Self::next_poll) or more often, closes the
/// transport when the [`state`](Self::state) is `Ended`, and says [`disconnected`](Self::disconnected).
#[derive(Debug)]
pub struct Client {
    input: Input,
    core: Core,
}

/// All but the input, which a packet may stand in while it is processed.
#[derive(Debug)]
struct Core {
    settings: Settings,
    state: State,
    session: SessionName,
    next: Sequence,
    output: Outbox,
    /// The last time when bytes came.
    heard: Nanos,
    counters: Counters,
}

impl Client {
    /// Makes a client, and all the memory that it will use.
    ///
    /// # Errors
    /// A setting cannot work.
    pub fn new(settings: Settings) -> Result<Self, Problem> {
        settings.check()?;
        let core = Core {
            state: State::Disconnected,
            session: settings.session,
            next: settings.sequence,
            output: Outbox::new(settings.output_bytes_max),
            heard: Nanos(0),
            counters: Counters::default(),
            settings,
        };
        Ok(Self { input: Input::new(core.settings.packet_bytes_max), core })
    }

    /// There is a new transport: what is left of the old one is dropped, and the login is in the output.
    pub fn connected(&mut self, now: Nanos) {
        self.disconnected();
        let core = &mut self.core;
        (core.state, core.heard, core.output.now) = (State::LoginSent, now, now);
        let Settings { user, password, .. } = core.settings;
        let request = LoginRequest { user, password, session: core.session, sequence: core.next };
        core.output
            .write(Packet { kind: LOGIN_REQUEST, payload: &request.payload() })
            .expect("the settings leave room for a login");
    }

    /// The transport is gone. Messages not written are lost with it, as are those that the server has not read.
    pub fn disconnected(&mut self) {
        self.input.clear();
        self.core.output.clear();
        self.core.output.is_open = false;
        self.core.state = State::Disconnected;
    }

    /// Forgets the session: the next login asks for the current one. For a new day, or when the server does not have it any more.
    pub fn forget_session(&mut self) {
        self.core.forget_session();
    }

    /// Takes bytes that came, in any pieces, and tells the events in them. Bytes that come without a login or after the end are
    /// dropped.
    pub fn receive(&mut self, mut bytes: &[u8], now: Nanos, mut sink: impl FnMut(Event<'_>, &mut Outbox)) {
        self.core.output.now = now;
        if !bytes.is_empty() {
            self.core.heard = now;
        }
        while self.core.takes_input() {
            match self.packet(&mut bytes, &mut sink) {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => self.core.end(End::Malformed(why), &mut sink),
            }
        }
    }

    /// One packet from the bytes; whether there was one.
    #[inline]
    fn packet<S: FnMut(Event<'_>, &mut Outbox)>(&mut self, bytes: &mut &[u8], sink: &mut S) -> Result<bool, Malformed> {
        if self.input.is_empty() {
            if let Some((packet, rest)) = Packet::split(bytes)? {
                *bytes = rest;
                self.core.packet(packet, sink)?;
                return Ok(true);
            }
            if bytes.is_empty() {
                return Ok(false);
            }
        }
        let is_complete = self.input.fill(bytes)?;
        if is_complete {
            if let Some((packet, _)) = Packet::split(self.input.filled())? {
                self.core.packet(packet, sink)?;
            }
            self.input.clear();
        }
        Ok(is_complete)
    }

    /// Does what is due: heartbeats, time-outs.
    pub fn poll(&mut self, now: Nanos, mut sink: impl FnMut(Event<'_>, &mut Outbox)) {
        let core = &mut self.core;
        core.output.now = now;
        match core.state {
            State::LoginSent if now >= core.heard_until() => core.end(End::LoginTimeout, &mut sink),
            State::LoggedIn | State::LogoutSent if now >= core.heard_until() => core.end(End::Silent, &mut sink),
            State::LoggedIn if core.heartbeat_at().is_some_and(|due| now >= due) => core.heartbeat(),
            _ => {}
        }
    }

    /// The time when [`poll`](Self::poll) has something to do; nothing if there is no connection. What comes or is sent moves it.
    pub fn next_poll(&self) -> Option<Nanos> {
        let core = &self.core;
        match core.state {
            State::LoginSent | State::LogoutSent => Some(core.heard_until()),
            State::LoggedIn => Some(core.heartbeat_at().map_or(core.heard_until(), |due| due.min(core.heard_until()))),
            State::Disconnected | State::Ended(_) => None,
        }
    }

    /// Sends one unsequenced message.
    ///
    /// # Errors
    /// [`SendError`]; nothing of it is sent then.
    #[inline]
    pub fn send(&mut self, message: &[u8], now: Nanos) -> Result<(), SendError> {
        self.core.output.now = now;
        self.core.output.send(message)
    }

    /// Asks the server to end the connection. The session goes on: messages are kept for the next login.
    ///
    /// # Errors
    /// [`SendError`]; the session is still logged in then, if it was.
    pub fn logout(&mut self, now: Nanos) -> Result<(), SendError> {
        let core = &mut self.core;
        if core.state != State::LoggedIn {
            return Err(SendError::NotLoggedIn);
        }
        core.output.now = now;
        core.output.write(Packet { kind: LOGOUT, payload: &[] })?;
        (core.state, core.output.is_open) = (State::LogoutSent, false);
        Ok(())
    }

    /// The bytes to be written to the transport.
    #[inline]
    pub fn output(&self) -> &[u8] {
        self.core.output.waiting()
    }

    /// So many bytes of the output are written.
    #[inline]
    pub fn written(&mut self, bytes: usize) {
        self.core.output.written(bytes);
    }

    /// The progress of the session.
    pub fn state(&self) -> State {
        self.core.state
    }

    /// The session; [`SessionName::CURRENT`] before the first login.
    pub fn session(&self) -> SessionName {
        self.core.session
    }

    /// The number of the message that is expected next, for a login in another process.
    pub fn next_sequence(&self) -> Sequence {
        self.core.next
    }

    /// Counts since the client was made.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }
}

impl Core {
    fn takes_input(&self) -> bool {
        matches!(self.state, State::LoginSent | State::LoggedIn | State::LogoutSent)
    }

    /// The time when the server is given up.
    fn heard_until(&self) -> Nanos {
        match self.state {
            State::LoginSent => self.output.quiet_until(self.settings.login_ns),
            _ => self.heard.after(self.settings.silence_ns),
        }
    }

    /// The time of the next heartbeat. There is none while something waits to be written: that will be heard.
    fn heartbeat_at(&self) -> Option<Nanos> {
        self.output.waiting().is_empty().then(|| self.output.quiet_until(self.settings.heartbeat_ns))
    }

    #[inline]
    fn packet<S: FnMut(Event<'_>, &mut Outbox)>(&mut self, packet: Packet<'_>, sink: &mut S) -> Result<(), Malformed> {
        let bytes = packet.payload.len() + 1;
        if LENGTH_BYTES + bytes > self.settings.packet_bytes_max {
            return Err(Malformed::TooLong { bytes });
        }
        let is_login = self.state == State::LoginSent;
        match packet.kind {
            SEQUENCED if !is_login => {
                let sequence = self.next;
                self.next = Sequence(sequence.0.checked_add(1).ok_or(Malformed::SequenceExhausted)?);
                self.counters.sequenced += 1;
                sink(Event::Sequenced { sequence, message: packet.payload }, &mut self.output);
            }
            UNSEQUENCED if !is_login => {
                self.counters.unsequenced += 1;
                sink(Event::Unsequenced(packet.payload), &mut self.output);
            }
            SERVER_HEARTBEAT => self.counters.heartbeats += 1,
            END_OF_SESSION => {
                self.forget_session();
                self.end(End::EndOfSession, sink);
            }
            LOGIN_ACCEPTED if is_login => self.accepted(LoginAccepted::parse(packet.payload)?, sink),
            LOGIN_REJECTED if is_login => self.end(End::Rejected(Rejection::parse(packet.payload)?), sink),
            kind @ (SEQUENCED | UNSEQUENCED | LOGIN_ACCEPTED | LOGIN_REJECTED) => {
                return Err(Malformed::Unexpected { kind });
            }
            // Debug text, the types of clients, and those of later versions.
            _ => self.counters.ignored += 1,
        }
        Ok(())
    }

    /// Sends a heartbeat. It cannot be refused: the output is empty.
    fn heartbeat(&mut self) {
        let sent = self.output.write(Packet { kind: CLIENT_HEARTBEAT, payload: &[] });
        self.counters.heartbeats_sent += u64::from(sent.is_ok());
    }

    fn accepted<S: FnMut(Event<'_>, &mut Outbox)>(&mut self, login: LoginAccepted, sink: &mut S) {
        let LoginAccepted { session, next } = login;
        if self.session != SessionName::CURRENT && session != self.session {
            return self.end(End::OtherSession { asked: self.session, told: session }, sink);
        }
        if self.next != Sequence(0) && next != self.next {
            return self.end(End::OtherSequence { asked: self.next, told: next }, sink);
        }
        (self.session, self.next, self.state) = (session, next, State::LoggedIn);
        self.output.is_open = true;
        self.counters.logins += 1;
        sink(Event::LoggedIn { session, next }, &mut self.output);
    }

    fn end<S: FnMut(Event<'_>, &mut Outbox)>(&mut self, end: End, sink: &mut S) {
        (self.state, self.output.is_open) = (State::Ended(end), false);
        sink(Event::Ended(end), &mut self.output);
    }

    fn forget_session(&mut self) {
        // Whoever wants no history of this session wants none of the next one either.
        (self.session, self.next) = (SessionName::CURRENT, Sequence(self.settings.sequence.0.min(1)));
    }
}

#[cfg(test)]
mod tests;
