//! What the tables are searched by.

use super::socket::Bind;
use sidestep_wire::Addresses;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A socket that is not connected: an address (or any of its family) and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// Where sockets stand that are bound to any address of IPv6 and take IPv4, too. No packet has this address: the table is
/// searched for it only on purpose.
const ANY_OF_BOTH: IpAddr = IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());

impl Bound {
    /// The places in which a datagram's receiver is looked for, the most specific first.
    #[inline]
    pub(super) fn searched(address: IpAddr, port: u16) -> [Option<Self>; 3] {
        let (any, both) = match address {
            IpAddr::V4(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), Some(ANY_OF_BOTH)),
            IpAddr::V6(_) => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), None),
        };
        let at = |address| Self { address, port };
        [Some(at(address)), Some(at(any)), both.map(at)]
    }
}

impl Bind {
    /// The places in which this socket stands while it is not connected.
    pub(super) fn places(&self) -> [Option<Bound>; 2] {
        let takes_both = self.address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !self.only_v6;
        let at = |address| Bound { address, port: self.port };
        [Some(at(self.address)), takes_both.then_some(at(ANY_OF_BOTH))]
    }
}

impl Hash for Bound {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.address {
            IpAddr::V4(address) => state.write_u64(u64::from(address.to_bits()) << 16 | u64::from(self.port)),
            IpAddr::V6(address) => {
                state.write_u128(address.to_bits());
                state.write_u16(self.port);
            }
        }
    }
}

/// A connected socket, as its incoming packets show it: the source is the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) addresses: Addresses,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Connected {
    #[inline]
    fn ports(&self) -> u32 {
        u32::from(self.source_port) << 16 | u32::from(self.destination_port)
    }

    /// The same for all datagrams of a flow, to choose one of several sockets that share a port.
    pub(super) fn flow_hash(&self) -> u64 {
        let mut hasher = crate::hash::FlowHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl Hash for Connected {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.addresses {
            Addresses::V4 { source, destination } => {
                state.write_u64(u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits()));
            }
            Addresses::V6 { source, destination } => {
                state.write_u128(source.to_bits());
                state.write_u128(destination.to_bits());
            }
        }
        state.write_u32(self.ports());
    }
}
