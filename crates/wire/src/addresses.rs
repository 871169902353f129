//! Source and destination of a packet, always of one family.

use crate::checksum::Sum;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source and destination address of one packet. A mixture of families cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// The source address.
        source: Ipv4Addr,
        /// The destination address.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The source address.
        source: Ipv6Addr,
        /// The destination address.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// Both addresses; `None` if they are of different families.
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::V6 { source, destination }),
            _ => None,
        }
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> IpAddr {
        match *self {
            Self::V4 { source, .. } => IpAddr::V4(source),
            Self::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match *self {
            Self::V4 { destination, .. } => IpAddr::V4(destination),
            Self::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }

    /// The addresses of the opposite direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match *self {
            Self::V4 { source, destination } => Self::V4 { source: destination, destination: source },
            Self::V6 { source, destination } => Self::V6 { source: destination, destination: source },
        }
    }

    /// The sum over the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) for `length` bytes of `protocol`,
    /// counted from the transport's own header.
    #[inline]
    pub fn pseudo_header(&self, protocol: u8, length: u32) -> Sum {
        let sum = match self {
            Self::V4 { source, destination } => Sum::ZERO.with(&source.octets()).with(&destination.octets()),
            Self::V6 { source, destination } => Sum::ZERO.with(&source.octets()).with(&destination.octets()),
        };
        sum.with_u16(u16::from(protocol)).with_u32(length)
    }
}
