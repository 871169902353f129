//! The measuring end: one slice at a time.

mod bulk;
mod connections;
mod conversation;
mod floor;
mod in_flight;
mod loop_cost;
pub(crate) mod noise;
mod open_loop;
mod packets;
mod rate;
mod round_trip;
mod schedule;
mod yardstick;

pub(crate) use loop_cost::loop_cost_ns;
pub(crate) use noise::{Meter, hiccups, watch};
pub(crate) use open_loop::{Load as OpenLoad, OpenSlice};
pub(crate) use packets::Packets;
pub(crate) use rate::{RateSlice, RateTarget};
pub(crate) use round_trip::settling_time;
pub(crate) use round_trip::{Exchange, FAREWELLS, LOOK_UP, Target, Trips, Work};
pub use schedule::Arrival;
pub(crate) use yardstick::Yardsticks;

use crate::bypass::{ControlPlane, Device, Keeper};
use crate::causes::{Observer, Scope};
use crate::peer::Control;
use crate::place::Ends;
use crate::scenario::Budget;
use crate::service_time::ServiceTime;
use crate::stats::Slice;
use sidestep_sys::clock::Clock;
use sidestep_sys::printable::printable;
use sidestep_sys::{Problem, cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most samples of one slice, which ends when they are reached. 8 MiB.
pub(crate) const SAMPLES_MAX: usize = 1 << 20;

/// The longest note of a peer, bytes.
const NOTE_BYTES_MAX: usize = 600;

/// Time-out of streams over an impaired wire, within which a handshake may lose a segment.
const IMPAIRED_LOOK_UP: Duration = Duration::from_secs(3);

/// The measuring end of a run.
pub(crate) struct Bench {
    /// The clock.
    pub clock: Clock,
    /// CPUs of the measuring end and of the peer, for pinned paths.
    pub cpus: Cpus,
    /// Congestion control of streams, if one was asked for.
    pub(crate) congestion: Option<String>,
    /// Work of the peer before each answer, ns.
    pub service_time: ServiceTime,
    /// The end of the scenario that is measured.
    pub(crate) budget: Budget,
    ends: Ends,
    allowed: Vec<u32>,
    samples: Vec<u64>,
    /// Records what the host does in a slice, while it is asked to.
    observer: Option<Observer>,
    /// The beginnings of `samples`, ticks, in observed slices.
    starts: Vec<u64>,
    stop: Arc<AtomicBool>,
    yardsticks: Yardsticks,
    /// Started with the first slice that needs it.
    plane: Option<ControlPlane>,
    // After `plane`: a started control plane ends when nothing of ours is connected.
    keeper: Keeper,
}

/// The CPUs that pinned paths use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The value of the measuring end.
    pub client: u32,
    /// Of the peer; on another machine the peer chooses unless told.
    pub server: Option<u32>,
}

impl Bench {
    /// A measuring end on the calling thread, which must be on the measuring host (see [`Ends`]).
    pub(crate) fn new(ends: Ends, clock: Clock, cpus: Cpus, stop: Arc<AtomicBool>) -> Self {
        let mut samples = vec![0; SAMPLES_MAX]; // Touched now, so that no page fault falls into a sample.
        samples.clear();
        Self {
            clock,
            cpus,
            congestion: None,
            service_time: ServiceTime::default(),
            budget: Budget::default(),
            ends,
            allowed: cpu::allowed(),
            samples,
            observer: None,
            starts: Vec::new(),
            stop,
            yardsticks: Default::default(),
            plane: None,
            keeper: Keeper::default(),
        }
    }

    /// Goes on between other ends.
    pub(crate) fn renew(&mut self, ends: Ends, cpus: Cpus) {
        self.hang_up();
        self.ends = ends;
        self.cpus = cpus;
    }

    /// Closes the control connection, upon which the peer ends, and what was connected to with it.
    pub(crate) fn hang_up(&mut self) {
        self.plane = None;
        self.keeper.end();
        self.ends.control.close();
    }

