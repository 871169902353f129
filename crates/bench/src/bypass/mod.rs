//! Our own stack as a transport: an engine per slice, and the control plane that it needs.

mod consent;
mod control_plane;
mod datagrams;
mod keeper;
mod stream;

pub use consent::{Consent, Told};
pub(crate) use control_plane::ControlPlane;
pub(crate) use datagrams::{StackLink, join_past_kernel, wait_for_route};
pub use keeper::Keeper;
pub(crate) use stream::{StackListener, connect_by, connect_past_kernel};

use sidestep_control::permit::Permit;
use sidestep_control_api::client::Client;
use sidestep_control_api::message::Protocol;
use sidestep_control_api::place;
use sidestep_control_api::rss::Spread;
use sidestep_frame::FrameFacts;
use sidestep_socket::{Engine, EngineOptions, Queues, Reason};
use sidestep_stack::tcp::Config;
use sidestep_sys::xdp::Mode;
use sidestep_sys::{Problem, cpu, ethtool, offload};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time for a control plane to start and a path to become accelerated: the neighbour has to be resolved, and both
/// interfaces restart after their programs were attached.
const READY_MAX: Duration = Duration::from_secs(5);

/// Between two attempts to get every queue. The kernel releases the queue of a closed AF_XDP socket later (RCU), and the control plane
/// tries one that was held again after two seconds.
const NEXT_ATTEMPT: Duration = Duration::from_millis(2200);
/// The most attempts.
const ATTEMPTS_MAX: u32 = 3;
/// The kernel's word for a queue that an AF_XDP socket still has, in a refusal.
const HELD: &str = "EBUSY";

/// If this variable is set, the control planes of both ends log to standard error, as `sidestep control` does. They
/// report errors in any case.
const VERBOSE: &str = "SIDESTEP_VERBOSE";

/// A control plane for this end, on a thread, from the first slice that needs it to the end of the session. Without an open
/// stack nothing is attached to any interface.
pub(crate) struct ControlPlaneThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlPlaneThread {
    /// Starts it in the network namespace of the calling thread.
    pub(crate) fn start(cpus: &[u32]) -> Result<Self, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot start a control plane for path xdp", why);
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, cpus) = (stop.clone(), cpus.to_vec());
        let serve = move || {
            // Any CPU is better than the one that this end spins on.
            let _ = cpu::restrict(&cpus);
            if std::env::var_os(VERBOSE).is_none_or(|value| value.is_empty()) {
                sidestep_sys::problem::disable_notes();
            }
            // Other paths are measured without a program on the interface.
            let (interfaces, permit, socket) = (Vec::new(), Permit::new(&[], &[]), None);
            let options = sidestep_control::Options { interfaces, permit, socket, detaches_unused: true };
            if let Err(problem) = sidestep_control::run(&options, &seen) {
                sidestep_sys::problem::say(problem);
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve).map_err(|error| failed(&error))?;
        let plane = Self { stop, thread: Some(thread) };
        let (path, deadline) = (place::socket()?, Instant::now() + READY_MAX);
        while Client::connect_to(&path, "sidestep bench").and_then(Client::bye).is_err() {
            if Instant::now() > deadline || plane.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(failed(&"it does not listen").next("try it by hand: sidestep control"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(plane)
    }
}

impl Drop for ControlPlaneThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The use of a slice's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One message under way: few frames, which stay in the cache, as bare frames have them.
    RoundTrips,
    /// A stream.
    Stream,
    /// A feed and its orders: bursts of full datagrams after calms.
    Feed,
}

/// Frames that wait for a receiver that was put aside: 40 ms at 200,000 messages a second. The kernel's sockets get buffers
/// of 8 MiB for the same.
const STREAM_RING: u32 = 8192;

/// The least of them for each of many queues, and the most for all: frames are memory that is made for every slice.
const STREAM_RING_MIN: u32 = 2048;
const STREAM_RINGS_MAX: u32 = 2 * STREAM_RING;

/// Frames that wait for a trader that was put aside: 10 ms of two lines at 100,000 datagrams a second each.
const FEED_RING: u32 = 2048;

/// Frames that one kick sends in copy mode: a burst leaves by one call.
const BUDGET: u32 = 256;

/// The interface of an end's engines, and the queues that they ask for.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    interface: String,
    queues: Queues,
}

impl Device {
    /// Of an end that others connect to, and of datagrams, whose port is bound before the peer's is known: whatever the wire brings is
    /// measured, by whatever queue. A device with one loses nothing by it.
    pub(crate) fn every_queue(consent: &Consent, local: IpAddr) -> Result<Self, Problem> {
        Ok(Self { interface: consent.interface(local)?, queues: Queues::Every })
    }

