//! The control plane: what needs privilege, so that applications need none.
//!
//! One daemon per network namespace. It mirrors the kernel's links, addresses, routes and neighbours into shared memory,
//! attaches the steering program, makes AF_XDP sockets and hands them to applications that are on its list, and takes
//! everything back when they end. It touches no packet.
#![forbid(unsafe_code)]

mod daemon;
mod dataplane;
mod foreign;
mod guard;
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
use state::State;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use xdp::Xdp;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Serve these interfaces alone, from the start to the end; any, from its first stack to the end, where none is named.
    pub interfaces: Vec<String>,
    /// Who may use it.
    pub permit: Permit,
    /// Where to listen; the place of this network namespace if not given.
    pub socket: Option<PathBuf>,
    /// Detach from an interface that is not named with its last stack, and not only at the end: some devices drop their link
    /// each time.
    pub detaches_unused: bool,
}

/// Descriptors that entries leave alone: three per client, those of programs and maps, and those on their way.
const DESCRIPTORS_KEPT: usize = 2048;

/// Serves the network namespace of the calling thread until `stop` is set, then leaves the host as it was.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), Problem> {
    let state = State::take(&place::directory()?)?;
    sweep::sweep(state.directory());
    let descriptors = raise_descriptor_limit();
    // Before there are descriptors of others, which its thread would have for a moment.
    let reaper = Reaper::start()?;
    let here = here()?;
    let now = Instant::now();
    let mirror = Mirror::open(place::namespace_inode()?, None)?;
    let socket = options.socket.clone().unwrap_or_else(|| place::socket_in(state.directory()));
    // Before anything is attached: nothing may stay behind where somebody else listens.
    let listener = Listener::open(&socket, options.permit.clone())?;
    let dataplane = Xdp::start(&state.pins(), &options.interfaces, options.detaches_unused, mirror.links())?;
    let records = state.records();
    let mut registry = Registry::new(dataplane, state);
    registry.limit_entries(descriptors - DESCRIPTORS_KEPT.min(descriptors / 2));
    options.permit.queues_per_user().into_iter().for_each(|queues| registry.set_queues_per_user(queues));
    registry.adopt(records, now);
    note(format!("control plane of this network namespace, at {}", socket.display()));
    let state = Daemon::new(mirror, listener, reaper, registry, here).run(stop)?;
    state.remove()
}

/// Detaches everything that a control of this network namespace has attached, and removes what it remembers. Refuses while
/// one is running. Returns how many interfaces were freed. Folders of network namespaces that are gone go, too.
pub fn cleanup() -> Result<usize, Problem> {
    let state = State::take(&place::directory()?)?;
    sweep::sweep(state.directory());
    let freed = Xdp::cleanup(&state.pins())?;
    state.remove()?;
    Ok(freed)
}

/// The calling thread's network namespace.
fn here() -> Result<Here, Problem> {
    let failed = |error| Problem::failed("cannot tell this network namespace", error).next("it needs Linux 5.14");
    let guard = Guard::open().map_err(failed)?;
    let cookie = UdpSocket::bind("0.0.0.0:0").and_then(|socket| sidestep_sys::socket::netns_cookie(socket.as_fd()));
    Ok(Here { cookie: cookie.map_err(failed)?, guard })
}

/// Every entry holds a kernel socket, and every reserved port; the usual limit of 1024 is for programs that do not.
/// Returns how many there may be.
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With less, connections and entries are refused earlier, and said so.
    let _ = setrlimit(Resource::Nofile, limit);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit).unwrap_or(usize::MAX)
}