    /// The two ends and what lies between them.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Returns whether the user has asked it to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins to observe the slices of some paths; `pinned` where all of them are.
    pub(crate) fn observe(&mut self, pinned: bool) {
        let scope = Scope {
            client: self.cpus.client,
            server: self.cpus.server.filter(|_| self.ends.same_host),
            peer: self.ends.peer_process(),
        };
        let mut observer = Observer::new(scope);
        observer.open(if pinned { &[] } else { &self.allowed });
        self.starts.resize(SAMPLES_MAX, 0); // Touched now, as the samples are.
        self.observer = Some(observer);
    }

    /// Ends observing. Returns the observer, which knows what it has seen.
    pub(crate) fn observed(&mut self) -> Option<Observer> {
        self.starts = Vec::new();
        let mut observer = self.observer.take()?;
        observer.close();
        Some(observer)
    }

    /// Starts a control plane on this end, if none runs.
    pub(crate) fn need_plane(&mut self) -> Result<(), Problem> {
        if self.plane.is_none() {
            self.plane = Some(ControlPlane::need(&self.ends.consent, &self.keeper, &self.allowed)?);
        }
        Ok(())
    }

    /// Takes a started control plane off the interface, for a program of a slice's own.
    fn leave_interface(&mut self) {
        self.plane.take_if(|plane| plane.is_on_host());
        self.keeper.end();
    }

    /// The interface of engines that have datagrams.
    pub(crate) fn device(&self) -> Result<Device, Problem> {
        Device::every_queue(&self.ends.consent, self.ends.client)
    }

    /// The interface of engines that connect to the peer.
    fn device_toward(&self) -> Result<Device, Problem> {
        Device::toward(&self.ends.consent, self.ends.client, self.ends.server)
    }

    /// Returns what a reader must know of both ends of a path of the kernel.
    pub(crate) fn kernel_note(&self, peer: Option<&str>) -> Option<String> {
        match (self.ends.consent.kernel_note(), peer) {
            (None, None) => None,
            (here, peer) => Some(self.note(&here.unwrap_or_else(|| "the kernel's path".into()), peer)),
        }
    }

    /// Returns what a reader of the results must know of both ends of a path past the kernel.
    fn note(&self, link: &str, peer: Option<&str>) -> String {
        // The peer's words are another host's.
        let peer = match peer {
            None => String::new(),
            Some(peer) if peer == link => "; the same at the peer's end".into(),
            Some(peer) => format!(". The peer: {}", printable(peer, NOTE_BYTES_MAX)),
        };
        format!("{link}{peer}")
    }

    /// The same of an end past the kernel, whose control plane is told.
    pub(crate) fn stack_note(&self, link: &str, peer: Option<&str>) -> String {
        let plane = self.plane.as_ref().map_or_else(String::new, |plane| format!("; {}", plane.note()));
        self.note(&format!("{link}{plane}"), peer)
    }

    /// The longest wait of a call, and of connecting. A lost SYN comes again after a second.
    fn patience(&self, is_datagram: bool) -> Duration {
        if self.ends.wire.is_some() && !is_datagram { IMPAIRED_LOOK_UP } else { LOOK_UP }
    }

    pub(crate) fn control(&mut self) -> &mut Control {
        &mut self.ends.control
    }

    /// Pins the calling thread, or releases it to the scheduler.
    pub(crate) fn place_thread(&self, pinned: bool) -> Result<(), Problem> {
        if pinned { cpu::restrict(&[self.cpus.client]) } else { cpu::restrict(&self.allowed) }
    }

    /// Turns the ticks gathered in `samples` into a slice, and empties them.
    fn take_slice(&mut self) -> Slice {
        let slice = Slice::of(self.samples.iter().map(|ticks| self.clock.ns(*ticks)));
        self.samples.clear();
        slice
    }
}
