//! Records of the kernel's tables: all that is needed to send without asking the kernel. Plain values of fixed size: whoever mirrors the
//! kernel stores them as it likes.

use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::net::IpAddr;

/// RT_SCOPE_* of linux/rtnetlink.h.
pub mod scope {
    /// Everywhere.
    pub const UNIVERSE: u8 = 0;
    /// On the link only.
    pub const LINK: u8 = 253;
    /// On this host only.
    pub const HOST: u8 = 254;
}

/// RT_TABLE_* of linux/rtnetlink.h, in the order in which a host without rules of its own looks (ip-rule(8)).
pub const TABLES: [u32; 3] = [255, 254, 253];

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Administratively up and with carrier.
    pub is_up: bool,
    /// IFF_LOOPBACK.
    pub is_loopback: bool,
    /// An Ethernet device that is no bridge, bond, tunnel or the like: frames can be built for it.
    pub is_plain_ethernet: bool,
    /// For a VLAN device: the interface below it and the 802.1Q id.
    pub vlan: Option<(u32, VlanId)>,
    /// The device this one is a port of (bridge, bond), 0 for none.
    pub master: u32,
}

/// An address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface that has it.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits of the subnet.
    pub prefix_len: u8,
    /// [`scope`].
    pub scope: u8,
    /// Not to be chosen as a source: deprecated, tentative or found to be a duplicate.
    pub is_avoided: bool,
    /// IFA_F_SECONDARY (IPv6: IFA_F_TEMPORARY).
    pub is_secondary: bool,
}

/// The type of a route (RTN_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// On to a gateway or a neighbour.
    Unicast,
    /// To this host.
    Local,
    /// To everybody on the link.
    Broadcast,
    /// To a group.
    Multicast,
    /// An anycast address of this host.
    Anycast,
    /// Refused: EHOSTUNREACH.
    Unreachable,
    /// Refused: EACCES.
    Prohibit,
    /// Dropped: EINVAL to the sender.
    Blackhole,
    /// Something that only the kernel knows to follow (throw, nat, encapsulation).
    Other,
}

/// One next hop of a route. A route with several (ECMP) is as many records in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// 255 local, 254 main, 253 default; routes of other tables are not looked at.
    pub table: u32,
    /// First address of the prefix.
    pub destination: IpAddr,
    /// Bits of the prefix.
    pub prefix_len: u8,
    /// Type of service that it is for; 0 for any.
    pub tos: u8,
    /// Its type.
    pub kind: RouteKind,
    /// [`scope`].
    pub scope: u8,
    /// The least wins among prefixes of one length.
    pub metric: u32,
    /// The router; `None` when the destination itself is the neighbour. May be of the other family.
    pub gateway: Option<IpAddr>,
    /// The interface out; 0 for routes that refuse.
    pub interface: u32,
    /// Source address to prefer.
    pub preferred_source: Option<IpAddr>,
    /// MTU of the route, bytes; 0 for the interface's.
    pub mtu: u32,
    /// Share of this next hop among those of the route, 1..=256.
    pub weight: u16,
    /// Dead or without carrier: not to be used.
    pub is_dead: bool,
    /// Another next hop of the same route stands in the record before this one.
    pub is_continuation: bool,
}

/// The state of a neighbour, as far as a sender cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Its Ethernet address may be used (reachable, stale, delay, probe, permanent, noarp).
    Usable,
    /// The kernel is asking for it (incomplete).
    Pending,
    /// It did not answer.
    Failed,
}

/// A neighbour: an entry of the ARP or NDP cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface it is reached by.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address; meaningful when usable.
    pub mac: MacAddress,
    /// Its state.
    pub state: NeighbourState,
}
