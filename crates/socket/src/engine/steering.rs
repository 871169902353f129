//! Sockets: bind, connect, close, and what is to be steered for them.

use super::rules::give_back;
use super::share::QUEUE_MAX;
use super::socket::{Handle, Socket, Statistics};
use super::{Bypass, Engine};
use crate::datagram::Place;
use crate::error::Error;
use crate::flow::Flows;
use crate::options::{MulticastOut, UdpOptions};
use crate::reason::{Path, Reason};
use crate::twin::Twin;
use sidestep_control_api::counters::Counter;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_frame::FrameLink;
use sidestep_stack::udp::{Bind, SocketId};
use sidestep_sys::Problem;
use sidestep_sys::error_queue::Undelivered;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Ports that the kernel is asked for until what comes to one comes by a queue of ours.
const PORT_TRIES: usize = 256;

impl Engine {
    /// Binds a UDP socket. The kernel decides whether it may, and gives the port where `address` has none; a group's address
    /// is allowed, too. Control is waited for a little (40 ms); if it has not answered by then, datagrams come by the kernel
    /// ([`Reason::Opening`]), and past it as soon as it has, while the engine is polled.
    pub fn bind(&mut self, address: SocketAddr, options: &UdpOptions) -> Result<Handle, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot bind UDP {address}"), why);
        if !self.guard.is_same_process() {
            return Err(failed(&Error::Forked));
        }
        let twin = self.released.bind(address, || Twin::bind(address, options)).map_err(|error| {
            let next = format!("see who has the port: ss -ulpn sport = :{}", address.port());
            failed(&error).next(next).errno(error.raw_os_error())
        })?;
        self.insert(twin, None, options).map_err(|error| failed(&error))
    }

    /// Binds a UDP socket and fixes its peer at once ([`Engine::connect`]). Where the device receives by queues that are not
    /// this engine's, its port is one for which datagrams of the peer come by one that is, if that can be known; else its
    /// path is [`Reason::QueueElsewhere`].
    pub fn bind_toward(&mut self, peer: SocketAddr, options: &UdpOptions) -> Result<Handle, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot connect UDP to {peer}"), why);
        if !self.guard.is_same_process() {
            return Err(failed(&Error::Forked));
        }
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let open = || -> std::io::Result<(Twin, SocketAddr)> {
            let twin = Twin::bind(SocketAddr::new(any, 0), options)?;
            twin.connect(peer)?;
            let local = twin.local()?;
            Ok((twin, local))
        };
        let is_good = |local: SocketAddr| {
            let toward =
                self.bypass.as_ref().map(|bypass| (bypass, bypass.queues.toward(Protocol::Udp, peer, local.ip())));
            let Some((bypass, Ok(Some(toward)))) = toward else { return true };
            bypass.queues.has_port(Some(&toward), local.port()) || !toward.depends_on_port()
        };
        // Kept until the end: a port that was let go would be given again.
        let mut others = Vec::new();
        let twin = loop {
            let (twin, local) = open().map_err(|error| {
                failed(&error).next(format!("see the way: ip route get {}", peer.ip())).errno(error.raw_os_error())
            })?;
            if others.len() == PORT_TRIES || is_good(local) {
                break twin;
            }
            others.push(twin);
        };
        self.insert(twin, Some(peer), options).map_err(|error| failed(&error))
    }

    /// A new socket over its twin.
    fn insert(&mut self, twin: Twin, peer: Option<SocketAddr>, options: &UdpOptions) -> Result<Handle, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("it has no place", why);
        let local = twin.local().map_err(|error| failed(&error))?;
        if options.multicast_out == MulticastOut::Engine
            && let Some(bypass) = &self.bypass
        {
            // Without an address on the interface the kernel chooses the way for what it sends.
            let _ = twin.set_multicast_out(bypass.device, bypass.routes.first_v4(bypass.device));
        }
        let socket = Socket {
            twin,
            local,
            peer,
            options: *options,
            id: None,
            detour: None,
            entries: Vec::new(),
            groups: Vec::new(),
            flows: Flows::default(),
            queue: VecDeque::with_capacity(if self.bypass.is_some() { QUEUE_MAX } else { 0 }),
            is_twin_ready: true,
            is_twin_watched: false,
            error: None,
            statistics: Statistics::default(),
        };
        let handle = self.sockets.insert(socket).ok_or_else(|| failed(&"the engine has as many sockets as it may"))?;
        let place = self.sockets.place(handle).map_err(|error| failed(&error))?;
        self.accelerate(place);
        self.await_control(place);
        self.count_sockets();
        Ok(handle)
    }

    /// Fixes the peer: from now on only its datagrams are received, and [`Engine::send`] sends to it. ICMP errors about it
    /// are told by [`Engine::take_error`]. Control is waited for as in [`Engine::bind`].
    pub fn connect(&mut self, handle: Handle, peer: SocketAddr) -> Result<(), Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot connect UDP to {peer}"), why);
        let place = self.place(handle).map_err(|error| failed(&error))?;
        // A socket that is connected does not prove its port: what came by that goes back first.
        self.withdraw(place);
        let socket = self.sockets.at(place).ok_or_else(|| failed(&Error::NotOpen))?;
        let connected = socket.twin.connect(peer);
        if connected.is_ok() {
            socket.local = socket.twin.local().unwrap_or(socket.local);
            (socket.peer, socket.is_twin_ready) = (Some(peer), true);
            socket.flows.clear();
        }
        self.accelerate(place);
        self.await_control(place);
        connected.map_err(|error| {
            failed(&error).next(format!("see the way: ip route get {}", peer.ip())).errno(error.raw_os_error())
        })?;
        self.count_sockets();
        Ok(())
    }

    /// Closes a socket; what it has not fetched is dropped.
    pub fn close(&mut self, handle: Handle) -> Result<(), Error> {
        let place = self.place(handle)?;
        self.withdraw(place);
        self.leave_all(place);
        if let (Some(id), Some(bypass)) = (self.sockets.at(place).and_then(|socket| socket.id.take()), &mut self.bypass)
        {
            // The stack knows every socket that has a number.
            let _ = bypass.stack.udp().close(id);
        }
        if let Some(socket) = self.sockets.remove(place) {
            if let Some(agent) = &self.agent {
                agent.forget(std::os::fd::AsFd::as_fd(&socket.twin));
            }
            self.released.note(socket.local.port());
            self.sockets.queued -= socket.queue.len();
            socket.queue.into_iter().for_each(|datagram| self.give_back(datagram.place));
        }
        self.count_sockets();
        Ok(())
    }

    /// What the socket is bound to.
    pub fn local(&mut self, handle: Handle) -> Result<SocketAddr, Error> {
        let place = self.place(handle)?;
        self.sockets.at(place).map(|socket| socket.local).ok_or(Error::NotOpen)
    }

    /// Which way the socket's traffic goes: both directions, where it is connected; what it receives, where it is not. Until
    /// control has answered it is [`Reason::Opening`].
    pub fn path(&mut self, handle: Handle) -> Result<Path, Error> {
        let place = self.place(handle)?;
        let best = self.best_path();
        let Self { sockets, bypass, .. } = self;
        let socket = sockets.at(place).ok_or(Error::NotOpen)?;
        let detour = socket.detour.or_else(|| socket.groups.iter().find_map(|joined| joined.steered.err()));
        let is_asked = bypass.as_ref().is_some_and(|bypass| socket.rules().any(|entry| bypass.rules.is_asked(entry)));
        let detour = detour.or_else(|| is_asked.then_some(Reason::Opening));
        match (best, detour, socket.peer) {
            (Path::Kernel(reason), ..) | (_, Some(reason), _) => Ok(Path::Kernel(reason)),
            (best, None, Some(peer)) => Ok(self.way(place, peer).map_or_else(Path::Kernel, |()| best)),
            (best, None, None) => Ok(best),
        }
    }

    /// Which way datagrams to `peer` go at present.
    pub fn path_to(&mut self, handle: Handle, peer: SocketAddr) -> Result<Path, Error> {
        let place = self.place(handle)?;
        match self.best_path() {
            Path::Kernel(reason) => Ok(Path::Kernel(reason)),
            best => Ok(self.way(place, peer).map_or_else(Path::Kernel, |()| best)),
        }
    }

    /// What the socket has done.
    pub fn statistics(&mut self, handle: Handle) -> Result<Statistics, Error> {
        let place = self.place(handle)?;
        self.sockets.at(place).map(|socket| socket.statistics).ok_or(Error::NotOpen)
    }

    /// What went wrong with a datagram sent earlier, as the kernel's socket learnt it by ICMP; an errno, once.
    pub fn take_error(&mut self, handle: Handle) -> Result<Option<i32>, Error> {
        let place = self.place(handle)?;
        Ok(self.sockets.at(place).ok_or(Error::NotOpen)?.error.take())
    }

    /// What became of a datagram that did not arrive, the oldest first: of sockets with [`UdpOptions::keep_errors`], whatever
    /// way it was sent. A system call.
    pub fn next_error(&mut self, handle: Handle) -> Result<Option<Undelivered>, Error> {
        let place = self.place(handle)?;
        let socket = self.sockets.at(place).ok_or(Error::NotOpen)?;
        // What cannot be asked has nothing to tell.
        let error = socket.twin.next_error().ok().flatten();
        if let Some(Undelivered { destination, mtu: Some(mtu), .. }) = error {
            socket.flows.lower_mtu(&destination, mtu);
        }
        Ok(error)
    }

    /// Asks control to steer what is sent to a socket, and gives it a place in the stack; waits for nothing.
    pub(super) fn accelerate(&mut self, place: usize) {
        let best = self.best_path();
        let detour = match best {
            Path::Kernel(reason) => Some(reason),
            Path::Accelerated { .. } => self.try_to_accelerate(place).err(),
        };
        self.sockets.at(place).into_iter().for_each(|socket| socket.detour = detour);
        self.watch(place);
        self.report(place);
    }

    fn try_to_accelerate(&mut self, place: usize) -> Result<(), Reason> {
        let Self { sockets, bypass, .. } = self;
        let (Some(bypass), Some(socket)) = (bypass.as_mut(), sockets.at(place)) else { return Err(Reason::Revoked) };
        let entries = wanted(bypass, socket)?;
        enter(bypass, socket, place)?;
        for entry in entries {
            let asked = self.steer(place, entry);
            let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return Err(Reason::Revoked) };
            let Some(socket) = sockets.at(place) else { return Err(Reason::Revoked) };
            if let Err(reason) = asked {
                give_back(&mut bypass.rules, agent.as_ref(), socket);
                return Err(reason);
            }
            socket.entries.push(entry);
        }
        Ok(())
    }

    /// Has the thread beside us look after the kernel's socket, where most does not come by it.
    pub(super) fn watch(&mut self, place: usize) {
        let handle = self.sockets.handle(place);
        let Self { sockets, bypass, agent: Some(agent), .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        let is_asked = |entry| bypass.as_ref().is_some_and(|bypass| bypass.rules.is_asked(entry));
        let is_steered = socket.detour.is_none() && socket.groups.iter().all(|joined| joined.steered.is_ok());
        let is_accelerated = is_steered && !socket.rules().any(is_asked);
        if is_accelerated && !socket.is_twin_watched {
            let twin = std::os::fd::AsFd::as_fd(&socket.twin);
            socket.is_twin_watched = agent.watch(twin, handle.number()).is_ok();
        } else if !is_accelerated && socket.is_twin_watched {
            agent.forget(std::os::fd::AsFd::as_fd(&socket.twin));
            socket.is_twin_watched = false;
        }
        socket.is_twin_ready = true;
    }

    /// Tells `sidestep ps` what stays with the kernel.
    pub(super) fn report(&mut self, place: usize) {
        let Some(agent) = &self.agent else { return };
        if let Some(Socket { local, detour: Some(reason), .. }) = self.sockets.at(place) {
            agent.report(format!("udp {local}"), reason.code());
        }
    }

    pub(super) fn count_sockets(&mut self) {
        let Self { sockets, bypass, .. } = self;
        let is_asked = |entry: &Entry| bypass.as_ref().is_some_and(|bypass| bypass.rules.is_asked(*entry));
        let is_accelerated = |socket: &Socket| socket.detour.is_none() && !socket.entries.iter().any(is_asked);
        let bypass = sockets.iter_mut().filter(|(_, socket)| is_accelerated(socket)).count();
        self.counters.set(Counter::Sockets, self.sockets.len() as u64);
        self.counters.set(Counter::SocketsAccelerated, bypass as u64);
    }

    pub(super) fn give_back(&mut self, place: Place) {
        match (place, &mut self.bypass) {
            (Place::Frame(frame), Some(bypass)) => bypass.link.release(frame),
            (Place::Frame(_), None) => {}
            (Place::Buffer(number), _) => self.buffers.give(number),
        }
    }
}

