//! Kernel sockets of entries: the proof of a right to the traffic, and the way that it takes where no ring carries it.

use super::FlowOptions;
use crate::fallback::udp::Twin as Socket;
use crate::options::UdpOptions;
use sidestep_sys::Problem;
use sidestep_sys::drop_filter::{self, Owner};
use sidestep_sys::socket::bind_to_interface;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The reader's end of a kernel socket.
pub(super) struct Twin {
    pub(super) number: u32,
    socket: Socket,
    local: SocketAddr,
    /// True while rings carry the traffic: the socket then drops everything.
    pub(super) is_carried: bool,
    /// True until what came before the rings carried the traffic is read.
    pub(super) has_backlog: bool,
}

/// The agent's end: a descriptor of the same socket, and its filter.
pub(super) struct Proof {
    socket: OwnedFd,
    owner: Owner,
}

impl Twin {
    /// A member of a group, bound to the group itself: it receives no other.
    pub(super) fn join(
        number: u32,
        group: SocketAddr,
        source: Option<IpAddr>,
        index: u32,
        options: &FlowOptions,
    ) -> Result<Self, Problem> {
        let at = match group {
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, index).into(),
            v4 => v4,
        };
        let failed = |error: &io::Error| cannot(&format!("join {group} on {}", options.interface), error);
        // Several programs may receive a group.
        let socket = Socket::bind(at, &of_socket(true, options)).map_err(|error| failed(&error))?;
        socket.join(group.ip(), index, source).map_err(|error| failed(&error))?;
        Ok(Self { number, socket, local: group, is_carried: false, has_backlog: false })
    }

    /// A port of this host, for what comes by the interface: a ring carries nothing else.
    pub(super) fn bind(number: u32, local: SocketAddr, index: u32, options: &FlowOptions) -> Result<Self, Problem> {
        let failed = |error: &io::Error| cannot(&format!("bind {local}"), error);
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::AddrNotAvailable => {
                failed(&error).next("use an address of this host (see: ip address) or 0.0.0.0; a tap needs neither")
            }
            ErrorKind::AddrInUse => {
                failed(&error).next("end the program that has the port (see: ss -ulpn), or use a tap")
            }
            _ => failed(&error),
        };
        let socket = Socket::bind(local, &of_socket(false, options)).map_err(refused)?;
        bind_to_interface(socket.as_fd(), index).map_err(|error| failed(&error))?;
        let local = socket.local().map_err(|error| failed(&error))?;
        Ok(Self { number, socket, local, is_carried: false, has_backlog: false })
    }

    /// Rings carry the traffic from now on, and the socket drops everything; or it is read again.
    pub(super) fn set_carried(&mut self, is_carried: bool) {
        self.has_backlog = is_carried && (self.has_backlog || !self.is_carried);
        self.is_carried = is_carried;
    }

    /// The address that it is bound to.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn proof(&self) -> Result<Proof, Problem> {
        let socket = self.socket.duplicate().map_err(|error| cannot(&format!("use {}", self.local), &error))?;
        Ok(Proof { socket, owner: Owner::new() })
    }

    /// Receives a datagram; `None` if there is none.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        loop {
            match self.socket.receive(buffer) {
                Ok(received) => return Some(received),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Errors of a socket that sends nothing are none of its own packets.
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Twin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Proof {
    /// Has the socket drop what comes by the kernel: rings carry it, and nobody would empty the socket's buffer.
    pub(super) fn deafen(&self) {
        // Without the filter the buffer fills, and what is in it comes late when the rings are gone.
        let _ = drop_filter::attach(self.socket.as_fd(), self.owner);
    }

    /// Has the socket receive again.
    pub(super) fn undeafen(&self) {
        // There may be none.
        let _ = drop_filter::detach(self.socket.as_fd(), self.owner);
    }
}

impl AsFd for Proof {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn of_socket(reuse_address: bool, options: &FlowOptions) -> UdpOptions {
    UdpOptions { reuse_address, only_v6: true, receive_buffer: options.receive_buffer, ..UdpOptions::default() }
}

fn cannot(what: &str, error: &io::Error) -> Problem {
    Problem::failed(format!("cannot {what}"), error).errno(error.raw_os_error())
}
