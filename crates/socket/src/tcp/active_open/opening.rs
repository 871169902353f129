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
    /// The kernel twin: it holds the port that was named, and connects where there is no path past the kernel.
    pub(crate) twin: Option<Twin>,
    /// The caller connects its own socket where there is no path past the kernel.
    pub(crate) is_beside: bool,
    pub(crate) steering: Option<SteeringRequest>,
    pub(crate) has_asked: bool,
    /// The times of the program's call and of the first route found: CLOCK_MONOTONIC.
    pub(crate) begun_ns: u64,
    pub(crate) route_ns: Option<u64>,
    /// The time of the next step, unless the ports change before.
    pub(crate) due_ns: u64,
    pub(crate) generation: u32,
    /// The reason why the connection can no longer be accelerated.
    pub(crate) stopped: Option<Reason>,
}

/// The steering entry that control was asked for. If this is dropped, the entry is removed as soon as it stands.
#[derive(Debug)]
pub(crate) struct SteeringRequest {
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
            is_beside: false,
            steering: None,
            has_asked: false,
            begun_ns: now_ns,
            route_ns: None,
            due_ns: 0,
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
        self.steering.as_ref().map(|request| request.flow)
    }

    pub(crate) fn hold(&mut self, twin: Twin) {
        self.twin = Some(twin);
    }

    /// Returns whether it may need a kernel twin later, as far as is known.
    pub(crate) fn may_need_twin(&self, ports: &Ports) -> bool {
        !self.is_beside && self.twin.is_none() && (self.route_ns.is_none() || ports.are_unknown())
    }

    pub(crate) fn is_due(&self, now_ns: u64, generation: u32) -> bool {
        now_ns >= self.due_ns || generation != self.generation || self.stopped.is_some()
    }
}

/// The clock of active opens: CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    monotonic_ns()
}
