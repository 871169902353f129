//! The socket that is to become a connection.

use super::refuse;
use crate::twin::Place;
use rustix::net::sockopt::{ipv6_v6only, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, getsockname, ipproto};
use sidestep_control_api::message::{Code, HandOver, Protocol, Refusal};
use sidestep_sys::socket::{TcpState, bound_interface, netns_cookie, tcp_state};
use sidestep_sys::stream_options::has_filter;
use sidestep_sys::tcp_repair;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;

/// A socket that an application has sent for a hand-over, checked.
pub(crate) struct ShownSocket<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) domain: AddressFamily,
    /// It holds the local port already.
    pub(super) is_bound: bool,
    /// Its owner's (SO_ATTACH_FILTER), which stays.
    pub(super) has_own_filter: bool,
}

impl<'a> ShownSocket<'a> {
    /// Refuses a socket that cannot become this connection: of another network namespace, kind or family, connected or
    /// listening, bound to something else.
    pub(crate) fn check(socket: BorrowedFd<'a>, connection: &HandOver, place: Place<'_>) -> Result<Self, Refusal> {
        let refuse = |reason: String| {
            refuse(connection, Code::TwinMismatch, reason)
                .next("send an unconnected TCP socket, bound to the local end or to nothing")
        };
        let failed = |error: std::io::Error| refuse(format!("no socket: {error}"));
        if netns_cookie(socket).map_err(failed)? != place.namespace {
            return Err(self::refuse(connection, Code::TwinNamespace, Code::TwinNamespace.description()));
        }
        let domain = socket_domain(socket).map_err(|error| failed(error.into()))?;
        let is_tcp = socket_protocol(socket).is_ok_and(|protocol| protocol == Some(ipproto::TCP));
        if !is_tcp || !socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM) {
            return Err(refuse("the kernel's socket is not one of TCP".into()));
        }
        let takes_it = match (domain, connection.local) {
            (AddressFamily::INET, SocketAddr::V4(_)) | (AddressFamily::INET6, SocketAddr::V6(_)) => true,
            (AddressFamily::INET6, SocketAddr::V4(_)) => !ipv6_v6only(socket).unwrap_or(true),
            _ => false,
        };
        if !takes_it {
            return Err(refuse("the kernel's socket is of another address family".into()));
        }
        if tcp_state(socket).map_err(failed)? != TcpState::Closed {
            return Err(refuse("the kernel's socket is connected or listens".into()));
        }
        // A control that was killed in the middle of a hand-over may have left it so: the port was bound in that mode.
        let is_left = tcp_repair::is_on(socket).map_err(failed)?;
        let has_own_filter = !is_left && has_filter(socket);
        let device = bound_interface(socket).map_err(failed)?;
        if !place.is_reached_by(device, connection.vlan) {
            return Err(refuse(format!("the kernel's socket is bound to another interface ({device})")));
        }
        let bound = getsockname(socket).map_err(|error| failed(error.into()))?;
        let bound = SocketAddr::try_from(bound).map_err(|error| failed(error.into()))?;
        let is_bound = bound.port() != 0;
        if is_bound {
            let ip = bound.ip().to_canonical();
            if bound.port() != connection.local.port() || !(ip.is_unspecified() || ip == connection.local.ip()) {
                return Err(refuse(format!("the kernel's socket is bound to {bound}")));
            }
            if !is_left && !place.guard.holds(socket, Protocol::Tcp, domain).map_err(failed)? {
                return Err(refuse(format!("the kernel's socket was bound to {bound} and no longer holds the port")));
            }
        }
        Ok(Self { socket, domain, is_bound, has_own_filter })
    }

    /// An end of the connection as the socket's family has it. `scope`: the interface, for an address that holds on one link.
    pub(super) fn address(&self, end: SocketAddr, scope: u32) -> SocketAddr {
        let ip = match end.ip() {
            IpAddr::V4(ip) if self.domain == AddressFamily::INET6 => IpAddr::V6(ip.to_ipv6_mapped()),
            ip => ip,
        };
        match ip {
            IpAddr::V6(ip) if is_of_link(ip) => SocketAddr::V6(SocketAddrV6::new(ip, end.port(), 0, scope)),
            ip => SocketAddr::new(ip, end.port()),
        }
    }
}

fn is_of_link(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local()
}
