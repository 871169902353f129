//! ICMP errors about datagrams that were sent.

use crate::udp::SocketId;
use sidestep_wire::icmp;
use std::net::{IpAddr, SocketAddr};

/// The least MTU that is believed, over IPv4 (Linux: net.ipv4.route.min_pmtu). A smaller one is an attack or a fault.
pub const MTU_MIN_V4: u32 = 552;

/// The least MTU of any IPv6 link (RFC 8200 section 5).
pub const MTU_MIN_V6: u32 = 1280;

/// An ICMP error about a datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// The socket that sent it, as far as addresses and ports tell.
    pub socket: SocketId,
    /// True if that socket is connected. Others learn of errors only if they ask for them (IP_RECVERR), as on Linux.
    pub is_connected: bool,
    /// The destination of the datagram.
    pub destination: SocketAddr,
    /// The host that reports it.
    pub reporter: IpAddr,
    /// The kind of error.
    pub kind: icmp::Kind,
}

/// The error for the program, as the errno of a Linux socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// ECONNREFUSED
    ConnectionRefused,
    /// EHOSTUNREACH
    HostUnreachable,
    /// ENETUNREACH
    NetworkUnreachable,
    /// EACCES
    PermissionDenied,
    /// ENOPROTOOPT
    NoProtocol,
    /// EPROTO
    ProtocolError,
    /// EOPNOTSUPP
    NotSupported,
    /// EMSGSIZE, with the MTU from now on.
    MessageTooLong {
        /// Bytes of the whole IP packet, never below what is believed.
        mtu: u32,
    },
}

impl FlowError {
    /// The error that Linux makes of it (net/ipv4/icmp.c, net/ipv6/icmp.c).
    pub fn told(&self) -> Told {
        let is_v4 = self.destination.is_ipv4();
        match self.kind {
            icmp::Kind::PortUnreachable => Told::ConnectionRefused,
            icmp::Kind::NetworkUnreachable => Told::NetworkUnreachable,
            icmp::Kind::ProtocolUnreachable if is_v4 => Told::NoProtocol,
            icmp::Kind::ProtocolUnreachable => Told::ProtocolError,
            icmp::Kind::PacketTooBig { mtu } => {
                let least = if is_v4 { MTU_MIN_V4 } else { MTU_MIN_V6 };
                Told::MessageTooLong { mtu: mtu.max(least) }
            }
            icmp::Kind::SourceRouteFailed if is_v4 => Told::NotSupported,
            icmp::Kind::Prohibited if !is_v4 => Told::PermissionDenied,
            icmp::Kind::ParameterProblem { .. } => Told::ProtocolError,
            icmp::Kind::SourceRouteFailed
            | icmp::Kind::HostUnreachable
            | icmp::Kind::Prohibited
            | icmp::Kind::HopLimitExceeded
            | icmp::Kind::ReassemblyTimeExceeded
            | icmp::Kind::OtherUnreachable { .. } => Told::HostUnreachable,
        }
    }
}
