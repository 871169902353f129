//! UDP: a bound port that is then connected to one peer, and multicast.

use crate::stream::{Link, Options, blocking::over};
use sidestep_sys::Problem;
use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Socket buffers for streams of datagrams: several milliseconds at a million small messages per second. The kernel
/// grants at most net.core.rmem_max; [`Port::receive_buffer`] says what it gave.
const BUFFER_BYTES: usize = 8 << 20;

/// A bound UDP port without a peer as yet.
///
/// Two ends that agree over some other channel bind first, tell each other their ports, and connect; from then on the
/// kernel drops what comes from anywhere else.
pub struct Port {
    socket: Socket,
}

impl Port {
    /// Binds `address` (port 0: the kernel chooses).
    pub fn bind(address: SocketAddr) -> Result<Self, Problem> {
        let bind = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            // Granted up to the kernel's limit; less is not an error, loss is counted.
            let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
            let _ = socket.set_send_buffer_size(BUFFER_BYTES);
            socket.bind(&address.into())?;
            Ok(socket)
        };
        let socket = bind().map_err(|error| Problem::failed(format!("cannot bind UDP {address}"), error))?;
        Ok(Self { socket })
    }

    /// The port's number.
    pub fn number(&self) -> io::Result<u16> {
        let address = self.socket.local_addr()?;
        address.as_socket().map(|address| address.port()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// The receive buffer that the kernel granted, bytes (twice what holds data, socket(7)).
    pub fn receive_buffer(&self) -> usize {
        self.socket.recv_buffer_size().unwrap_or_default()
    }

    /// Fixes the peer.
    pub fn connect(self, peer: SocketAddr, options: &Options) -> Result<Box<dyn Link>, Problem> {
        self.socket.connect(&peer.into()).map_err(|error| {
            Problem::failed(format!("cannot reach UDP {peer}"), error).next("check the route to it")
        })?;
        over(self.socket, options)
    }

    /// Receives from anyone; its `send` fails, it has no peer.
    pub fn receiver(self, options: &Options) -> Result<Box<dyn Link>, Problem> {
        over(self.socket, options)
    }

    /// Sends to `group` out of the interface that has the address `interface`. The datagrams go one hop, and come back to
    /// receivers on this host only if `same_host`.
    pub fn connect_group(
        self,
        group: SocketAddrV4,
        interface: Ipv4Addr,
        same_host: bool,
        options: &Options,
    ) -> Result<Box<dyn Link>, Problem> {
        let prepare = || -> io::Result<()> {
            self.socket.set_multicast_if_v4(&interface)?;
            self.socket.set_multicast_ttl_v4(1)?;
            self.socket.set_multicast_loop_v4(same_host)
        };
        prepare().map_err(|error| {
            Problem::failed(format!("cannot send multicast from {interface}"), error)
                .next("give the address of an interface that is up and has the MULTICAST flag (ip link)")
        })?;
        self.connect(SocketAddr::V4(group), options)
    }
}

/// Binds `group` and joins it on the interface that has the address `interface`; the kernel sends the IGMP reports.
pub fn join(group: SocketAddrV4, interface: Ipv4Addr) -> Result<Port, Problem> {
    let port = Port::bind(SocketAddr::new(IpAddr::V4(*group.ip()), group.port()))?;
    port.socket.join_multicast_v4_n(group.ip(), &InterfaceIndexOrAddress::Address(interface)).map_err(|error| {
        Problem::failed(format!("cannot join {} on {interface}", group.ip()), error)
            .next("give a group of 224.0.0.0/4 and the address of an interface that is up")
    })?;
    Ok(port)
}
