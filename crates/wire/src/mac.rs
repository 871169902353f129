//! The 48-bit address of an Ethernet interface.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address, in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns whether it names more than one station (broadcast included).
    #[inline]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether it is ff:ff:ff:ff:ff:ff.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// The address of an IPv4 group: 01:00:5e and the low 23 bits (RFC 1112 section 6.4).
    pub(crate) fn of_group_v4(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The address of an IPv6 group: 33:33 and the low 32 bits (RFC 2464 section 7).
    pub(crate) fn of_group_v6(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// The address of a group; `None` if `address` is not a group.
    pub fn of_group(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(group) if group.is_multicast() => Some(Self::of_group_v4(group)),
            IpAddr::V6(group) if group.is_multicast() => Some(Self::of_group_v6(group)),
            _ => None,
        }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn groups_have_the_addresses_of_the_standards() {
        let group = Ipv4Addr::new(239, 255, 1, 2);
        assert_eq!(MacAddress::of_group(group.into()).unwrap().to_string(), "01:00:5e:7f:01:02");
        let group: Ipv6Addr = "ff02::1:ff00:1234".parse().unwrap();
        assert_eq!(MacAddress::of_group(group.into()).unwrap().to_string(), "33:33:ff:00:12:34");
        assert_eq!(MacAddress::of_group(Ipv4Addr::new(10, 0, 0, 1).into()), None);
        assert!(MacAddress::BROADCAST.is_multicast() && MacAddress::BROADCAST.is_broadcast());
    }
}
