//! Keys of the tables: numbers, so that a key is made and compared in registers (bytes that have just been
//! put together one by one are slow to be read as a whole).

use super::socket::Bind;
use sidestep_wire::Addresses;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

/// IPv4 as IPv4-mapped IPv6; no packet of IPv6 with such an address gets this far.
#[inline]
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// 128 bits in 64. Keys come from calls of the program, so nobody can aim at this.
#[inline]
fn narrowed(number: u128) -> u64 {
    ((number >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ number as u64
}

/// A socket that is not connected: an address (or any of its family) and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    address: u128,
    /// The port; beyond its 16 bits, [`TAKES_BOTH`].
    port: u32,
}

/// Marks where sockets stand that are bound to any address of IPv6 and take IPv4, too.
const TAKES_BOTH: u32 = 1 << 16;

impl Bound {
    /// Bound to just this address.
    #[inline]
    pub(super) fn exact(address: IpAddr, port: u16) -> Self {
        Self { address: number(address), port: port.into() }
    }

    /// Bound to any address of the family of `like`.
    #[inline]
    pub(super) fn any(like: IpAddr, port: u16) -> Self {
        let address = if like.is_ipv4() { 0xffff_0000_0000 } else { 0 };
        Self { address, port: port.into() }
    }

    /// Bound to any address of both families.
    #[inline]
    pub(super) fn both(port: u16) -> Self {
        Self { address: 0, port: u32::from(port) | TAKES_BOTH }
    }
}

impl Bind {
    /// The places in which this socket stands while it is not connected.
    pub(super) fn places(&self) -> [Option<Bound>; 2] {
        let takes_both = self.address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !self.only_v6;
        [Some(Bound::exact(self.address, self.port)), takes_both.then_some(Bound::both(self.port))]
    }
}

impl Hash for Bound {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(narrowed(self.address) ^ u64::from(self.port) << 47);
    }
}

/// A connected socket, as its incoming packets show it: the source is the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    source: u128,
    destination: u128,
    ports: u32,
}

impl Connected {
    #[inline]
    pub(super) fn new(addresses: &Addresses, source_port: u16, destination_port: u16) -> Self {
        Self {
            source: number(addresses.source()),
            destination: number(addresses.destination()),
            ports: u32::from(source_port) << 16 | u32::from(destination_port),
        }
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
        state.write_u64(narrowed(self.source) ^ u64::from(self.ports) << 32);
        state.write_u64(narrowed(self.destination));
    }
}
