//! Datagram sockets beside a program's own, which the program binds, connects, reads and sends by itself.

use crate::engine::Engine;
use crate::error::Error;
use crate::fallback::udp::Twin;
use crate::options::UdpOptions;
use crate::reason::Reason;
use crate::udp::bind::PORT_TRIES;
use crate::udp::datagram::Datagram;
use crate::udp::socket::Handle;
use sidestep_sys::Problem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

impl Engine {
    /// A UDP socket past the kernel beside a program's own, of which `twin` is a duplicate: bound, and connected if the program
    /// has connected it. It carries what is steered to it; the program reads its own socket as well, and sends by it what this one
    /// refuses ([`crate::SendError::Beside`]). The program's socket is never read, written or changed here, but for
    /// [`Engine::connect`].
    pub fn bind_beside(&mut self, twin: OwnedFd, options: &UdpOptions) -> Result<Handle, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot put a UDP socket past the kernel", why);
        if !self.guard.is_same_process() {
            return Err(failed(&Error::Forked));
        }
        let twin = Twin::adopt(twin);
        let peer = twin.peer();
        self.insert_over(twin, peer, options, true).map_err(|error| failed(&error))
    }

    /// Follows a program's own socket that has been connected, dissolved, or given other options. What is unread stays.
    pub fn follow_beside(&mut self, handle: Handle, options: &UdpOptions) -> Result<(), Error> {
        let place = self.place(handle)?;
        let socket = self.sockets.at(place).ok_or(Error::NotOpen)?;
        let (local, peer) = (socket.twin.local().unwrap_or(socket.local), socket.twin.peer());
        let is_moved = (local, peer) != (socket.local, socket.peer) || is_steered_otherwise(&socket.options, options);
        socket.options = *options;
        socket.flows.clear();
        if is_moved && !socket.is_left {
            self.withdraw(place);
            self.sockets.at(place).into_iter().for_each(|socket| (socket.local, socket.peer) = (local, peer));
            self.accelerate(place);
            self.await_control(place);
            self.count_sockets();
        }
        Ok(())
    }

    /// Leaves everything to the program's own socket, for good. What is unread here is still received.
    pub fn leave_beside(&mut self, handle: Handle) -> Result<(), Error> {
        let place = self.place(handle)?;
        self.withdraw(place);
        self.leave_all(place);
        let Self { sockets, bypass, .. } = self;
        let socket = sockets.at(place).ok_or(Error::NotOpen)?;
        (socket.is_left, socket.detour) = (true, Some(Reason::Released));
        if let (Some(id), Some(bypass)) = (socket.id.take(), bypass) {
            // The stack knows every socket that has a number.
            let _ = bypass.stack.udp().close(id);
        }
        self.count_sockets();
        Ok(())
    }

    /// The next datagram past the kernel, which stays to be received, and its payload.
    pub fn peek(&mut self, handle: Handle) -> Result<Option<(&Datagram, &[u8])>, Error> {
        let place = self.place(handle)?;
        if self.sockets.at(place).is_some_and(|socket| socket.queue.is_empty()) {
            self.poll()?;
        }
        let front = self.sockets.get(place).and_then(|socket| socket.queue.front());
        Ok(front.map(|datagram| (datagram, self.payload(datagram))))
    }

    /// Returns whether the program's own socket has had an error since this was last asked: the next call is to be made on it.
    #[inline]
    pub fn take_beside_error(&mut self, handle: Handle) -> bool {
        let Ok(place) = self.place(handle) else { return false };
        let has_error = self.sockets.at(place).is_some_and(|socket| std::mem::take(&mut socket.is_twin_ready));
        if has_error {
            self.watch(place);
        }
        has_error
    }

    /// Has every datagram that comes from now on carry the time at which it was taken from the ring ([`crate::EngineOptions::timestamps`]).
    pub fn keep_timestamps(&mut self) {
        self.timestamps = true;
    }

    /// A local port for which datagrams of a peer come by a queue of this engine. `None`: any port will do, or none is known to.
    pub fn port_toward(&self, peer: SocketAddr) -> Option<u16> {
        let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let mut others = Vec::new();
        while others.len() < PORT_TRIES {
            let probe = Twin::bind(SocketAddr::new(any, 0), &UdpOptions::default()).ok()?;
            probe.connect(peer).ok()?;
            let local = probe.local().ok()?;
            if self.is_good_port(local, peer) {
                return (!others.is_empty()).then_some(local.port());
            }
            // It would be given again.
            others.push(probe);
        }
        None
    }
}

/// Returns whether options differ that decide what is steered.
fn is_steered_otherwise(before: &UdpOptions, now: &UdpOptions) -> bool {
    let of = |options: &UdpOptions| (options.only_v6, options.reuse_address, options.reuse_port, options.multicast_all);
    of(before) != of(now)
}
