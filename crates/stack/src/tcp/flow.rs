//! The two ends of a connection, seen from here.

use sidestep_wire::{Addresses, tcp};
use std::fmt;
use std::net::SocketAddr;

/// The two ends of a connection: `addresses.source()` and `local_port` are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Our address as the source, the peer's as the destination.
    pub addresses: Addresses,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Flow {
    /// The flow from `local` to `remote`; `None` if they are of different families.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let addresses = Addresses::new(local.ip(), remote.ip())?;
        Some(Self { addresses, local_port: local.port(), remote_port: remote.port() })
    }

    /// The flow that an arriving segment belongs to.
    #[inline]
    pub(crate) fn of_arrival(addresses: &Addresses, segment: &tcp::View<'_>) -> Self {
        let (local_port, remote_port) = (segment.destination_port(), segment.source_port());
        Self { addresses: addresses.reversed(), local_port, remote_port }
    }

    /// Returns whether a segment between these addresses and ports is of this flow.
    #[inline]
    pub(crate) fn is_of_arrival(&self, addresses: &Addresses, local_port: u16, remote_port: u16) -> bool {
        let are_addresses = match (&self.addresses, addresses) {
            (Addresses::V4 { source: here, destination: there }, Addresses::V4 { source, destination }) => {
                here == destination && there == source
            }
            (Addresses::V6 { source: here, destination: there }, Addresses::V6 { source, destination }) => {
                here == destination && there == source
            }
            _ => false,
        };
        are_addresses && (self.local_port, self.remote_port) == (local_port, remote_port)
    }

    /// Our end.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.source(), self.local_port)
    }

    /// The peer's end.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.addresses.destination(), self.remote_port)
    }

    /// Bytes of IP and TCP header without options: what the path's limit on packets leaves less for a segment
    /// (RFC 9293 section 3.7.1).
    pub(crate) fn header_bytes(&self) -> u16 {
        match self.addresses {
            Addresses::V4 { .. } => 40,
            Addresses::V6 { .. } => 60,
        }
    }

    /// The segment size to assume of a peer that names none (RFC 9293 MUST-15).
    pub(crate) fn default_segment_bytes(&self) -> u16 {
        match self.addresses {
            Addresses::V4 { .. } => tcp::DEFAULT_SEGMENT_BYTES_V4,
            Addresses::V6 { .. } => tcp::DEFAULT_SEGMENT_BYTES_V6,
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local(), self.remote())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_do_not_mix() {
        let (four, six) = ("192.0.2.1:80".parse().unwrap(), "[2001:db8::1]:80".parse().unwrap());
        assert!(Flow::new(four, six).is_none());
        assert_eq!(Flow::new(four, four).unwrap().header_bytes(), 40);
        assert_eq!(Flow::new(six, six).unwrap().default_segment_bytes(), 1220);
    }
}
