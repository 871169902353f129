//! All connections of one thread.

#[cfg(feature = "audit")]
mod audit;
mod due;
mod look_ahead;
mod orphans;
mod poll;
mod step;

pub use look_ahead::LOOK_AHEAD_MAX;

use super::config::Config;
use super::counters::Counters;
use super::demux::Demux;
use super::demux::hash::Secret;
use super::demux::ids::ConnectionId;
use super::demux::slots::Slots;
use super::events::Events;
use super::flow::Flow;
use super::handshake::cookie::Cookies;
use super::handshake::isn::InitialSequence;
use super::handshake::listener::Listeners;
use super::time::Instant;
use super::timers::wheel::Wheel;
use sidestep_wire::Addresses;

/// All connections and listeners of one thread.
pub struct Tcp {
    pub(super) config: Config,
    pub(super) slots: Slots,
    pub(super) demux: Demux,
    pub(super) listeners: Listeners,
    pub(super) wheel: Wheel,
    pub(super) events: Events,
    orphans: orphans::Orphans,
    /// Connections that have something to send in a poll.
    pub(super) due: due::Due,
    pub(super) counters: Counters,
    pub(super) isn: InitialSequence,
    pub(super) cookies: Cookies,
    /// Every segment takes the slow path.
    #[cfg(feature = "audit")]
    is_fast_path_off: bool,
    /// Segments on the fast path, those of them after which something could leave, and messages.
    #[cfg(feature = "audit")]
    pub(super) fast_path_counts: [u64; 3],
}

impl Tcp {
    /// An empty one. `secret`: random numbers that nobody outside can know; sequence numbers and the table's order come
    /// from them.
    pub fn new(config: Config, secret: Secret, now: Instant) -> Self {
        Self {
            slots: Slots::default(),
            demux: Demux::new(&secret),
            listeners: Listeners::default(),
            wheel: Wheel::new(now),
            events: Events::default(),
            orphans: orphans::Orphans::default(),
            due: due::Due::default(),
            counters: Counters::default(),
            isn: InitialSequence::new(&secret),
            cookies: Cookies::new(&secret),
            #[cfg(feature = "audit")]
            is_fast_path_off: false,
            #[cfg(feature = "audit")]
            fast_path_counts: [0; 3],
            config,
        }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections: those that are there, and of them in TIME-WAIT without a holder.
    pub fn connections(&self) -> (u32, u32) {
        (self.slots.open + self.slots.waiting, self.slots.waiting)
    }

    /// Returns whether nothing of a connection is left: it was closed, and its TIME-WAIT is over. Until then its packets are to
    /// come here, and its port stays its own.
    pub fn is_over(&self, id: ConnectionId) -> bool {
        !self.slots.is_there(id)
    }

    pub(super) fn index_of(&self, flow: &Flow) -> Option<u32> {
        self.index_of_arrival(&flow.addresses.reversed(), flow.local_port, flow.remote_port)
    }

    #[inline]
    pub(super) fn index_of_arrival(&self, addresses: &Addresses, local_port: u16, remote_port: u16) -> Option<u32> {
        let is_of = |flow: &Flow| flow.is_of_arrival(addresses, local_port, remote_port);
        self.demux.find(addresses, local_port, remote_port, |index| self.slots.slot(index).flow().is_some_and(is_of))
    }
}
