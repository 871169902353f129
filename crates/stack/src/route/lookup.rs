//! The longest prefix, the least metric, and one of several next hops.

use super::{Query, Route, RouteKind, TABLES, Tables};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

impl Tables<'_> {
    /// The route that Linux would take: the first table that has one, in it the longest prefix, the exact type of service
    /// before any, the least metric, what stands first.
    ///
    /// With a fixed interface, routes by others are passed over for shorter prefixes, as fib_table_lookup() does.
    pub(super) fn best_route(&self, query: &Query) -> Option<Route> {
        TABLES.into_iter().find_map(|table| {
            let mut best: Option<(Rank, &[Route])> = None;
            for hops in routes(self.routes).filter(|hops| hops[0].table == table && fits(&hops[0], query)) {
                let rank = rank(&hops[0]);
                if best.as_ref().is_none_or(|(best, _)| rank > *best) && is_usable(hops, query) {
                    best = Some((rank, hops));
                }
            }
            best.and_then(|(_, hops)| choose_hop(hops, query))
        })
    }
}

/// Each route as its next hops in a row.
fn routes(records: &[Route]) -> impl Iterator<Item = &[Route]> {
    records.chunk_by(|_, next| next.is_continuation)
}

/// Greater is better.
type Rank = (u8, bool, std::cmp::Reverse<u32>);

fn rank(route: &Route) -> Rank {
    (route.prefix_len, route.tos != 0, std::cmp::Reverse(route.metric))
}

fn fits(route: &Route, query: &Query) -> bool {
    has_prefix(query.destination, route.destination, route.prefix_len) && (route.tos == 0 || route.tos == query.tos)
}

/// Returns whether `address` is in the prefix. Addresses of different families never are.
pub(super) fn has_prefix(address: IpAddr, prefix: IpAddr, prefix_len: u8) -> bool {
    common_bits(address, prefix).is_some_and(|common| common >= u32::from(prefix_len))
}

/// Leading bits that two addresses have in common; `None` if they are of different families.
pub(super) fn common_bits(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    }
}

/// A route that refuses is always usable: it has no next hop that could be dead, or be on another interface.
fn is_usable(hops: &[Route], query: &Query) -> bool {
    refuses(&hops[0]) || hops.iter().any(|hop| is_usable_hop(hop, query))
}

fn refuses(route: &Route) -> bool {
    matches!(route.kind, RouteKind::Unreachable | RouteKind::Prohibit | RouteKind::Blackhole | RouteKind::Other)
}

fn is_usable_hop(hop: &Route, query: &Query) -> bool {
    !hop.is_dead && query.interface.is_none_or(|interface| interface == hop.interface)
}

/// One of the usable next hops, by weight. The same source and destination always get the same one; which one Linux would
/// take depends on a secret of the kernel.
fn choose_hop(hops: &[Route], query: &Query) -> Option<Route> {
    if refuses(&hops[0]) {
        return Some(hops[0]);
    }
    let usable = || hops.iter().filter(|hop| is_usable_hop(hop, query));
    let total: u64 = usable().map(|hop| u64::from(hop.weight.max(1))).sum();
    let mut place = flow_hash(query) % total.max(1);
    for hop in usable() {
        let weight = u64::from(hop.weight.max(1));
        if place < weight {
            return Some(*hop);
        }
        place -= weight;
    }
    None
}

fn flow_hash(query: &Query) -> u64 {
    let mut hasher = crate::hash::FlowHasher::default();
    (query.destination, query.source).hash(&mut hasher);
    hasher.finish()
}