/// The rules for a socket's own address.
fn wanted(bypass: &Bypass, socket: &Socket) -> Result<Vec<Entry>, Reason> {
    let (local, protocol) = (socket.local, Protocol::Udp);
    let is_here = |address: IpAddr| address.is_loopback() || bypass.routes.is_ours(address);
    if local.ip().is_loopback() || socket.peer.is_some_and(|peer| is_here(peer.ip())) {
        return Err(Reason::LoopbackOrLocal);
    }
    let vlan = bypass.routes.interface_of(local.ip());
    let vlan = vlan.and_then(|interface| bypass.routes.vlan_of_interface(interface, bypass.device)).flatten();
    let listener = |local| Entry::Listener { protocol, local, vlan };
    Ok(match (socket.peer, local) {
        // What is sent to a group is steered when it is joined.
        _ if local.ip().is_multicast() => Vec::new(),
        // Who is connected receives from its peer alone, and a group sends nothing.
        (Some(peer), _) if peer.ip().is_multicast() => Vec::new(),
        (Some(remote), _) => {
            if !bypass.queues.receives(protocol, remote, local) {
                return Err(Reason::QueueElsewhere);
            }
            vec![Entry::Flow { protocol, local, remote, vlan }]
        }
        (None, SocketAddr::V6(both)) if both.ip().is_unspecified() && !socket.options.only_v6 => {
            vec![listener(local), listener((Ipv4Addr::UNSPECIFIED, both.port()).into())]
        }
        (None, _) => vec![listener(local)],
    })
}

