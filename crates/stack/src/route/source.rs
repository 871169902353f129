//! Selection of the source address.

use super::lookup::{common_bits, has_prefix};
use super::{Address, Query, Route, Tables, Unreachable, scope};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

impl Tables<'_> {
    /// The source that was fixed, if it is ours; else the one that the route prefers; else the best of the host's.
    pub(super) fn choose_source(&self, query: &Query, route: &Route) -> Result<IpAddr, Unreachable> {
        if let Some(source) = query.source {
            let is_ours = self.addresses.iter().any(|ours| ours.address == source);
            let same_family = source.is_ipv4() == query.destination.is_ipv4();
            return if is_ours && same_family { Ok(source) } else { Err(Unreachable::SourceNotOurs) };
        }
        if let Some(source) = route.preferred_source {
            return Ok(source);
        }
        let chosen = match query.destination {
            IpAddr::V4(_) => self.source_v4(route),
            IpAddr::V6(destination) => self.source_v6(destination, route.interface),
        };
        chosen.ok_or(Unreachable::NoSource)
    }

    /// As Linux's inet_select_addr(): of the interface's primary addresses the one whose subnet has the gateway, else the
    /// first; else any of another interface that is not for one link only.
    fn source_v4(&self, route: &Route) -> Option<IpAddr> {
        let wide_enough = |ours: &&Address| ours.address.is_ipv4() && !ours.is_secondary && ours.scope <= route.scope;
        let here = || self.addresses.iter().filter(wide_enough).filter(|ours| ours.interface == route.interface);
        let beside =
            here().find(|ours| route.gateway.is_some_and(|gateway| has_prefix(gateway, ours.address, ours.prefix_len)));
        let elsewhere = || self.addresses.iter().filter(wide_enough).find(|ours| ours.scope != scope::LINK);
        beside.or_else(|| here().next()).or_else(elsewhere).map(|ours| ours.address)
    }

    /// RFC 6724 section 5, without rule 4 (mobile) and 5.5 (which router advertised what).
    fn source_v6(&self, destination: Ipv6Addr, interface: u32) -> Option<IpAddr> {
        let candidates = self.addresses.iter().filter_map(|ours| match ours.address {
            IpAddr::V6(address) => Some((ours, address)),
            IpAddr::V4(_) => None,
        });
        // What is for one link only, source or destination, stays on it (section 4).
        let is_for_link = destination.is_multicast() || destination.is_unicast_link_local();
        let on_its_link = candidates
            .filter(|(ours, address)| ours.interface == interface || !(is_for_link || address.is_unicast_link_local()));
        on_its_link
            .enumerate()
            .max_by_key(|(place, (ours, address))| {
                (preference(ours, *address, destination, interface), Reverse(*place))
            })
            .map(|(_, (ours, _))| ours.address)
    }
}

/// Greater is better; one element per rule, in their order: 1 same address, 2 appropriate scope, 3 not deprecated,
/// 5 outgoing interface, 6 matching label, 7 no temporary address (as Linux by default), 8 longest matching prefix.
type Preference = (bool, Reverse<(bool, u8)>, bool, bool, bool, bool, u32);

fn preference(ours: &Address, address: Ipv6Addr, destination: Ipv6Addr, interface: u32) -> Preference {
    let common = common_bits(address.into(), destination.into()).unwrap_or(0);
    (
        address == destination,
        scope_distance(reach(address), reach(destination)),
        !ours.is_avoided,
        ours.interface == interface,
        label(address) == label(destination),
        !ours.is_secondary,
        common.min(u32::from(ours.prefix_len)),
    )
}

/// The smallest scope that reaches the destination is best; of those that do not reach it the largest.
fn scope_distance(source: u8, destination: u8) -> Reverse<(bool, u8)> {
    let is_short = source < destination;
    Reverse((is_short, if is_short { u8::MAX - source } else { source }))
}

/// Scopes in the numbers that groups carry (RFC 4291 section 2.7): 2 link, 5 site, 14 global.
fn reach(address: Ipv6Addr) -> u8 {
    if address.is_multicast() {
        address.octets()[1] & 0xf
    } else if address.is_loopback() || address.is_unicast_link_local() {
        2
    } else {
        14
    }
}

/// Prefix and label (RFC 6724 section 2.1), the longest first.
const LABELS: [(Ipv6Addr, u8, u8); 9] = [
    (Ipv6Addr::LOCALHOST, 128, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 1),
];

fn label(address: Ipv6Addr) -> u8 {
    let found = LABELS.iter().find(|(prefix, length, _)| has_prefix(address.into(), (*prefix).into(), *length));
    found.map_or(1, |(_, _, label)| *label)
}
