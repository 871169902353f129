//! Snapshots on demand: GLIMPSE over a stream.

use crate::application::Application;
use crate::channel::Channel;
use sidestep_market::glimpse::{Client, Event, Limits, State};
use sidestep_market::soup::{Password, Settings, UserName};
use sidestep_market::units::Nanos;
use sidestep_socket::stream::{Connecting, Endpoint, Io, Options, Stream, is_retry};
use sidestep_sys::Problem;
use sidestep_sys::clock::monotonic_ns;
use std::os::fd::BorrowedFd;

/// A source of snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotServer {
    /// The server.
    pub endpoint: Endpoint,
    /// The user.
    pub user: UserName,
    /// The password.
    pub password: Password,
    /// Bounds of one snapshot.
    pub limits: Limits,
}

impl SnapshotServer {
    /// A server that asks nobody's name.
    pub fn at(endpoint: Endpoint) -> Self {
        Self { endpoint, user: UserName::default(), password: Password::default(), limits: Limits::default() }
    }
}

enum Phase {
    Idle,
    Connecting(Connecting, u32),
    Open(Stream, u32),
}

/// The snapshot that is under way, if one is.
pub(crate) struct Snapshots {
    endpoint: Endpoint,
    io: Io,
    options: Options,
    client: Client,
    phase: Phase,
    /// Why the last attempt failed, for people.
    failure: Option<String>,
}

impl Snapshots {
    pub(crate) fn new(server: &SnapshotServer) -> Result<Self, Problem> {
        let settings = Settings::new(server.user, server.password);
        Ok(Self {
            endpoint: server.endpoint.clone(),
            io: Io::named("glimpse"),
            options: Options::default(),
            client: Client::new(settings, server.limits)?,
            phase: Phase::Idle,
            failure: None,
        })
    }

    /// Follows what the channel wants; returns whether there was something to do.
    pub(crate) fn poll(&mut self, channel: &mut Channel, application: &mut impl Application) -> bool {
        let open = match &self.phase {
            Phase::Idle => None,
            Phase::Connecting(_, attempt) | Phase::Open(_, attempt) => Some(*attempt),
        };
        let wanted = channel.snapshot();
        if wanted != open {
            if open.is_some() {
                self.failure = Some(format!("{} brought nothing in time, and the attempt was given up", self.endpoint));
            }
            self.close();
            let Some(attempt) = wanted else { return true };
            self.begin(attempt, channel, application);
            return true;
        }
        if open.is_none() {
            return false;
        }
        // Timers of an engine, if the endpoint goes past the kernel; it makes the reads fail if it is gone.
        let _ = self.io.poll();
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => false,
            Phase::Connecting(connecting, attempt) => self.connect(connecting, attempt, channel, application),
            Phase::Open(stream, attempt) => self.receive(stream, attempt, channel, application),
        }
    }

    fn begin(&mut self, attempt: u32, channel: &mut Channel, application: &mut impl Application) {
        match Connecting::begin(&mut self.io, &self.endpoint, &self.options) {
            Ok(connecting) => self.phase = Phase::Connecting(connecting, attempt),
            Err(problem) => self.fail(attempt, problem.brief(), channel, application),
        }
    }

    fn connect(
        &mut self,
        connecting: Connecting,
        attempt: u32,
        channel: &mut Channel,
        application: &mut impl Application,
    ) -> bool {
        match connecting.poll(&mut self.io, &self.options) {
            Ok(Connecting::Ready(stream)) => {
                self.client.connected(Nanos(monotonic_ns()));
                self.receive(stream, attempt, channel, application)
            }
            Ok(pending) => {
                self.phase = Phase::Connecting(pending, attempt);
                false
            }
            Err(error) => {
                let why = format!("cannot connect to {}: {error}", self.endpoint);
                self.fail(attempt, why, channel, application);
                true
            }
        }
    }

    /// Takes what has come, and writes what is to be said.
    fn receive(
        &mut self,
        mut stream: Stream,
        attempt: u32,
        channel: &mut Channel,
        application: &mut impl Application,
    ) -> bool {
        let now = Nanos(monotonic_ns());
        let Self { io, client, failure, .. } = self;
        let mut take = |event: Event<'_>| match event {
            Event::Begin => {}
            // Of an attempt that was closed meanwhile nothing is taken.
            Event::Message(bytes) => _ = channel.snapshot_message(attempt, now, bytes, application),
            Event::Complete(next) => match channel.snapshot_done(attempt, now, next, application) {
                Ok(()) => *failure = None,
                Err(refused) => *failure = Some(refused.to_string()),
            },
            Event::Failed(why) => {
                *failure = Some(why.to_string());
                channel.snapshot_failed(attempt, now, application);
            }
        };
        let received = stream.receive_with(io, &mut |bytes| {
            client.receive(bytes, now, &mut take);
            bytes.len()
        });
        client.poll(now, &mut take);
        let is_over = match &received {
            Ok(count) => *count == 0,
            Err(error) => !is_retry(error),
        };
        let written = if client.output().is_empty() { Ok(0) } else { stream.write(io, client.output()) };
        match written {
            Ok(count) => client.written(count),
            Err(error) if is_retry(&error) => {}
            Err(_) => client.disconnected(&mut take),
        }
        if is_over {
            client.disconnected(&mut take);
        }
        if client.state() == State::Running {
            self.phase = Phase::Open(stream, attempt);
        } else {
            // The peer learns of it by the end of the stream; it may be gone already.
            let _ = stream.close(io);
        }
        received.is_ok_and(|count| count > 0)
    }

    fn fail(&mut self, attempt: u32, why: String, channel: &mut Channel, application: &mut impl Application) {
        self.failure = Some(why);
        channel.snapshot_failed(attempt, Nanos(monotonic_ns()), application);
    }

    fn close(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Connecting(connecting, _) => connecting.abandon(&mut self.io),
            Phase::Open(mut stream, _) => {
                let _ = stream.abort(&mut self.io);
                self.client.disconnected(|_| {});
            }
        }
    }

    /// Why the last attempt failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// True while something is to be followed that no descriptor tells.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting(..)) || self.io.has_engine()
    }

    /// The descriptor to sleep on.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Open(stream, _) => stream.descriptor(),
            Phase::Idle | Phase::Connecting(..) => None,
        }
    }
}
