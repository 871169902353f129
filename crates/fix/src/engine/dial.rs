//! The initiator's half: which host to try, when, and what has become of it.

use super::channel::Channel;
use super::tls::{Tls, TlsSettings};
use super::{Endpoint, SocketOptions};
use crate::session::SessionSettings;
use sidestep_socket::stream::{Connecting, Io};
use sidestep_sys::Problem;
use std::time::Duration;

/// The ways of an initiator to its counterparty.
#[derive(Clone, Debug)]
pub struct Destinations {
    /// Tried in this order, again from the first one after a connection that worked. "SocketConnectHost", "…Host1", ...
    pub endpoints: Vec<Endpoint>,
    /// Between two rounds through the list. "ReconnectInterval", 30 s
    pub reconnect_interval: Duration,
    /// The longest time of one attempt. "SocketConnectTimeout", 10 s
    pub connect_timeout: Duration,
    /// TLS, if it is wanted.
    pub tls: Option<TlsSettings>,
    /// Options of the socket.
    pub options: SocketOptions,
}

impl Destinations {
    /// One host, without TLS, with every other setting as it is by default.
    pub fn one(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            reconnect_interval: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            tls: None,
            options: SocketOptions::default(),
        }
    }
}

/// Keeps one session connected.
pub(super) struct Dialer {
    pub(super) slot: usize,
    destinations: Destinations,
    pub(super) tls: Option<Tls>,
    /// The endpoint to be tried next.
    next: usize,
    state: State,
    pub(super) last_error: String,
}

#[expect(clippy::large_enum_variant, reason = "one a session, and a connection that is made moves on")]
enum State {
    Idle {
        until: u64,
    },
    Trying(Connecting, u64),
    /// Connected, when the session had been logged on so often.
    Up {
        logons: u64,
    },
}

impl Dialer {
    pub(super) fn new(slot: usize, destinations: Destinations) -> Result<Self, Problem> {
        if destinations.endpoints.is_empty() {
            return Err(
                Problem::usage("cannot connect", "there is no host to connect to").next("set SocketConnectHost")
            );
        }
        let tls = destinations.tls.as_ref().map(Tls::client).transpose()?;
        let state = State::Idle { until: 0 };
        Ok(Self { slot, destinations, tls, next: 0, state, last_error: String::new() })
    }

    /// The time of the next attempt or timeout.
    pub(super) fn deadline(&self) -> u64 {
        match self.state {
            State::Idle { until } => until,
            State::Trying(..) => 0,
            State::Up { .. } => u64::MAX,
        }
    }

    /// Goes on; a channel and the name of its host when there is a connection. `logons` is how often the session has been
    /// logged on, `is_connected` whether it is connected.
    pub(super) fn poll(
        &mut self,
        io: &mut Io,
        settings: &SessionSettings,
        (is_connected, logons): (bool, u64),
        (mono_ns, utc_ns): (u64, i64),
    ) -> Option<(Channel, String)> {
        match std::mem::replace(&mut self.state, State::Idle { until: mono_ns }) {
            State::Up { logons: before } if is_connected => self.state = State::Up { logons: before },
            State::Up { logons: before } if logons > before => {
                // It worked: begin with the first host again, after a while.
                self.next = 0;
                self.rest(mono_ns);
            }
            State::Up { .. } => self.failed("there was no Logon", mono_ns),
            State::Idle { until } if mono_ns < until => self.state = State::Idle { until },
            State::Idle { .. } if !is_open(settings, utc_ns) => self.rest(mono_ns),
            State::Idle { .. } => self.begin(io, mono_ns),
            State::Trying(connecting, cut_at) => return self.go_on(io, connecting, cut_at, mono_ns, logons),
        }
        None
    }

    /// Ends an attempt that goes on.
    pub(super) fn abandon(self, io: &mut Io) {
        if let State::Trying(connecting, _) = self.state {
            connecting.abandon(io);
        }
    }

    /// Connects at once, whatever the interval says.
    pub(super) fn hurry(&mut self) {
        if let State::Idle { until } = &mut self.state {
            *until = 0;
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.destinations.endpoints[self.next]
    }

    fn begin(&mut self, io: &mut Io, mono_ns: u64) {
        match Connecting::begin(io, self.endpoint(), &self.destinations.options) {
            Ok(connecting) => {
                let cut_at = mono_ns.saturating_add(self.destinations.connect_timeout.as_nanos() as u64);
                self.state = State::Trying(connecting, cut_at);
            }
            Err(problem) => self.failed(&problem.brief(), mono_ns),
        }
    }

    fn go_on(
        &mut self,
        io: &mut Io,
        connecting: Connecting,
        cut_at: u64,
        mono_ns: u64,
        logons: u64,
    ) -> Option<(Channel, String)> {
        let mut stream = match connecting.poll(io, &self.destinations.options) {
            Ok(Connecting::Ready(stream)) => stream,
            Ok(connecting) if mono_ns >= cut_at => {
                connecting.abandon(io);
                self.failed("no connection in time", mono_ns);
                return None;
            }
            Ok(connecting) => {
                self.state = State::Trying(connecting, cut_at);
                return None;
            }
            Err(error) => {
                self.failed(&error.to_string(), mono_ns);
                return None;
            }
        };
        let channel = match self.tls.as_ref().map(|tls| tls.connection(self.endpoint().host())) {
            None => Channel::plain(stream),
            Some(Ok(connection)) => Channel::encrypted(stream, connection),
            Some(Err(problem)) => {
                // Past the kernel a drop alone closes nothing. One that has ended already is as wanted.
                let _ = stream.close(io);
                self.failed(&problem.brief(), mono_ns);
                return None;
            }
        };
        let peer = self.endpoint().to_string();
        self.state = State::Up { logons };
        Some((channel, peer))
    }

    /// On to the next host at once; after the last one, a rest.
    fn failed(&mut self, why: &str, mono_ns: u64) {
        self.last_error = format!("{}: {why}", self.endpoint());
        self.next += 1;
        if self.next >= self.destinations.endpoints.len() {
            self.next = 0;
            self.rest(mono_ns);
        } else {
            self.state = State::Idle { until: mono_ns };
        }
    }

    fn rest(&mut self, mono_ns: u64) {
        let rest = self.destinations.reconnect_interval.as_nanos() as u64;
        self.state = State::Idle { until: mono_ns.saturating_add(rest) };
    }
}

fn is_open(settings: &SessionSettings, utc_ns: i64) -> bool {
    let logon = settings.logon_schedule.as_ref().unwrap_or(&settings.schedule);
    settings.schedule.window(utc_ns).open && logon.window(utc_ns).open
}
