//! Sources of connections: hosts, networks, processes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The source of a connection that has not logged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A host by IPv4, or a network of hosts.
    V4(u32),
    /// The same by IPv6.
    V6(u128),
    /// A process of this host, 0 for any of the user.
    Local { uid: u32, pid: u32 },
}

/// The prefix of one customer of a provider: IPv6 hosts choose their last 64 bits themselves.
const V6_NARROW: u32 = 64;
const V6_WIDE: u32 = 48;
const V4_WIDE: u32 = 24;

impl Source {
    pub(super) fn host(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6(address.to_bits()),
        }
    }

    /// Returns the part that shares a limit: a host by IPv4, a network of 64 bits by IPv6, a process.
    pub(super) fn narrow(self) -> Self {
        match self {
            Self::V6(bits) => Self::V6(bits & (u128::MAX << (128 - V6_NARROW))),
            other => other,
        }
    }

    /// Returns the part that is likely in one hand: a network of 24 or 48 bits, a user.
    pub(super) fn wide(self) -> Self {
        match self {
            Self::V4(bits) => Self::V4(bits & (u32::MAX << (32 - V4_WIDE))),
            Self::V6(bits) => Self::V6(bits & (u128::MAX << (128 - V6_WIDE))),
            Self::Local { uid, .. } => Self::Local { uid, pid: 0 },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(bits) => Ipv4Addr::from_bits(*bits).fmt(f),
            Self::V6(bits) => Ipv6Addr::from_bits(*bits).fmt(f),
            Self::Local { uid, pid } => write!(f, "process {pid} of user {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_processes_and_their_networks() {
        let host = |text: &str| Source::host(text.parse().unwrap());
        assert_eq!(host("::ffff:192.0.2.7"), host("192.0.2.7"), "IPv4 that came to a socket of IPv6");
        assert_ne!(host("192.0.2.7").narrow(), host("192.0.2.8").narrow());
        assert_eq!(host("192.0.2.7").wide(), host("192.0.2.8").wide());
        assert_ne!(host("192.0.2.7").wide(), host("192.0.3.7").wide());
        assert_eq!(host("2001:db8:1:2::3").narrow(), host("2001:db8:1:2:4:5:6:7").narrow());
        assert_ne!(host("2001:db8:1:2::3").narrow(), host("2001:db8:1:3::3").narrow());
        assert_eq!(host("2001:db8:1:2::3").wide(), host("2001:db8:1:3::3").wide());
        let local = |uid, pid| Source::Local { uid, pid };
        assert_ne!(local(1, 2).narrow(), local(1, 3).narrow());
        assert_eq!(local(1, 2).wide(), local(1, 3).wide());
    }
}
