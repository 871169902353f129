//! Our own stack as a transport: an engine per slice, and the control plane that it needs.

mod datagrams;
mod stream;

pub(crate) use datagrams::StackLink;
pub(crate) use stream::{StackListener, connect_by, connect_past_kernel};

use sidestep_control::permit::Permit;
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_socket::{Engine, EngineOptions, Queues};
use sidestep_stack::tcp::Config;
use sidestep_sys::{Problem, cpu, interface};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time for a control plane to start and a path to become accelerated: the neighbour has to be resolved, and both
/// interfaces restart after their programs were attached.
const READY_MAX: Duration = Duration::from_secs(5);

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
}

/// Frames that wait for a receiver that was put aside: 40 ms at 200,000 messages a second. The kernel's sockets get buffers
/// of 8 MiB for the same.
const STREAM_RING: u32 = 8192;

/// Frames that one kick sends in copy mode: a burst leaves by one call.
const BUDGET: u32 = 256;

/// An engine on the interface that has `local`; one that cannot go past the kernel is refused.
pub(crate) fn engine(local: IpAddr, load: Load) -> Result<Engine, Problem> {
    engine_with(local, load, Config::latency())
}

/// The same with other settings of TCP.
pub(crate) fn engine_with(local: IpAddr, load: Load, tcp: Config) -> Result<Engine, Problem> {
    let no_interface = || Problem::failed(format!("cannot use path xdp from {local}"), "no interface has it");
    let interface = interface::of_address(local).ok_or_else(no_interface)?;
    let options = match load {
        Load::RoundTrips => {
            EngineOptions { frames: 128, ring_entries: 64, fill: Some(16), ..EngineOptions::on(interface) }
        }
        Load::Stream => EngineOptions {
            frames: 2 * STREAM_RING,
            ring_entries: STREAM_RING,
            tx_budget: Some(BUDGET),
            ..EngineOptions::on(interface)
        },
    };
    // The ends say farewell to each other; what is under way then was measured, or is not wanted. Whatever the wire brings is
    // measured, by whatever queue: a device with one loses nothing by it.
    let (name, linger, queues) = ("sidestep bench".into(), Duration::ZERO, Queues::Every);
    let engine = Engine::open(&EngineOptions { name, linger, queues, tcp, ..options })?;
    match engine.refusal() {
        None => Ok(engine),
        Some((_, text)) => {
            Err(Problem::failed("cannot use path xdp", text).next("see what holds the interface: sidestep ps"))
        }
    }
}

/// Returns a note for the report.
fn note(engine: &Engine) -> String {
    let facts = engine.link();
    let xsk = facts.and_then(|facts| facts.xsks.first());
    let mode = xsk.map_or("", |xsk| xsk.mode.name());
    let place = facts.map_or("", |facts| &facts.place);
    let why = xsk.and_then(|xsk| xsk.downgrades.first()).map_or_else(String::new, |it| format!(" ({it})"));
    format!(
        "AF_XDP in {mode} mode on {place}{why}; the steering program is attached during these slices only, so that the kernel's \
         paths are measured without it"
    )
}
