//! Which sockets of UDP go past the kernel, from when they are bound, connected, or sent from for the first time.

use super::{Datagrams, early, options};
use crate::description::{Description, Kind};
use crate::engine::{self, Shared};
use crate::environment;
use crate::status::{self, Why};
use crate::stdio;
use crate::watchers::Watchers;
use libc::c_int;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::{AddressFamily, SocketType, bind, getpeername, getsockname, ipproto, sockopt};
use sidestep_socket::{Path, Reason};
use sidestep_unmodified::options::Transport;
use sidestep_unmodified::status::SocketKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Returns whether a socket is one of UDP, and if so whether of IPv6.
fn family(socket: BorrowedFd<'_>) -> Option<bool> {
    let family = sockopt::socket_domain(socket).ok()?;
    let is_udp = [AddressFamily::INET, AddressFamily::INET6].contains(&family)
        && sockopt::socket_type(socket).ok()? == SocketType::DGRAM
        && sockopt::socket_protocol(socket).ok()? == Some(ipproto::UDP);
    is_udp.then_some(family == AddressFamily::INET6)
}

fn unmapped(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

fn local_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    getsockname(socket).ok().and_then(|any| SocketAddr::try_from(any).ok()).map(unmapped)
}

pub(crate) fn peer_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    getpeername(socket).ok().flatten().and_then(|any| SocketAddr::try_from(any).ok()).map(unmapped)
}

/// Returns whether datagrams to an address can leave this host.
fn is_elsewhere(ip: IpAddr) -> bool {
    !ip.is_loopback() && !ip.is_unspecified()
}

/// The engine for a socket, or the reason why the kernel has it.
fn engine_for(socket: BorrowedFd<'_>, local: SocketAddr, peer: Option<SocketAddr>) -> Result<Arc<Shared>, Reason> {
    if local.ip().is_loopback() || peer.is_some_and(|peer| !is_elsewhere(peer.ip())) {
        return Err(Reason::LoopbackOrLocal);
    }
    if options::is_unusual(socket) || !environment::settings().accelerate.admits(Transport::Udp, Some(local), peer) {
        return Err(Reason::NotWanted);
    }
    match peer {
        Some(peer) => engine::open_toward(peer.ip()),
        None if local.ip().is_multicast() => engine::open_at(unspecified(local.is_ipv4())),
        None => engine::open_at(local.ip()),
    }
}

fn unspecified(is_ipv4: bool) -> IpAddr {
    if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Puts a socket that is bound past the kernel, if it is one of UDP.
pub(crate) fn begin(number: c_int) {
    early::take_fresh(number);
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let Some(is_ipv6) = family(socket) else { return };
    let (Some(local), peer) = (local_of(socket).filter(|local| local.port() != 0), peer_of(socket)) else { return };
    let why = stdio::why_kernel(number, socket);
    let told = early::take(socket);
    let engine = match engine_for(socket, local, peer) {
        Ok(_) if let Some(why) = why => return status::by_kernel(number, SocketKind::UdpSocket, why),
        Ok(_) if told.is_odd || raises_signals(socket) => Err(Reason::NotWanted),
        engine => engine,
    };
    match engine {
        Ok(engine) => begin_on(&engine, number, is_ipv6, &told),
        Err(reason) => {
            status::by_kernel(number, SocketKind::UdpSocket, Why::Of(reason));
            engine::report_kernel(|| named(local, peer), reason);
        }
    }
}

/// O_ASYNC
fn raises_signals(socket: BorrowedFd<'_>) -> bool {
    fcntl_getfl(socket).is_ok_and(|flags| flags.contains(crate::accelerate::ASYNC))
}

pub(super) fn named(local: SocketAddr, peer: Option<SocketAddr>) -> String {
    match peer {
        Some(peer) => format!("UDP from {local} to {peer}"),
        None => format!("UDP at {local}"),
    }
}

fn begin_on(engine: &Arc<Shared>, number: c_int, is_ipv6: bool, told: &early::Early) {
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let Ok(flags) = fcntl_getfl(socket) else { return };
    let Some(twin) = engine::duplicate(socket) else {
        return status::by_kernel(number, SocketKind::UdpSocket, Why::NoDescriptor);
    };
    let options = options::of(socket, is_ipv6, told.multicast_interface);
    let handle = match engine.with(|engine| engine.bind_beside(twin, &options)) {
        Ok(handle) => handle,
        Err(problem) => {
            status::by_kernel(number, SocketKind::UdpSocket, Why::Of(Reason::Refused));
            return engine.report(&problem.brief());
        }
    };
    let watchers = Arc::new(Watchers::default());
    engine.know_datagrams(handle, &watchers);
    let datagrams = Datagrams::new(Arc::clone(engine), handle, socket, is_ipv6, told.multicast_interface);
    told.memberships.iter().for_each(|membership| datagrams.follow_membership(socket, *membership));
    let path = engine.with(|engine| engine.path(handle)).unwrap_or(Path::Kernel(Reason::Revoked));
    engine.with(|engine| datagrams.report(engine));
    if let Path::Kernel(reason) = path
        && is_for_good(reason)
    {
        status::by_kernel(number, SocketKind::UdpSocket, Why::Of(reason));
        return;
    }
    crate::accelerate::put(
        number,
        &Description::new(Kind::Datagrams(datagrams), watchers, flags.contains(OFlags::NONBLOCK)),
    );
}

/// Returns whether a reason leaves nothing to be done past the kernel, neither receiving nor sending.
fn is_for_good(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotWanted
            | Reason::LoopbackOrLocal
            | Reason::Taken
            | Reason::Refused
            | Reason::RouteNotOnInterface
            | Reason::TooManyEntries
    )
}

/// Before connect(2) of a socket: one that has no port gets one for which the peer's datagrams come by a queue of ours.
pub(crate) fn before_connect(number: c_int, remote: SocketAddr) {
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let remote = unmapped(remote);
    let Some(is_ipv6) = family(socket) else { return };
    let Some(local) = local_of(socket).filter(|local| local.port() == 0) else { return };
    let Ok(engine) = engine_for(socket, local, Some(remote)) else { return };
    if let Some(port) = engine.with(|engine| engine.port_toward(remote)) {
        // Where another has got it meanwhile the kernel gives another one.
        let _ = bind(socket, &SocketAddr::new(unspecified(!is_ipv6), port));
    }
}

/// Before the first datagram of a socket that was just made: it is bound, as the kernel would do, so that the answer comes past it.
#[inline]
pub(crate) fn before_send(number: c_int) {
    if early::take_fresh(number) {
        bind_and_begin(number);
    }
}

#[cold]
fn bind_and_begin(number: c_int) {
    let _inside = crate::signals::Inside::enter();
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let Some(is_ipv6) = family(socket) else { return };
    if local_of(socket).is_some_and(|local| local.port() == 0) {
        // Where there is no port left the program's own call says so.
        let _ = bind(socket, &SocketAddr::new(unspecified(!is_ipv6), 0));
        begin(number);
    }
}
