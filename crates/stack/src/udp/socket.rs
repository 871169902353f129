//! One socket, as far as the demultiplexer cares.

use super::membership::Memberships;
use std::net::{IpAddr, SocketAddr};

/// Names a socket as long as it is open; small, and used again after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub(super) u32);

impl SocketId {
    /// The place in a table of the caller's, dense from zero.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The binding of a socket. The kernel has permitted it before, on the kernel twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// One of our addresses, a group, or the unspecified address for any.
    pub address: IpAddr,
    /// The port, not zero.
    pub port: u16,
    /// Only what comes by this interface (SO_BINDTODEVICE).
    pub interface: Option<u32>,
    /// For the unspecified address of IPv6: not what comes over IPv4 (IPV6_V6ONLY).
    pub only_v6: bool,
    /// Sockets with the same address and port share the flows by their hash (SO_REUSEPORT); without it the one that was
    /// bound last gets all, as among sockets of Linux with SO_REUSEADDR.
    pub shares_port: bool,
    /// Datagrams to groups that it has not joined itself (IP_MULTICAST_ALL, on by default on Linux).
    pub takes_all_groups: bool,
}

impl Bind {
    /// Bound to `address`, with everything else as Linux has it by default.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address: address.ip(),
            port: address.port(),
            interface: None,
            only_v6: false,
            shares_port: false,
            takes_all_groups: true,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) bind: Bind,
    /// Our address and the peer, once connected.
    pub(super) connected: Option<(IpAddr, SocketAddr)>,
    pub(super) groups: Memberships,
}
