//! Route lookup: the kernel's decision, made again from a copy of the kernel's tables.
//!
//! The functions here are pure: tables in, answer out. Where the tables come from, and how fresh they are, is the business
//! of whoever implements [`Routes`]. Whatever only the kernel can know gives [`Unreachable::AskKernel`], never a guess.

mod lookup;
mod memory;
mod record;
mod source;

pub use memory::MemoryRoutes;
pub use record::{Address, Link, Neighbour, NeighbourState, Route, RouteKind, TABLES, scope};

use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::fmt;
use std::net::IpAddr;

/// The route to a destination, as far as a sender needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The interface of the route (a VLAN device counts as one).
    pub interface: u32,
    /// The interface that frames leave by: of a VLAN device the one below it.
    pub device: u32,
    /// The tag of frames, for a VLAN device.
    pub vlan: Option<VlanId>,
    /// The source address, given or chosen.
    pub source: IpAddr,
    /// The neighbour that takes the packet: a router, or the destination itself.
    pub next_hop: IpAddr,
    /// Its Ethernet address, or the group's.
    pub next_hop_mac: MacAddress,
    /// The interface's own Ethernet address.
    pub source_mac: MacAddress,
    /// Largest IP packet on this route, bytes.
    pub mtu: u32,
}

/// The reason why there is no route past the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route leads there: ENETUNREACH.
    NoRoute,
    /// A route refuses it: EHOSTUNREACH.
    Refused,
    /// A route forbids it: EACCES.
    Prohibited,
    /// A route swallows it: EINVAL.
    Blackhole,
    /// The neighbour's Ethernet address is not known yet: ask the kernel to find out, and send by the kernel meanwhile.
    NeighbourPending {
        /// The neighbour.
        next_hop: IpAddr,
        /// The interface where it is looked for.
        interface: u32,
    },
    /// The neighbour does not answer: EHOSTUNREACH.
    NeighbourFailed {
        /// The neighbour.
        next_hop: IpAddr,
        /// The interface where it was looked for.
        interface: u32,
    },
    /// There is a route, by another interface than the one asked for.
    NotOnThisInterface,
    /// The interface is down, or not one that frames can be built for.
    LinkUnusable {
        /// The interface.
        interface: u32,
    },
    /// This host itself, or an interface that leads back to it.
    Local,
    /// A broadcast: the kernel knows whether the program may send those.
    Broadcast,
    /// The source address is not one of this host.
    SourceNotOurs,
    /// No address of this host can be the source.
    NoSource,
    /// The tables do not tell; the kernel can.
    AskKernel,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => formatter.write_str("there is no route"),
            Self::Refused => formatter.write_str("a route refuses it (unreachable)"),
            Self::Prohibited => formatter.write_str("a route refuses it (prohibit)"),
            Self::Blackhole => formatter.write_str("a route swallows it (blackhole)"),
            Self::NeighbourPending { next_hop, interface } => {
                write!(formatter, "the Ethernet address of {next_hop} on interface {interface} is not known yet")
            }
            Self::NeighbourFailed { next_hop, interface } => {
                write!(formatter, "{next_hop} does not answer on interface {interface}")
            }
            Self::NotOnThisInterface => formatter.write_str("the way there is by another interface"),
            Self::LinkUnusable { interface } => {
                write!(formatter, "interface {interface} is down, or is no plain Ethernet device")
            }
            Self::Local => formatter.write_str("it is this host"),
            Self::Broadcast => formatter.write_str("it is a broadcast"),
            Self::SourceNotOurs => formatter.write_str("the source address is not one of this host"),
            Self::NoSource => formatter.write_str("no address of this host can be the source"),
            Self::AskKernel => formatter.write_str("only the kernel knows the route"),
        }
    }
}

impl std::error::Error for Unreachable {}

/// A source of routes.
pub trait Routes {
    /// The route to `destination`, from `source` if it is given, out of `interface` if it is given (SO_BINDTODEVICE, or for a
    /// group IP_MULTICAST_IF).
    fn resolve(
        &self,
        destination: IpAddr,
        source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Result<Resolved, Unreachable>;

    /// Changes whenever an answer given before may have become untrue. Cheap enough to be asked for every packet.
    fn generation(&self) -> u64;
}

/// The tables of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// Interfaces, in any order.
    pub links: &'a [Link],
    /// Addresses of this host, those of one interface in the kernel's order.
    pub addresses: &'a [Address],
    /// Routes; next hops of one route in a row.
    pub routes: &'a [Route],
    /// Neighbours, in any order.
    pub neighbours: &'a [Neighbour],
    /// True if links, addresses and routes are all there. If not, neither a match nor a miss proves anything.
    pub are_complete: bool,
}

/// A destination and what is fixed beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The destination. An IPv4 address inside of IPv6 is to be unpacked before.
    pub destination: IpAddr,
    /// The source address, if it is fixed.
    pub source: Option<IpAddr>,
    /// The interface, if it is fixed.
    pub interface: Option<u32>,
    /// Type of service of the packets; routes can be for one.
    pub tos: u8,
}

