//! UDP sockets: bind, connect, close.

use crate::engine::Engine;
use crate::error::Error;
use crate::fallback::udp::Twin;
use crate::options::{MulticastOut, UdpOptions};
use crate::udp::flows::Flows;
use crate::udp::room::QUEUE_MAX;
use crate::udp::socket::{Handle, SOCKETS_MAX, Socket, Statistics};
use sidestep_control_api::message::Protocol;
use sidestep_sys::Problem;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

/// Ports that the kernel is asked for until what comes to one comes by a queue of ours.
pub(crate) const PORT_TRIES: usize = 256;

impl Engine {
    /// Binds a UDP socket. The kernel decides whether it may, and gives the port where `address` has none; a group's address
    /// is allowed, too. Control is waited for a little (40 ms); if it has not answered by then, datagrams come by the kernel
    /// ([`crate::Reason::Opening`]), and past it as soon as it has, while the engine is polled.
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
    /// path is [`crate::Reason::QueueElsewhere`].
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
        // Memory until the end: a port that was let go would be given again.
        let mut others = Vec::new();
        let twin = loop {
            let (twin, local) = open().map_err(|error| {
                failed(&error).next(format!("see the route: ip route get {}", peer.ip())).errno(error.raw_os_error())
            })?;
            if others.len() == PORT_TRIES || self.is_good_port(local, peer) {
                break twin;
            }
            others.push(twin);
        };
        self.insert(twin, Some(peer), options).map_err(|error| failed(&error))
    }

    /// Returns whether datagrams of a peer to this address come by a queue of ours, or none of its ports is better.
    pub(crate) fn is_good_port(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        let toward = self.bypass.as_ref().map(|bypass| (bypass, bypass.queues.toward(Protocol::Udp, peer, local.ip())));
        let Some((bypass, Ok(Some(toward)))) = toward else { return true };
        bypass.queues.has_port(Some(&toward), local.port()) || !toward.depends_on_port()
    }

    /// A new socket over its twin.
    fn insert(&mut self, twin: Twin, peer: Option<SocketAddr>, options: &UdpOptions) -> Result<Handle, Problem> {
        self.insert_over(twin, peer, options, false)
    }

    pub(crate) fn insert_over(
        &mut self,
        twin: Twin,
        peer: Option<SocketAddr>,
        options: &UdpOptions,
        is_beside: bool,
    ) -> Result<Handle, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("it has no place", why);
        let local = twin.local().map_err(|error| failed(&error))?;
        if options.multicast_out == MulticastOut::Engine
            && !is_beside
            && let Some(bypass) = &self.bypass
        {
            // Without an address on the interface the kernel chooses the interface for what it sends.
            let _ = twin.set_multicast_out(bypass.device, bypass.routes.first_v4(bypass.device));
        }
        let socket = Socket {
            twin,
            is_beside,
            is_left: false,
            shares_groups: false,
            queued_bytes: 0,
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
        let handle = self
            .sockets
            .insert(socket)
            .ok_or_else(|| failed(&format!("an engine has at most {SOCKETS_MAX} sockets; close some")))?;
        let place = self.sockets.place(handle).map_err(|error| failed(&error))?;
        self.accelerate(place);
        self.await_control(place);
        self.count_sockets();
        Ok(handle)
    }

    /// Fixes the peer: from now on only its datagrams are received, and [`Engine::send`] sends to it. ICMP errors about it
    /// are returned by [`Engine::take_error`]. Control is waited for as in [`Engine::bind`].
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
            failed(&error).next(format!("see the route: ip route get {}", peer.ip())).errno(error.raw_os_error())
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
            socket.queue.into_iter().for_each(|datagram| self.give_back(datagram.storage));
        }
        self.count_sockets();
        Ok(())
    }
}
