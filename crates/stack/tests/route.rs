//! The kernel's routing decisions, made from its tables.

use sidestep_stack::route::{
    Address, Link, MemoryRoutes, Neighbour, NeighbourState, Query, Route, RouteKind, Routes, Tables, Unreachable, scope,
};
use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::net::IpAddr;

const LO: u32 = 1;
const ETH: u32 = 2;
const VLAN: u32 = 3;
const BRIDGE: u32 = 4;
const OTHER: u32 = 5;
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const ROUTER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn link(index: u32) -> Link {
    Link { index, mac: MAC, mtu: 1500, is_up: true, is_loopback: false, is_plain_ethernet: true, vlan: None, master: 0 }
}

fn address(interface: u32, text: &str, prefix_len: u8) -> Address {
    let address = ip(text);
    let link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let scope = if link_local { scope::LINK } else { scope::UNIVERSE };
    Address { interface, address, prefix_len, scope, is_avoided: false, is_secondary: false }
}

/// `prefix` is "10.0.0.0/8".
fn route(prefix: &str, gateway: Option<&str>, interface: u32) -> Route {
    let (destination, prefix_len) = prefix.split_once('/').unwrap();
    Route {
        table: 254,
        destination: ip(destination),
        prefix_len: prefix_len.parse().unwrap(),
        tos: 0,
        kind: RouteKind::Unicast,
        scope: if gateway.is_some() { scope::UNIVERSE } else { scope::LINK },
        metric: 0,
        gateway: gateway.map(ip),
        interface,
        preferred_source: None,
        mtu: 0,
        weight: 1,
        is_dead: false,
        is_continuation: false,
    }
}

fn neighbour(interface: u32, text: &str, mac: MacAddress) -> Neighbour {
    Neighbour { interface, address: ip(text), mac, state: NeighbourState::Usable }
}

fn local(prefix: &str, interface: u32) -> Route {
    Route { table: 255, kind: RouteKind::Local, scope: scope::HOST, ..route(prefix, None, interface) }
}

fn host() -> MemoryRoutes {
    let mut host = MemoryRoutes::new();
    host.change(|links, addresses, routes, neighbours| {
        links.push(Link { is_loopback: true, is_plain_ethernet: false, ..link(LO) });
        links.push(link(ETH));
        links.push(Link { vlan: VlanId::new(70).map(|id| (ETH, id)), mtu: 1496, ..link(VLAN) });
        links.push(Link { is_plain_ethernet: false, ..link(BRIDGE) });
        links.push(link(OTHER));
        addresses.extend([address(ETH, "10.0.0.1", 24), address(VLAN, "10.7.0.1", 24), address(OTHER, "10.5.0.1", 24)]);
        addresses.extend([address(ETH, "fe80::1", 64), address(ETH, "2001:db8::1", 64), address(OTHER, "fd00::1", 64)]);
        routes.extend([local("10.0.0.1/32", LO), local("127.0.0.0/8", LO), local("2001:db8::1/128", LO)]);
        routes.push(Route { kind: RouteKind::Broadcast, ..local("10.0.0.255/32", ETH) });
        routes.push(Route { preferred_source: Some(ip("10.0.0.1")), ..route("10.0.0.0/24", None, ETH) });
        routes.push(route("10.7.0.0/24", None, VLAN));
        routes.push(route("10.5.0.0/24", None, OTHER));
        routes.push(route("0.0.0.0/0", Some("10.0.0.254"), ETH));
        routes.push(route("2001:db8::/64", None, ETH));
        routes.push(route("::/0", Some("fe80::9"), ETH));
        neighbours.push(neighbour(ETH, "10.0.0.254", ROUTER_MAC));
        neighbours.push(neighbour(ETH, "fe80::9", ROUTER_MAC));
        neighbours.push(neighbour(VLAN, "10.7.0.2", MacAddress([7; 6])));
        neighbours.push(neighbour(OTHER, "10.5.0.2", MacAddress([5; 6])));
    });
    host
}