impl Tables<'_> {
    /// The route to a destination. Looks through all routes and addresses: for when the generation has changed, not for every
    /// packet.
    ///
    /// Linux sends over IPv4 out of a fixed interface even without a route, as if everybody were on the link. This
    /// does not: it says [`Unreachable::NoRoute`] or [`Unreachable::NotOnThisInterface`], and the kernel may do it.
    pub fn resolve(&self, query: &Query) -> Result<Resolved, Unreachable> {
        self.check(query)?;
        let route = match self.route(query) {
            Err(Unreachable::NoRoute) if query.destination.is_multicast() => self.group_route(query)?,
            found => found?,
        };
        let (link, device) = self.usable_link(route.interface)?;
        let source = self.choose_source(query, &route)?;
        let next_hop = route.gateway.filter(|_| !query.destination.is_multicast()).unwrap_or(query.destination);
        Ok(Resolved {
            interface: link.index,
            device: device.index,
            vlan: link.vlan.map(|(_, id)| id),
            source,
            next_hop,
            next_hop_mac: self.neighbour(next_hop, link.index)?,
            source_mac: link.mac,
            mtu: if route.mtu == 0 { link.mtu } else { route.mtu.min(link.mtu) },
        })
    }

    /// Returns the reason for destinations that the routes cannot decide.
    fn check(&self, query: &Query) -> Result<(), Unreachable> {
        let needs_interface = match query.destination {
            // An address that is only unique on its link (RFC 4007 section 6).
            IpAddr::V6(address) => {
                let low_scope_group = address.is_multicast() && address.octets()[1] & 0xf <= 2;
                address.is_unicast_link_local() || low_scope_group
            }
            IpAddr::V4(address) if address.is_broadcast() => return Err(Unreachable::Broadcast),
            IpAddr::V4(_) => false,
        };
        let is_mapped = matches!(query.destination, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        let is_vague = query.destination.is_unspecified() || is_mapped || needs_interface && query.interface.is_none();
        if !self.are_complete || is_vague { Err(Unreachable::AskKernel) } else { Ok(()) }
    }

    fn route(&self, query: &Query) -> Result<Route, Unreachable> {
        let route = match self.best_route(query) {
            Some(route) => route,
            None if query.interface.is_none() => return Err(Unreachable::NoRoute),
            None if self.best_route(&Query { interface: None, ..*query }).is_some() => {
                // A group needs no route when its interface is fixed.
                let is_group = query.destination.is_multicast();
                return Err(if is_group { Unreachable::NoRoute } else { Unreachable::NotOnThisInterface });
            }
            None => return Err(Unreachable::NoRoute),
        };
        match route.kind {
            RouteKind::Unicast => Ok(route),
            RouteKind::Multicast if query.destination.is_multicast() => Ok(route),
            RouteKind::Local | RouteKind::Anycast => Err(Unreachable::Local),
            RouteKind::Broadcast => Err(Unreachable::Broadcast),
            RouteKind::Unreachable => Err(Unreachable::Refused),
            RouteKind::Prohibit => Err(Unreachable::Prohibited),
            RouteKind::Blackhole => Err(Unreachable::Blackhole),
            RouteKind::Multicast | RouteKind::Other => Err(Unreachable::AskKernel),
        }
    }

    /// A group on a fixed interface needs no route.
    fn group_route(&self, query: &Query) -> Result<Route, Unreachable> {
        let interface = query.interface.ok_or(Unreachable::NoRoute)?;
        Ok(Route {
            table: TABLES[1],
            destination: query.destination,
            prefix_len: 0,
            tos: 0,
            kind: RouteKind::Multicast,
            scope: scope::LINK,
            metric: 0,
            gateway: None,
            interface,
            preferred_source: None,
            mtu: 0,
            weight: 1,
            is_dead: false,
            is_continuation: false,
        })
    }

    /// The interface and the one below it, if frames can be sent there.
    fn usable_link(&self, interface: u32) -> Result<(Link, Link), Unreachable> {
        let unusable = Unreachable::LinkUnusable { interface };
        let link = self.link(interface).ok_or(unusable)?;
        if link.is_loopback {
            return Err(Unreachable::Local);
        }
        let device = match link.vlan {
            Some((below, _)) => self.link(below).ok_or(unusable)?,
            None => link,
        };
        // A second tag (a VLAN device upon a VLAN device), a bridge or a bond below: the kernel's.
        let is_plain = device.is_plain_ethernet && device.vlan.is_none() && device.master == 0 && link.master == 0;
        if link.is_up && device.is_up && is_plain { Ok((link, device)) } else { Err(unusable) }
    }

    fn link(&self, index: u32) -> Option<Link> {
        self.links.iter().find(|link| link.index == index).copied()
    }

    fn neighbour(&self, next_hop: IpAddr, interface: u32) -> Result<MacAddress, Unreachable> {
        if let Some(mac) = MacAddress::of_group(next_hop) {
            return Ok(mac);
        }
        let mut known = self.neighbours.iter();
        let found = known.find(|neighbour| neighbour.address == next_hop && neighbour.interface == interface);
        match found.map(|neighbour| (neighbour.state, neighbour.mac)) {
            Some((NeighbourState::Usable, mac)) => Ok(mac),
            Some((NeighbourState::Failed, _)) => Err(Unreachable::NeighbourFailed { next_hop, interface }),
            Some((NeighbourState::Pending, _)) | None => Err(Unreachable::NeighbourPending { next_hop, interface }),
        }
    }
}
