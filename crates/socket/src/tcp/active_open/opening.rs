//! The state of a connection that has not begun.

use crate::control_agent::Answer;
use crate::fallback::tcp::Twin;
use crate::reason::Reason;
use crate::tcp::active_open::ports::Ports;
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::Options;
use std::net::SocketAddr;

/// A connection that has not begun.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) options: Options,
    /// The local end that the program asked for.
    pub(crate) local: Option<SocketAddr>,
    /// A socket of the kernel's: holds the port that was named, and connects where there is no path past the kernel.
    pub(crate) twin: Option<Twin>,
    pub(crate) rule: Option<Rule>,
    pub(crate) has_asked: bool,
    /// The times of the program's call and of the first route found: CLOCK_MONOTONIC.
    pub(crate) begun_ns: u64,
    pub(crate) route_ns: Option<u64>,
    /// Not looked at before, unless the ports have changed since.
    pub(crate) look_ns: u64,
    pub(crate) generation: u32,
    /// The fast path is no more.
    pub(crate) stopped: Option<Reason>,
}

/// A rule for its flow, which control was asked for. Dropped, it is taken back as soon as it stands.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) flow: Entry,
    pub(crate) mtu: u32,
    pub(crate) answer: Answer,
}

impl Opening {
    pub(crate) fn new(local: Option<SocketAddr>, options: Options, now_ns: u64) -> Self {
        Self {
            options,
            local,
            twin: None,
            rule: None,
            has_asked: false,
            begun_ns: now_ns,
            route_ns: None,
            look_ns: 0,
            generation: 0,
            stopped: None,
        }
    }

    /// The port that the program has named.
    pub(crate) fn port(&self) -> Option<u16> {
        self.local.map(|local| local.port()).filter(|port| *port != 0)
    }

    /// The flow that control was asked to steer.
    pub(crate) fn flow(&self) -> Option<Entry> {
        self.rule.as_ref().map(|rule| rule.flow)
    }

    pub(crate) fn hold(&mut self, twin: Twin) {
        self.twin = Some(twin);
    }

    /// Returns whether it may come to need a socket of the kernel's, as far as is known.
    pub(crate) fn may_need_twin(&self, ports: &Ports) -> bool {
        self.twin.is_none() && (self.route_ns.is_none() || ports.are_unknown())
    }

    pub(crate) fn is_due(&self, now_ns: u64, generation: u32) -> bool {
        now_ns >= self.look_ns || generation != self.generation || self.stopped.is_some()
    }
}

/// The clock of active opens: CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    monotonic_ns()
}