#[test]
fn a_router_takes_what_is_far() {
    let way = host().resolve(ip("192.0.2.1"), None, None).unwrap();
    assert_eq!((way.interface, way.device, way.vlan), (ETH, ETH, None));
    assert_eq!((way.next_hop, way.next_hop_mac), (ip("10.0.0.254"), ROUTER_MAC));
    assert_eq!((way.source, way.source_mac, way.mtu), (ip("10.0.0.1"), MAC, 1500));
    let way = host().resolve(ip("2001:db8:1::1"), None, None).unwrap();
    assert_eq!((way.next_hop, way.source), (ip("fe80::9"), ip("2001:db8::1")));
}

#[test]
fn a_vlan_is_a_tag_on_the_interface_below() {
    let way = host().resolve(ip("10.7.0.2"), None, None).unwrap();
    assert_eq!((way.interface, way.device, way.vlan), (VLAN, ETH, VlanId::new(70)));
    assert_eq!((way.next_hop, way.mtu, way.source), (ip("10.7.0.2"), 1496, ip("10.7.0.1")));
}

#[test]
fn a_neighbour_that_is_not_known_is_asked_for() {
    let mut host = host();
    let pending = Unreachable::NeighbourPending { next_hop: ip("10.0.0.7"), interface: ETH };
    assert_eq!(host.resolve(ip("10.0.0.7"), None, None), Err(pending));
    let before = host.generation();
    let seven = Neighbour { state: NeighbourState::Failed, ..neighbour(ETH, "10.0.0.7", MAC) };
    host.change(|_, _, _, neighbours| neighbours.push(seven));
    assert_ne!(host.generation(), before);
    let failed = Unreachable::NeighbourFailed { next_hop: ip("10.0.0.7"), interface: ETH };
    assert_eq!(host.resolve(ip("10.0.0.7"), None, None), Err(failed));
}

#[test]
fn what_refuses_says_how() {
    for (kind, answer) in [
        (RouteKind::Unreachable, Unreachable::Refused),
        (RouteKind::Prohibit, Unreachable::Prohibited),
        (RouteKind::Blackhole, Unreachable::Blackhole),
        (RouteKind::Other, Unreachable::AskKernel),
    ] {
        let mut host = host();
        host.change(|_, _, routes, _| routes.push(Route { kind, interface: 0, ..route("192.0.2.0/24", None, 0) }));
        assert_eq!(host.resolve(ip("192.0.2.1"), None, None), Err(answer));
        assert_eq!(host.resolve(ip("192.0.2.1"), None, Some(ETH)), Err(answer), "on a fixed interface, too");
        assert!(host.resolve(ip("192.0.3.1"), None, None).is_ok());
    }
    let host = host();
    for (text, answer) in [
        ("10.0.0.1", Unreachable::Local),
        ("127.0.0.1", Unreachable::Local),
        ("2001:db8::1", Unreachable::Local),
        ("255.255.255.255", Unreachable::Broadcast),
        ("10.0.0.255", Unreachable::Broadcast),
        ("0.0.0.0", Unreachable::AskKernel),
        ("::", Unreachable::AskKernel),
        ("::ffff:10.0.0.2", Unreachable::AskKernel),
        ("fe80::2", Unreachable::AskKernel),
        ("ff02::2", Unreachable::AskKernel),
    ] {
        assert_eq!(host.resolve(ip(text), None, None), Err(answer), "{text}");
    }
    assert_eq!(MemoryRoutes::new().resolve(ip("10.0.0.2"), None, None), Err(Unreachable::NoRoute));
}

#[test]
fn incomplete_tables_prove_nothing() {
    let host = host();
    let tables = Tables { are_complete: false, ..host.tables() };
    let query = Query { destination: ip("192.0.2.1"), source: None, interface: None, tos: 0 };
    assert_eq!(tables.resolve(&query), Err(Unreachable::AskKernel));
}

