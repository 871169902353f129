//! The control plane: it does what needs privilege, so that applications need none.
//!
//! There is one daemon per network namespace. It mirrors the kernel's links, addresses, routes and neighbours into
//! shared memory, attaches the steering program, makes AF_XDP sockets and hands them to permitted applications, and
//! takes everything back when they end. It does not touch packets.
#![forbid(unsafe_code)]

mod daemon;
mod dataplane;
mod foreign;
mod guard;
mod hand_over;
mod icmp;
pub mod mirror;
mod netlink;
pub mod permit;
mod ports;
mod reaper;
mod registry;
mod state;
mod sweep;
#[cfg(test)]
mod testing;
mod twin;
mod xdp;

use daemon::{Daemon, Here, Listener};
use guard::Guard;
use mirror::Mirror;
use permit::Permit;
use reaper::Reaper;
use registry::Registry;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::problem::note;
use sidestep_sys::xdp::program::Injector;
use state::State;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use xdp::Xdp;

/// Options of the daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interfaces to serve, attached from start to end. If empty, any interface, attached from its first stack on.
    pub interfaces: Vec<String>,
    /// The permitted users.
    pub permit: Permit,
    /// The path to listen at; by default that of this network namespace.
    pub socket: Option<PathBuf>,
    /// True to detach from an unnamed interface with its last stack, and not only at the end: some devices drop their
    /// link each time.
    pub detaches_unused: bool,
}

/// The time without an application after which a control ends that is not to outlive them: a program that goes into the
/// background leaves its first process, and connects again.
pub const UNUSED_WAIT: Duration = Duration::from_secs(10);

/// Descriptors that entries may not use: three per client, those of programs and maps, and those in transit.
const DESCRIPTORS_KEPT: usize = 2048;

/// The nice value of the serving thread (sched(7)): programs distrust a control that is silent for three seconds, however busy the host is. It
/// works for microseconds at a time.
const NICE: i32 = -10;

/// Serves the network namespace of the calling thread until `stop` is set, then restores the host.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), Problem> {
    serve(options, stop, None)
}

/// Serves as [`run`] does, and ends also after [`UNUSED_WAIT`] without an application.
pub fn run_while_used(options: &Options, stop: &AtomicBool) -> Result<(), Problem> {
    serve(options, stop, Some(UNUSED_WAIT))
}

fn serve(options: &Options, stop: &AtomicBool, unused_wait: Option<Duration>) -> Result<(), Problem> {
    let state = State::take(&place::directory()?)?;
    sweep::sweep(state.directory());
    // Without CAP_SYS_NICE it keeps what its service manager has set.
    let _ = rustix::process::setpriority_process(None, NICE);
    let descriptors = raise_descriptor_limit();
    // Before there are descriptors of others, which its thread would share for a moment.
    let reaper = Reaper::start()?;
    let here = here()?;
    let now = Instant::now();
    let mirror = Mirror::open(place::namespace_inode()?, None)?;
    let socket = options.socket.clone().unwrap_or_else(|| place::socket_in(state.directory()));
    // Before anything is attached: nothing may be left behind if another process listens there.
    let listener = Listener::open(&socket, options.permit.clone())?;
    let dataplane = Xdp::start(&state.pins(), &options.interfaces, options.detaches_unused, mirror.links())?;
    let records = state.records();
    let mut registry = Registry::new(dataplane, state)?;
    registry.limit_entries(descriptors - DESCRIPTORS_KEPT.min(descriptors / 2));
    options.permit.queues_per_user().into_iter().for_each(|queues| registry.set_queues_per_user(queues));
    registry.set_hand_overs(options.permit.hand_overs());
    registry.adopt(records, now);
    note(format!("control plane of this network namespace, at {}", socket.display()));
    let mut daemon = Daemon::new(mirror, listener, reaper, registry, here);
    daemon.end_after_unused(unused_wait);
    let state = daemon.run(stop)?;
    state.remove()
}

/// Detaches everything that a control of this network namespace has attached, and removes its state. Refuses while one
/// is running. Returns the number of interfaces detached. Also removes the folders of network namespaces that are gone.
pub fn cleanup() -> Result<usize, Problem> {
    let state = State::take(&place::directory()?)?;
    sweep::sweep(state.directory());
    let freed = Xdp::cleanup(&state.pins())?;
    state.remove()?;
    Ok(freed)
}

/// The calling thread's network namespace.
fn here() -> Result<Here, Problem> {
    let failed = |error| Problem::failed("cannot identify this network namespace", error).next("it needs Linux 5.14");
    let guard = Guard::open().map_err(failed)?;
    let cookie = UdpSocket::bind("0.0.0.0:0").and_then(|socket| sidestep_sys::socket::netns_cookie(socket.as_fd()));
    // Without it connections whose peer has finished cannot be handed over, which says so.
    let injector = Injector::load().ok();
    Ok(Here { cookie: cookie.map_err(failed)?, guard, injector })
}

/// Raises the limit of open files: every entry and every reserved port holds a kernel socket, and the usual limit is
/// 1024. Returns the limit.
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With less, connections and entries are refused earlier, with that reason.
    let _ = setrlimit(Resource::Nofile, limit);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit).unwrap_or(usize::MAX)
}