    /// Of an end that opens connections: one queue, where the device tells by which one answers come. The engine then connects from
    /// a port whose answers come by its own.
    pub(crate) fn toward(consent: &Consent, local: IpAddr, remote: IpAddr) -> Result<Self, Problem> {
        let every = Self::every_queue(consent, local)?;
        let asked = Spread::read(&every.interface).queue_of(
            Protocol::Tcp,
            SocketAddr::new(remote, 1),
            SocketAddr::new(local, 1),
        );
        Ok(if asked.is_ok() { Self { queues: Queues::Any, ..every } } else { every })
    }
}

impl Device {
    /// Returns the entries of each queue's ring for a stream.
    fn stream_ring(&self) -> u32 {
        let queues = match self.queues {
            Queues::Every => ethtool::receive_queues(&self.interface).unwrap_or(1),
            _ => 1,
        };
        (STREAM_RINGS_MAX / queues.clamp(1, STREAM_RINGS_MAX).next_power_of_two()).clamp(STREAM_RING_MIN, STREAM_RING)
    }
}

/// An engine on a device; one that cannot go past the kernel is refused.
pub(crate) fn engine(device: &Device, load: Load) -> Result<Engine, Problem> {
    engine_with(device, load, Config::latency())
}

/// The same with other settings of TCP.
pub(crate) fn engine_with(device: &Device, load: Load, tcp: Config) -> Result<Engine, Problem> {
    let Device { interface, queues } = device.clone();
    let options = match load {
        Load::RoundTrips => {
            EngineOptions { frames: 128, ring_entries: 64, fill: Some(16), ..EngineOptions::on(interface) }
        }
        Load::Feed => EngineOptions {
            frames: 2 * FEED_RING,
            ring_entries: FEED_RING,
            // All the time, as a feed handler has them: the first burst after a calm finds few otherwise, and what it brings is lost.
            fill: Some(FEED_RING),
            tx_budget: Some(BUDGET),
            ..EngineOptions::on(interface)
        },
        Load::Stream => {
            let ring_entries = device.stream_ring();
            let (frames, tx_budget) = (2 * ring_entries, Some(BUDGET));
            EngineOptions { frames, ring_entries, tx_budget, ..EngineOptions::on(interface) }
        }
    };
    // The ends say farewell to each other; what is under way then was measured, or is not wanted.
    let (name, linger) = ("sidestep bench".into(), Duration::ZERO);
    let options = EngineOptions { name, linger, queues, tcp, ..options };
    let mut engine = Engine::open(&options)?;
    for _ in 1..ATTEMPTS_MAX {
        if !waits_for_queues(&engine, &options.queues) {
            break;
        }
        drop(engine);
        std::thread::sleep(NEXT_ATTEMPT);
        engine = Engine::open(&options)?;
    }
    match engine.refusal() {
        None => Ok(engine),
        Some((_, text)) => {
            Err(Problem::failed("cannot use path xdp", text).next("see what holds the interface: sidestep ps"))
        }
    }
}

/// Returns whether the kernel still holds queues that the engine needs: perhaps for a socket that was just closed. What another stack has,
/// or what is beyond a share, is not waited for.
fn waits_for_queues(engine: &Engine, wanted: &Queues) -> bool {
    match engine.refusal() {
        Some((reason, text)) => reason == Reason::NoFreeQueue && text.contains(HELD),
        None => {
            let lacks_some = *wanted == Queues::Every && !engine.has_every_queue();
            lacks_some && engine.queues_missing().iter().all(|missing| missing.reason.contains(HELD))
        }
    }
}

/// Returns a note for the report.
pub(crate) fn note(engine: &Engine) -> String {
    engine.link().map_or_else(String::new, link_note)
}

/// Returns what a reader must know of the link of frames of an end: mode, queues, interface, driver.
pub(crate) fn link_note(facts: &FrameFacts) -> String {
    let Some(xsk) = facts.xsks.first() else { return String::new() };
    let driver = offload::driver(&xsk.interface).unwrap_or_else(|_| "driver unknown".into());
    let program = if xsk.mode == Mode::Generic { "generic" } else { "native" };
    let why = xsk.downgrades.first().map_or_else(String::new, |it| format!("; {it}"));
    let (mode, place) = (xsk.mode.name(), &facts.place);
    format!("AF_XDP in {mode} mode on {place} ({driver}), {program} XDP{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with one queue tells by which one answers come; of one that does not exist nothing is known.
    #[test]
    fn who_connects_has_one_queue_where_the_device_tells_which() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let on = |name: &str| Consent::Interface { name: name.into(), may_start: false };
        let queues = |name: &str| Device::toward(&on(name), here, here).unwrap().queues;
        assert_eq!((queues("lo"), queues("no-such0")), (Queues::Any, Queues::Every));
        assert_eq!(Device::every_queue(&on("lo"), here).unwrap().queues, Queues::Every);
        assert!(Device::toward(&Consent::Nothing, here, here).is_err());
    }
}