#[test]
fn links_that_frames_cannot_be_built_for() {
    let mut host = host();
    host.change(|_, _, routes, _| routes.push(route("10.4.0.0/16", None, BRIDGE)));
    assert_eq!(host.resolve(ip("10.4.0.1"), None, None), Err(Unreachable::LinkUnusable { interface: BRIDGE }));
    host.change(|links, _, _, _| links[1].is_up = false);
    assert_eq!(host.resolve(ip("10.0.0.254"), None, None), Err(Unreachable::LinkUnusable { interface: ETH }));
    assert_eq!(
        host.resolve(ip("10.7.0.2"), None, None),
        Err(Unreachable::LinkUnusable { interface: VLAN }),
        "a VLAN is as dead as what is below it"
    );
}

#[test]
fn longest_prefix_then_service_then_metric_then_order() {
    let mut host = host();
    host.change(|_, _, routes, _| {
        routes.push(Route { metric: 100, ..route("192.0.2.0/24", Some("10.5.0.2"), OTHER) });
        routes.push(Route { metric: 50, mtu: 900, ..route("192.0.2.0/24", Some("10.0.0.254"), ETH) });
        routes.push(Route { metric: 50, mtu: 800, ..route("192.0.2.0/24", Some("10.5.0.2"), OTHER) });
        routes.push(Route { tos: 16, metric: 900, ..route("192.0.2.0/24", Some("10.5.0.2"), OTHER) });
    });
    let way = host.resolve(ip("192.0.2.1"), None, None).unwrap();
    assert_eq!((way.interface, way.mtu), (ETH, 900));
    let way = host.resolve(ip("192.0.2.1"), None, Some(OTHER)).unwrap();
    assert_eq!((way.interface, way.mtu), (OTHER, 800), "by the interface asked for, its best metric");
    let query = Query { destination: ip("192.0.2.1"), source: None, interface: None, tos: 16 };
    assert_eq!(host.tables().resolve(&query).unwrap().interface, OTHER, "a route for this service");
    host.change(|_, _, routes, _| routes.iter_mut().for_each(|route| route.is_dead = route.metric == 50));
    let way = host.resolve(ip("192.0.2.1"), None, None).unwrap();
    assert_eq!((way.interface, way.mtu), (OTHER, 1500), "dead routes are passed over");
}

#[test]
fn a_fixed_interface_falls_back_to_shorter_prefixes_only_on_itself() {
    let host = host();
    assert_eq!(host.resolve(ip("10.5.0.2"), None, Some(VLAN)), Err(Unreachable::NotOnThisInterface));
    let way = host.resolve(ip("10.5.0.2"), None, Some(ETH)).unwrap();
    assert_eq!(way.next_hop, ip("10.0.0.254"), "the default route goes by it");
}

#[test]
fn several_next_hops_share_by_weight_and_stay() {
    let mut host = host();
    host.change(|_, _, routes, _| {
        routes.push(Route { weight: 3, ..route("198.51.100.0/24", Some("10.0.0.254"), ETH) });
        let second = route("198.51.100.0/24", Some("10.5.0.2"), OTHER);
        routes.push(Route { is_continuation: true, ..second });
    });
    let ways: Vec<u32> =
        (0..=255).map(|last| host.resolve(ip(&format!("198.51.100.{last}")), None, None).unwrap().interface).collect();
    let first = ways.iter().filter(|way| **way == ETH).count();
    assert!((160..=224).contains(&first), "three of four go by the first: {first} of 256");
    let again = host.resolve(ip("198.51.100.9"), None, None).unwrap().interface;
    assert_eq!(again, ways[9], "the same destination goes the same way");
    assert_eq!(host.resolve(ip("198.51.100.9"), None, Some(OTHER)).unwrap().interface, OTHER);
    host.change(|_, _, routes, _| routes.iter_mut().for_each(|route| route.is_dead |= route.weight == 3));
    for last in 0..=255 {
        assert_eq!(host.resolve(ip(&format!("198.51.100.{last}")), None, None).unwrap().interface, OTHER);
    }
}

