//! Sockets: bind, connect, close, and what is to be steered for them.

use crate::engine::Engine;
use crate::engine::bypass::Bypass;
use crate::engine::entries::give_back;
use crate::reason::{Path, Reason};
use crate::udp::datagram::Storage;
use crate::udp::socket::Socket;
use sidestep_control_api::counters::Counter;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_frame::FrameLink;
use sidestep_stack::udp::{Bind, SocketId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

impl Engine {
    /// Asks control to steer what is sent to a socket, and gives it a place in the stack; waits for nothing.
    pub(crate) fn accelerate(&mut self, place: usize) {
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
        if socket.is_left {
            return Err(Reason::Released);
        }
        let entries = wanted(bypass, socket)?;
        enter(bypass, socket, place)?;
        for entry in entries {
            let asked = self.steer(place, entry);
            let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return Err(Reason::Revoked) };
            let Some(socket) = sockets.at(place) else { return Err(Reason::Revoked) };
            if let Err(reason) = asked {
                give_back(&mut bypass.entries, agent.as_ref(), socket);
                return Err(reason);
            }
            socket.entries.push(entry);
        }
        Ok(())
    }

    /// Has the control agent watch the kernel twin, where most traffic does not come by it.
    pub(crate) fn watch(&mut self, place: usize) {
        let handle = self.sockets.handle(place);
        let Self { sockets, bypass, agent: Some(agent), .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        if socket.is_beside {
            // The program reads its own socket.
            let twin = std::os::fd::AsFd::as_fd(&socket.twin);
            socket.is_twin_watched = agent.watch_for_errors(twin, handle.number()).is_ok();
            socket.is_twin_ready = false;
            return;
        }
        let is_asked = |entry| bypass.as_ref().is_some_and(|bypass| bypass.entries.is_asked(entry));
        let is_steered = socket.detour.is_none() && socket.groups.iter().all(|joined| joined.steered.is_ok());
        let is_accelerated = is_steered && !socket.entries().any(is_asked);
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
    pub(crate) fn report(&mut self, place: usize) {
        let Some(agent) = &self.agent else { return };
        if let Some(Socket { local, detour: Some(reason), .. }) = self.sockets.at(place) {
            agent.report(format!("udp {local}"), reason.code());
        }
    }

    pub(crate) fn count_sockets(&mut self) {
        let Self { sockets, bypass, .. } = self;
        let is_asked = |entry: &Entry| bypass.as_ref().is_some_and(|bypass| bypass.entries.is_asked(*entry));
        let is_accelerated = |socket: &Socket| socket.detour.is_none() && !socket.entries.iter().any(is_asked);
        let bypass = sockets.iter_mut().filter(|(_, socket)| is_accelerated(socket)).count();
        self.counters.set(Counter::Sockets, self.sockets.len() as u64);
        self.counters.set(Counter::SocketsAccelerated, bypass as u64);
    }

    pub(crate) fn give_back(&mut self, storage: Storage) {
        match (storage, &mut self.bypass) {
            (Storage::Frame(frame), Some(bypass)) => bypass.link.release(frame),
            (Storage::Frame(_), None) => {}
            (Storage::Buffer(number), _) => self.buffers.give(number),
            (Storage::Copy(_), _) => {}
        }
    }
}

/// The steering entries for a socket's own address.
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
        // Of several sockets at one port the kernel selects the receiver of what is sent to this host.
        (None, _) if socket.is_beside && socket.options.reuse_address => Vec::new(),
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
        shares_port: socket.options.reuse_port || socket.is_beside && socket.options.reuse_address,
        takes_all_groups: socket.options.multicast_all,
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

pub(crate) fn join(
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
