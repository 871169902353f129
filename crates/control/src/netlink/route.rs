//! Routes of rtnetlink as records, one per next hop.

use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop, RoutePreference, RouteType,
    RouteVia,
};
use sidestep_control_api::table::{Route, RouteKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The tables that a host without policy rules uses: local, main, default.
const TABLES: [u32; 3] = [255, 254, 253];

/// Returns whether a message may be of a mirrored table: its fixed part names tables up to 255; greater ones are not
/// mirrored.
pub(super) fn may_be_mirrored(payload: &[u8]) -> bool {
    payload.get(4).is_some_and(|table| TABLES.contains(&u32::from(*table)))
}

/// The next hops of a route; none for routes that are not mirrored.
pub(super) fn routes(message: &RouteMessage) -> Vec<Route> {
    let header = &message.header;
    let facts = Facts::of(message);
    let table = facts.table.unwrap_or(u32::from(header.table));
    // Cloned routes are learned about one destination, not configured.
    if !TABLES.contains(&table) || header.flags.contains(RouteFlags::Cloned) {
        return Vec::new();
    }
    let nowhere: IpAddr = match header.address_family {
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let is_simple = !facts.is_special && header.source_prefix_length == 0;
    let first = Route {
        table,
        destination: facts.destination.unwrap_or(nowhere),
        prefix_len: header.destination_prefix_length,
        tos: header.tos,
        kind: if is_simple { kind(header.kind) } else { RouteKind::Other },
        scope: header.scope.into(),
        protocol: header.protocol.into(),
        metric: facts.metric,
        gateway: facts.gateway,
        interface: facts.interface,
        preferred_source: facts.preferred_source,
        mtu: facts.mtu,
        weight: 1,
        is_onlink: header.flags.contains(RouteFlags::Onlink),
        is_dead: header.flags.contains(RouteFlags::Dead),
        is_continuation: false,
    };
    if facts.hops.is_empty() {
        // A unicast route without an interface has it in a next-hop object that is not included.
        let is_lost = first.kind == RouteKind::Unicast && first.interface == 0;
        return vec![Route { kind: if is_lost { RouteKind::Other } else { first.kind }, ..first }];
    }
    let of = |(number, hop): (usize, &&RouteNextHop)| next_hop(&first, hop, number > 0);
    facts.hops.iter().enumerate().map(of).collect()
}

fn next_hop(route: &Route, hop: &RouteNextHop, is_continuation: bool) -> Route {
    use netlink_packet_route::route::RouteNextHopFlags as Flags;
    let mut facts = Facts::default();
    hop.attributes.iter().for_each(|attribute| facts.note(attribute));
    Route {
        kind: if facts.is_special { RouteKind::Other } else { route.kind },
        gateway: facts.gateway,
        interface: hop.interface_index,
        // rtnetlink counts from 0.
        weight: u16::from(hop.hops) + 1,
        is_onlink: hop.flags.contains(Flags::Onlink),
        is_dead: hop.flags.contains(Flags::Dead),
        is_continuation,
        ..*route
    }
}

/// The attributes of a route, or of one of its next hops.
#[derive(Default)]
struct Facts<'a> {
    table: Option<u32>,
    destination: Option<IpAddr>,
    gateway: Option<IpAddr>,
    preferred_source: Option<IpAddr>,
    interface: u32,
    metric: u32,
    mtu: u32,
    hops: Vec<&'a RouteNextHop>,
    /// True for encapsulation, preferences and the like, which are left to the kernel.
    is_special: bool,
}

impl<'a> Facts<'a> {
    fn of(message: &'a RouteMessage) -> Self {
        let mut facts = Self::default();
        message.attributes.iter().for_each(|attribute| facts.note(attribute));
        facts
    }

    fn note(&mut self, attribute: &'a RouteAttribute) {
        match attribute {
            RouteAttribute::Table(table) => self.table = Some(*table),
            RouteAttribute::Destination(address) => self.destination = ip(address),
            RouteAttribute::Gateway(address) => self.gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => self.gateway = Some((*address).into()),
            RouteAttribute::PrefSource(address) => self.preferred_source = ip(address),
            RouteAttribute::Oif(interface) => self.interface = *interface,
            RouteAttribute::Priority(metric) => self.metric = *metric,
            RouteAttribute::MultiPath(hops) => self.hops.extend(hops),
            RouteAttribute::Metrics(metrics) => {
                let mtu = metrics
                    .iter()
                    .find_map(|metric| if let RouteMetric::Mtu(mtu) = metric { Some(*mtu) } else { None });
                self.mtu = mtu.unwrap_or_default();
            }
            RouteAttribute::Preference(preference) => self.is_special |= *preference != RoutePreference::Medium,
            RouteAttribute::Encap(_)
            | RouteAttribute::EncapType(_)
            | RouteAttribute::Source(_)
            | RouteAttribute::Via(_) => {
                self.is_special = true;
            }
            // Statistics, realms and additions of newer kernels that do not affect the decision.
            _ => {}
        }
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn kind(kind: RouteType) -> RouteKind {
    match kind {
        RouteType::Unicast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Multicast => RouteKind::Multicast,
        RouteType::Anycast => RouteKind::Anycast,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        RouteType::BlackHole => RouteKind::Blackhole,
        _ => RouteKind::Other,
    }
}
