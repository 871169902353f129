//! The host: interfaces and addresses that frames are taken for.

use crate::route::{Link, Tables};
use sidestep_wire::MacAddress;
use sidestep_wire::vlan::{Tags, VlanId};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// VLANs that one device can carry, and the device itself.
pub const INTERFACES_MAX: usize = 4096;

/// More addresses than any host of the field has; beyond, something else went wrong.
pub const ADDRESSES_MAX: usize = 4096;

/// An interface whose frames come to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// The VLAN whose tag its frames have; `None` for those without a tag.
    pub vlan: Option<VlanId>,
}

/// A table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The things in it.
    pub things: &'static str,
    /// The number that it holds.
    pub limit: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a host has at most {} {}", self.limit, self.things)
    }
}

impl std::error::Error for Full {}

/// Interfaces and addresses. An address is ours whatever interface a packet for it comes by, as on Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Sorted by VLAN, the one without first.
    interfaces: Vec<Interface>,
    /// Sorted.
    v4: Vec<Ipv4Addr>,
    /// Sorted.
    v6: Vec<Ipv6Addr>,
}

impl Host {
    /// The interfaces and the addresses as given. Of two interfaces with the same VLAN the first counts.
    pub fn new(interfaces: &[Interface], addresses: &[IpAddr]) -> Result<Self, Full> {
        if interfaces.len() > INTERFACES_MAX {
            return Err(Full { things: "interfaces", limit: INTERFACES_MAX });
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(Full { things: "addresses", limit: ADDRESSES_MAX });
        }
        let mut host = Self { interfaces: interfaces.to_vec(), ..Self::default() };
        host.interfaces.sort_by_key(|interface| interface.vlan);
        host.interfaces.dedup_by_key(|interface| interface.vlan);
        for address in addresses {
            match address {
                IpAddr::V4(address) => host.v4.push(*address),
                IpAddr::V6(address) => host.v6.push(*address),
            }
        }
        host.v4.sort_unstable();
        host.v6.sort_unstable();
        Ok(host)
    }

    /// The host as the kernel's tables describe `device`: itself, the VLANs upon it, and every address of the host.
    pub fn of_device(tables: &Tables<'_>, device: u32) -> Result<Self, Full> {
        let is_here = |link: &&Link| match link.vlan {
            Some((below, _)) => below == device,
            None => link.index == device,
        };
        let interface =
            |link: &Link| Interface { index: link.index, mac: link.mac, vlan: link.vlan.map(|(_, vlan)| vlan) };
        let interfaces: Vec<Interface> = tables.links.iter().filter(is_here).map(interface).collect();
        let addresses: Vec<IpAddr> = tables.addresses.iter().map(|ours| ours.address).collect();
        Self::new(&interfaces, &addresses)
    }

    /// The interface for frames with these tags. A tag of VLAN 0 is none; two tags are of no interface that Linux makes on
    /// one device.
    #[inline]
    pub(crate) fn interface(&self, tags: Tags) -> Option<&Interface> {
        let vlan = match (tags.outer(), tags.inner()) {
            (None, _) => None,
            (Some(tag), None) => Some(tag.id()).filter(|id| id.number() != 0),
            _ => return None,
        };
        match self.interfaces.as_slice() {
            [only] if only.vlan == vlan => Some(only),
            many => many.binary_search_by_key(&vlan, |interface| interface.vlan).ok().map(|place| &many[place]),
        }
    }

    /// Returns whether the address is one of ours.
    #[inline]
    pub(crate) fn has_v4(&self, address: Ipv4Addr) -> bool {
        match self.v4.as_slice() {
            [only] => *only == address,
            many => many.binary_search(&address).is_ok(),
        }
    }

    /// Returns whether the address is one of ours.
    #[inline]
    pub fn has_v6(&self, address: Ipv6Addr) -> bool {
        match self.v6.as_slice() {
            [only] => *only == address,
            many => many.binary_search(&address).is_ok(),
        }
    }

    /// Returns whether the address is one of ours.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.has_v4(address),
            IpAddr::V6(address) => self.has_v6(address),
        }
    }
}
