//! The kernel twin: a real socket of the same address and port.

use crate::options::UdpOptions;
use sidestep_sys::error_queue::{self, Undelivered};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's socket beside ours.
#[derive(Debug)]
pub(crate) struct Twin(UdpSocket);

impl Twin {
    /// Binds, under the kernel's own rules and with its own errors.
    pub(crate) fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = open(address, options)?;
        socket.bind(&address.into())?;
        Ok(Self(socket.into()))
    }

    /// A duplicate of a program's own socket, whose flags are the program's.
    pub(crate) fn adopt(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// The peer of one that is connected.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok().map(unmapped)
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.0.local_addr().map(unmapped)
    }

    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.0.connect(peer)
    }

    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(buffer)
    }

    pub(crate) fn send(&self, payload: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        match to {
            Some(to) => self.0.send_to(payload, to),
            None => self.0.send(payload),
        }
        .map(drop)
    }

    /// The path's MTU as the kernel knows it, of a connected socket.
    pub(crate) fn mtu(&self) -> Option<u32> {
        use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
        match self.0.local_addr().ok()? {
            SocketAddr::V4(_) => ip_mtu(&self.0).ok(),
            SocketAddr::V6(_) => ipv6_mtu(&self.0).ok(),
        }
    }

    /// Joins a group on an interface, from everyone or from one source; the kernel tells the routers.
    pub(crate) fn join(&self, group: IpAddr, interface: u32, source: Option<IpAddr>) -> io::Result<()> {
        let socket = SockRef::from(&self.0);
        match (group, source) {
            (IpAddr::V4(group), None) => socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface)),
            (IpAddr::V6(group), None) => socket.join_multicast_v6(&group, interface),
            (_, Some(source)) => sidestep_sys::socket::join_source(self.0.as_fd(), interface, group, source),
        }
    }

    pub(crate) fn leave(&self, group: IpAddr, interface: u32, source: Option<IpAddr>) -> io::Result<()> {
        let socket = SockRef::from(&self.0);
        match (group, source) {
            (IpAddr::V4(group), None) => {
                socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
            }
            (IpAddr::V6(group), None) => socket.leave_multicast_v6(&group, interface),
            (_, Some(source)) => sidestep_sys::socket::leave_source(self.0.as_fd(), interface, group, source),
        }
    }

    /// Sends to groups out of this interface.
    pub(crate) fn set_multicast_out(&self, interface: u32, address: Option<Ipv4Addr>) -> io::Result<()> {
        let socket = SockRef::from(&self.0);
        match (self.0.local_addr()?, address) {
            (SocketAddr::V4(_), Some(address)) => socket.set_multicast_if_v4(&address),
            (SocketAddr::V4(_), None) => Ok(()),
            (SocketAddr::V6(_), _) => socket.set_multicast_if_v6(interface),
        }
    }

    /// The oldest error that the kernel has kept.
    pub(crate) fn next_error(&self) -> io::Result<Option<Undelivered>> {
        error_queue::next_error(self.0.as_fd())
    }

    /// A descriptor of the same socket, as the proof that the port is held.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}

impl AsFd for Twin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(address: SocketAddr, options: &UdpOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(options.reuse_address)?;
    socket.set_reuse_port(options.reuse_port)?;
    if options.receive_buffer != 0 {
        // Granted up to net.core.rmem_max; less is no error.
        let _ = socket.set_recv_buffer_size(options.receive_buffer as usize);
    }
    let (hops, group_hops) = (u32::from(options.hop_limit), u32::from(options.multicast_hop_limit));
    let type_of_service = u32::from(options.type_of_service);
    if address.is_ipv4() {
        socket.set_ttl_v4(hops)?;
        socket.set_multicast_ttl_v4(group_hops)?;
        socket.set_multicast_loop_v4(options.multicast_loop)?;
        // Groups that some other program has joined are not ours.
        socket.set_multicast_all_v4(false)?;
        socket.set_tos_v4(type_of_service)?;
    } else {
        socket.set_only_v6(options.only_v6)?;
        socket.set_unicast_hops_v6(hops)?;
        socket.set_multicast_hops_v6(group_hops)?;
        socket.set_multicast_loop_v6(options.multicast_loop)?;
        socket.set_multicast_all_v6(false)?;
        socket.set_tclass_v6(type_of_service)?;
    }
    if options.keep_errors {
        error_queue::keep_errors(socket.as_fd(), address.is_ipv6())?;
    }
    if !options.may_fragment {
        forbid_fragments(&socket, address)?;
    }
    Ok(socket)
}

/// An address of IPv4 that a socket of IPv6 shows as a mapped one, as it stands in packets.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

fn forbid_fragments(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    };
    if address.is_ipv4() {
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?;
    } else {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?;
    }
    Ok(())
}