/// Puts the socket where the stack finds it, before the first packet comes.
fn enter(bypass: &mut Bypass, socket: &mut Socket, place: usize) -> Result<(), Reason> {
    let udp = bypass.stack.udp();
    if let Some(id) = socket.id.take() {
        // Bound anew below, as connecting changes the local address.
        let _ = udp.close(id);
    }
    let bind = Bind {
        only_v6: socket.options.only_v6,
        shares_port: socket.options.reuse_port,
        takes_all_groups: false,
        ..Bind::new(socket.local)
    };
    let id = udp.bind(&bind).map_err(|_| Reason::TooManyEntries)?;
    for joined in &socket.groups {
        // They were joined before, in this order.
        let _ = join(bypass, id, joined.group, joined.interface, joined.source);
    }
    if let Some(peer) = socket.peer.filter(|peer| !peer.ip().is_multicast()) {
        bypass.stack.udp().connect(id, socket.local.ip(), peer).map_err(|_| Reason::Refused)?;
    }
    if bypass.owners.len() <= id.index() {
        bypass.owners.resize(id.index() + 1, 0);
    }
    bypass.owners[id.index()] = place as u32;
    socket.id = Some(id);
    Ok(())
}

pub(super) fn join(
    bypass: &mut Bypass,
    id: SocketId,
    group: IpAddr,
    interface: u32,
    source: Option<IpAddr>,
) -> Result<(), sidestep_stack::udp::TableError> {
    match source {
        Some(source) => bypass.stack.udp().join_source(id, group, interface, source),
        None => bypass.stack.udp().join(id, group, interface),
    }
}
