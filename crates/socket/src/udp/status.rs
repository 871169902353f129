//! The path of a UDP socket, its counters, its errors.

use crate::engine::Engine;
use crate::error::Error;
use crate::reason::{Path, Reason};
use crate::udp::socket::{Handle, Statistics};
use sidestep_sys::error_queue::Undelivered;
use std::net::SocketAddr;

impl Engine {
    /// The address and port that the socket is bound to.
    pub fn local(&mut self, handle: Handle) -> Result<SocketAddr, Error> {
        let place = self.place(handle)?;
        self.sockets.at(place).map(|socket| socket.local).ok_or(Error::NotOpen)
    }

    /// The path of the socket's traffic: in both directions if it is connected, else of received datagrams. Until
    /// control has answered it is [`Reason::Opening`].
    pub fn path(&mut self, handle: Handle) -> Result<Path, Error> {
        let place = self.place(handle)?;
        let best = self.best_path();
        let Self { sockets, bypass, .. } = self;
        let socket = sockets.at(place).ok_or(Error::NotOpen)?;
        let detour = socket.detour.or_else(|| socket.groups.iter().find_map(|joined| joined.steered.err()));
        let is_asked =
            bypass.as_ref().is_some_and(|bypass| socket.entries().any(|entry| bypass.entries.is_asked(entry)));
        let detour = detour.or_else(|| socket.leaves_port().then_some(Reason::PortShared));
        let detour = detour.or_else(|| is_asked.then_some(Reason::Opening));
        match (best, detour, socket.peer) {
            (Path::Kernel(reason), ..) | (_, Some(reason), _) => Ok(Path::Kernel(reason)),
            (best, None, Some(peer)) => Ok(self.check_route(place, peer).map_or_else(Path::Kernel, |()| best)),
            (best, None, None) => Ok(best),
        }
    }

    /// The present path of datagrams to `peer`.
    pub fn path_to(&mut self, handle: Handle, peer: SocketAddr) -> Result<Path, Error> {
        let place = self.place(handle)?;
        match self.best_path() {
            Path::Kernel(reason) => Ok(Path::Kernel(reason)),
            best => Ok(self.check_route(place, peer).map_or_else(Path::Kernel, |()| best)),
        }
    }

    /// Datagrams of a socket that were received and not taken yet.
    pub fn unread(&mut self, handle: Handle) -> Result<usize, Error> {
        let place = self.place(handle)?;
        self.sockets.at(place).map(|socket| socket.queue.len()).ok_or(Error::NotOpen)
    }

    /// The socket's counters.
    pub fn statistics(&mut self, handle: Handle) -> Result<Statistics, Error> {
        let place = self.place(handle)?;
        self.sockets.at(place).map(|socket| socket.statistics).ok_or(Error::NotOpen)
    }

    /// The error of a datagram sent earlier, as the kernel twin learnt it by ICMP; an errno, told once.
    pub fn take_error(&mut self, handle: Handle) -> Result<Option<i32>, Error> {
        let place = self.place(handle)?;
        Ok(self.sockets.at(place).ok_or(Error::NotOpen)?.error.take())
    }

    /// Returns the oldest error about a datagram that did not arrive: of sockets with [`crate::UdpOptions::keep_errors`], whatever
    /// path it took. A system call.
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
}