#[test]
fn groups_go_by_route_or_by_a_fixed_interface() {
    let host = host();
    let way = host.resolve(ip("239.1.2.3"), None, None).unwrap();
    assert_eq!((way.interface, way.next_hop_mac), (ETH, MacAddress([1, 0, 0x5e, 1, 2, 3])));
    assert_eq!(way.next_hop, ip("239.1.2.3"), "the group's own address, not the router's");
    let way = host.resolve(ip("239.1.2.3"), None, Some(VLAN)).unwrap();
    assert_eq!((way.interface, way.device, way.source), (VLAN, ETH, ip("10.7.0.1")));
    let way = host.resolve(ip("ff02::123"), None, Some(ETH)).unwrap();
    assert_eq!(way.source, ip("fe80::1"));
    let way = host.resolve(ip("ff0e::123"), None, Some(ETH)).unwrap();
    assert_eq!(way.source, ip("2001:db8::1"));
}

#[test]
fn the_source_is_ours_and_fits() {
    let mut host = host();
    assert_eq!(host.resolve(ip("192.0.2.1"), Some(ip("10.9.9.9")), None), Err(Unreachable::SourceNotOurs));
    assert_eq!(host.resolve(ip("192.0.2.1"), Some(ip("2001:db8::1")), None), Err(Unreachable::SourceNotOurs));
    assert_eq!(host.resolve(ip("192.0.2.1"), Some(ip("10.5.0.1")), None).unwrap().source, ip("10.5.0.1"));
    host.change(|_, addresses, _, _| {
        addresses.insert(0, Address { is_secondary: true, ..address(ETH, "10.0.0.3", 24) });
        addresses.insert(0, address(ETH, "10.200.0.1", 24));
    });
    let way = host.resolve(ip("192.0.2.1"), None, None).unwrap();
    assert_eq!(way.source, ip("10.0.0.1"), "the primary address beside the gateway");
    host.change(|_, addresses, _, _| addresses.retain(|ours| ours.address.is_ipv6()));
    assert_eq!(host.resolve(ip("192.0.2.1"), None, None), Err(Unreachable::NoSource));
}

#[test]
fn ipv6_sources_follow_rfc_6724() {
    let mut host = host();
    let source = |host: &MemoryRoutes, to: &str| host.resolve(ip(to), None, None).unwrap().source;
    host.change(|_, addresses, routes, neighbours| {
        addresses.push(Address { is_avoided: true, ..address(ETH, "2001:db8:1::1", 64) });
        addresses.push(address(ETH, "fd00:1::1", 64));
        addresses.push(Address { is_secondary: true, ..address(ETH, "2001:db8:2::5", 64) });
        addresses.push(address(ETH, "2001:db8:2::6", 64));
        routes.push(route("fd00:1::/64", None, ETH));
        neighbours.push(neighbour(ETH, "fd00:1::9", ROUTER_MAC));
    });
    assert_eq!(source(&host, "2001:db8:1::77"), ip("2001:db8::1"), "not the deprecated one, though it matches longer");
    assert_eq!(source(&host, "fd00:1::9"), ip("fd00:1::1"), "the same label");
    assert_eq!(source(&host, "2001:db8:2::77"), ip("2001:db8:2::6"), "the longest match that is not temporary");
    host.change(|_, _, routes, _| routes.push(route("fe80::/64", None, ETH)));
    let way = host.resolve(ip("fe80::9"), None, Some(ETH)).unwrap();
    assert_eq!((way.source, way.next_hop_mac), (ip("fe80::1"), ROUTER_MAC), "what is for one link stays on it");
}
