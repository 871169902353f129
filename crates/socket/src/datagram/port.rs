//! UDP by the kernel: a bound port that is then connected to one peer, and multicast.

use super::DatagramSocket;
use crate::stream::Options;
use sidestep_sys::Problem;
use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Socket buffers for streams of datagrams: several milliseconds at a million small messages per second. The kernel
/// grants at most net.core.rmem_max; [`UdpPort::receive_buffer`] is what it granted.
const BUFFER_BYTES: usize = 8 << 20;

/// A bound UDP port without a peer as yet.
///
/// Two ends that agree over some other channel bind first, tell each other their ports, and connect; from then on the
/// kernel drops what comes from anywhere else.
pub struct UdpPort {
    socket: Socket,
}

impl UdpPort {
    /// Binds `address` (port 0: the kernel chooses).
    ///
    /// # Errors
    /// The address cannot be had.
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

    /// Binds `group` and joins it on the interface that has the address `interface`; the kernel sends the IGMP reports.
    ///
    /// # Errors
    /// It is no group, or no interface has that address.
    pub fn join(group: SocketAddrV4, interface: Ipv4Addr) -> Result<Self, Problem> {
        let port = Self::bind(SocketAddr::new(IpAddr::V4(*group.ip()), group.port()))?;
        port.socket.join_multicast_v4_n(group.ip(), &InterfaceIndexOrAddress::Address(interface)).map_err(|error| {
            Problem::failed(format!("cannot join {} on {interface}", group.ip()), error)
                .next("give a group of 224.0.0.0/4 and the address of an interface that is up")
        })?;
        Ok(port)
    }

    /// Returns its address, with the port that the kernel chose.
    ///
    /// # Errors
    /// The kernel does not tell it.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns the receive buffer that the kernel granted, bytes (twice what holds data, socket(7)).
    pub fn receive_buffer(&self) -> usize {
        self.socket.recv_buffer_size().unwrap_or_default()
    }

    /// Fixes the peer.
    ///
    /// # Errors
    /// No route leads there; the socket cannot be prepared as `options` say.
    pub fn connect(self, peer: SocketAddr, options: &Options) -> Result<DatagramSocket, Problem> {
        self.socket.connect(&peer.into()).map_err(|error| {
            Problem::failed(format!("cannot reach UDP {peer}"), error).next("check the route to it")
        })?;
        DatagramSocket::over(self.socket, options)
    }

    /// Receives from anyone; a send fails, as there is no peer.
    ///
    /// # Errors
    /// The socket cannot be prepared as `options` say.
    pub fn receiver(self, options: &Options) -> Result<DatagramSocket, Problem> {
        DatagramSocket::over(self.socket, options)
    }

    /// Sends to `group` out of the interface that has the address `interface`. The datagrams go one hop, and come back to
    /// receivers on this host only if `same_host`.
    ///
    /// # Errors
    /// The interface cannot send multicast; the socket cannot be prepared as `options` say.
    pub fn connect_group(
        self,
        group: SocketAddrV4,
        interface: Ipv4Addr,
        same_host: bool,
        options: &Options,
    ) -> Result<DatagramSocket, Problem> {
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
