//! The sockets of the feed: two groups, and the port for re-requests.

use crate::feed::{History, Line, Rerequest};
use sidestep_sys::Problem;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Datagrams of a line in one poll: some ms of the highest rate, so that orders do not wait longer.
const DATAGRAMS_MAX: usize = 256;

/// Requests that are answered in one poll.
const REQUESTS_MAX: usize = 32;

/// Bytes of the send buffer: a burst of some thousand datagrams.
const SEND_BUFFER: usize = 4 << 20;

/// A line and its socket.
pub(super) struct Sender {
    pub(super) line: Line,
    socket: UdpSocket,
    group: SocketAddr,
    failed: u64,
    last_error: Option<io::Error>,
}

impl Sender {
    /// Sends to `group` from `interface`, with this time to live; copies go to members on this host, too.
    pub(super) fn open(line: Line, interface: &str, group: SocketAddr, ttl: u32) -> Result<Self, Problem> {
        let socket = open_sender(interface, group, ttl).map_err(|error| {
            Problem::failed(format!("cannot send to {group} from {interface}"), error)
                .next("name an interface that `ip address` lists with an IPv4 address (--interface)")
        })?;
        Ok(Self { line, socket, group, failed: 0, last_error: None })
    }

    /// Sends what is to be sent. Returns how many datagrams that were.
    pub(super) fn poll(&mut self, now_ns: u64, history: &History) -> usize {
        for count in 0..DATAGRAMS_MAX {
            let Some(packet) = self.line.next(now_ns, history) else { return count };
            if let Err(error) = self.socket.send_to(packet, self.group) {
                self.failed += 1;
                self.last_error = Some(error);
            }
        }
        DATAGRAMS_MAX
    }

    /// Datagrams that the kernel did not take.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Why the last of them was not taken.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.as_ref().map(ToString::to_string)
    }

    pub(super) fn group(&self) -> SocketAddr {
        self.group
    }
}

fn open_sender(interface: &str, group: SocketAddr, ttl: u32) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    socket.bind_device(Some(interface.as_bytes()))?;
    if group.is_ipv4() {
        socket.set_multicast_ttl_v4(ttl)?;
        socket.set_multicast_loop_v4(true)?;
    } else {
        socket.set_multicast_hops_v6(ttl)?;
        socket.set_multicast_loop_v6(true)?;
    }
    // As large as the host allows.
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The port for re-requests.
pub(super) struct Requests {
    pub(super) server: Rerequest,
    socket: UdpSocket,
}

impl Requests {
    pub(super) fn open(server: Rerequest, address: SocketAddr) -> Result<Self, Problem> {
        let open = || {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| {
            Problem::failed(format!("cannot take re-requests at {address}"), error)
                .next("choose another port (--rerequest)")
        })?;
        Ok(Self { server, socket })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Answers what was asked. Returns how many requests that were.
    pub(super) fn poll(&mut self, now_ns: u64, history: &History) -> usize {
        // One byte more than a request: a longer datagram is seen to be none.
        let mut buffer = [0; crate::mold::HEADER + 1];
        for count in 0..REQUESTS_MAX {
            let Ok((length, client)) = self.socket.recv_from(&mut buffer) else { return count };
            if let Some(answer) = self.server.answer(now_ns, client.ip(), &buffer[..length], history) {
                // A client that cannot be reached asks again.
                let _ = self.socket.send_to(answer, client);
            }
        }
        REQUESTS_MAX
    }
}
