//! The mirror against the kernel: after any change by `ip`, the table shows what `ip` shows.

mod support;

use serde_json::Value;
use sidestep_control_api::table::{Incomplete, NeighbourState, ROUTES_MAX, Route, RouteKind};
use sidestep_lab::Side;
use sidestep_stack::route::{Routes, Unreachable};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use support::{Place, routes_to};

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// A route as text, from both sources.
fn shown_routes(place: &Place, family: &str) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for table in ["local", "main"] {
        for route in place.json(&format!("{family} route show table {table}")) {
            let dst = text(&route, "dst");
            let gateway = text(&route, "gateway");
            let kind = route["type"].as_str().unwrap_or("unicast");
            let (interface, metric) = (text(&route, "dev"), route["metric"].as_u64().unwrap_or(0));
            lines.insert(format!("{table} {kind} {dst} via {gateway} dev {interface} metric {metric}"));
        }
    }
    lines
}

fn mirrored_routes(place: &Place, is_ipv6: bool) -> BTreeSet<String> {
    let name = |index: u32| {
        let link = place.seen.links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone()).unwrap_or_default()
    };
    let line = |route: &Route| {
        let full = if is_ipv6 { 128 } else { 32 };
        let dst = match route.prefix_len {
            0 => "default".to_owned(),
            length if length == full => route.destination.to_string(),
            length => format!("{}/{length}", route.destination),
        };
        let kind = format!("{:?}", route.kind).to_lowercase();
        let gateway = route.gateway.map(|gateway| gateway.to_string()).unwrap_or_default();
        let table = if route.table == 255 { "local" } else { "main" };
        format!("{table} {kind} {dst} via {gateway} dev {} metric {}", name(route.interface), route.metric)
    };
    place.seen.routes.iter().filter(|route| route.destination.is_ipv6() == is_ipv6).map(line).collect()
}

/// Prints only the differences: there may be thousands.
fn assert_same_routes(place: &Place, is_ipv6: bool) {
    let shown = shown_routes(place, if is_ipv6 { "-6" } else { "-4" });
    let mirrored = mirrored_routes(place, is_ipv6);
    assert_eq!(mirrored.symmetric_difference(&shown).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(!shown.is_empty());
}

#[test]
fn the_table_is_what_ip_shows() {
    let Some(mut place) = Place::new() else { return };
    place.ip("link add pair0 numrxqueues 3 numtxqueues 2 mtu 1400 type veth peer name pair1");
    place.ip("address add 198.18.7.1/24 dev pair0");
    place.ip("address add 198.18.7.9/24 dev pair0");
    place.ip("link set pair0 up");
    place.ip("link set pair1 up");
    place.ip("route add 203.0.113.0/24 via 198.18.7.2 metric 77");
    place.until("a route by the new interface", |seen| !routes_to(seen, "203.0.113.0/24").is_empty());
    // IPv6 addresses take a moment for duplicate detection, and bring routes then.
    place.until("settled addresses", |seen| seen.addresses.iter().all(|address| !address.is_avoided));

    let links = place.json("-details link show");
    assert_eq!(links.len(), place.seen.links.len());
    for (shown, link) in links.iter().zip(&place.seen.links) {
        assert_eq!(shown["ifindex"], link.index);
        assert_eq!(shown["ifname"], link.name.as_str());
        assert_eq!(shown["mtu"], link.mtu);
        let mac: Vec<String> = link.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown["address"], mac.join(":").as_str());
        assert_eq!(shown["num_rx_queues"], link.receive_queues);
        assert_eq!(shown["num_tx_queues"], link.transmit_queues);
        assert_eq!(shown["flags"].as_array().unwrap().contains(&"LOWER_UP".into()), link.is_up);
        assert_eq!(link.is_plain_ethernet, link.name != "lo");
        assert_eq!(link.is_loopback, link.name == "lo");
    }
    let mut shown = Vec::new();
    for link in place.json("address show") {
        for address in link["addr_info"].as_array().unwrap() {
            let secondary = address["secondary"].as_bool().unwrap_or(false);
            shown.push(format!("{} {}/{} {secondary}", link["ifindex"], text(address, "local"), address["prefixlen"]));
        }
    }
    let line = |record: &sidestep_control_api::table::Address| {
        format!("{} {}/{} {}", record.interface, record.address, record.prefix_len, record.is_secondary)
    };
    let mut mirrored: Vec<String> = place.seen.addresses.iter().map(line).collect();
    shown.sort();
    mirrored.sort();
    assert_eq!(mirrored, shown);
    assert!(shown.iter().any(|line| line.contains("198.18.7.9/24 true")), "{shown:?}");

    assert_same_routes(&place, false);
    assert_same_routes(&place, true);
    assert_eq!(place.seen.routes_incomplete, Incomplete::No);
    assert_eq!(place.seen.hosts_incomplete, Incomplete::No);
}

/// The same query to the kernel and to the copy of its tables: next hop, interface, source.
#[test]
fn the_mirror_decides_as_the_kernel_does() {
    let Some(mut place) = Place::new() else { return };
    place.ip("link add pair0 type veth peer name pair1");
    place.ip("address add 198.18.7.1/24 dev pair0");
    place.ip("address add 198.18.7.9/24 dev pair0");
    place.ip("link set pair0 up");
    place.ip("link set pair1 up");
    place.ip("route add default via 198.18.0.254 metric 100");
    place.ip("route add default via 198.18.7.254 metric 50");
    place.ip("route add 203.0.113.0/24 via 198.18.0.2");
    place.ip("route add 203.0.113.128/25 via 198.18.7.2 src 198.18.7.9");
    place.ip("route add 203.0.113.200/32 dev pair0");
    place.ip("route add 203.0.114.0/24 via 198.18.0.3 metric 10");
    place.ip("route add 203.0.114.0/24 via 198.18.7.3 metric 5");
    place.ip("route add unreachable 203.0.115.0/24");
    place.ip("route add prohibit 203.0.116.0/24");
    place.ip("route add blackhole 203.0.117.0/24");
    place.ip("-6 route add 2001:2:5::/48 via 2001:2::2 metric 9");
    place.ip("-6 route add 2001:2:5:1::/64 via 2001:2::3 metric 9");
    place.until("the last route", |seen| !routes_to(seen, "2001:2:5:1::/64").is_empty());
    place.until("settled addresses", |seen| seen.addresses.iter().all(|address| !address.is_avoided));
    let destinations = "198.18.0.2 198.18.0.200 198.18.7.2 203.0.113.1 203.0.113.129 203.0.113.200 203.0.113.255 \
        203.0.114.7 8.8.8.8 2001:2::2 2001:2::99 2001:2:5::1 2001:2:5:1::1";
    for destination in destinations.split_whitespace() {
        place.ip(&format!("neighbour flush {destination}"));
        let shown = &place.json(&format!("route get {destination}"))[0];
        let (next_hop, interface) = match place.routes().resolve(destination.parse().unwrap(), None, None) {
            Ok(found) => {
                assert_eq!(text(shown, "prefsrc"), found.source.to_string(), "{destination}");
                (found.next_hop, found.interface)
            }
            Err(Unreachable::NeighbourPending { next_hop, interface }) => (next_hop, interface),
            Err(other) => panic!("{destination}: {other}"),
        };
        let gateway = shown["gateway"].as_str().unwrap_or(destination);
        assert_eq!(gateway, next_hop.to_string(), "{destination}");
        let name = place.seen.links.iter().find(|link| link.index == interface).unwrap().name.clone();
        assert_eq!(text(shown, "dev"), name, "{destination}");
    }
    for (destination, refusal) in [
        ("203.0.115.1", Unreachable::Refused),
        ("203.0.116.1", Unreachable::Prohibited),
        ("203.0.117.1", Unreachable::Blackhole),
        ("198.18.7.9", Unreachable::Local),
        ("198.18.0.255", Unreachable::Broadcast),
        ("127.0.0.1", Unreachable::Local),
    ] {
        assert_eq!(place.routes().resolve(destination.parse().unwrap(), None, None), Err(refusal), "{destination}");
    }
    // With neighbours known, the sources can be compared, too.
    place.ip("neighbour replace 198.18.7.2 lladdr 02:00:00:00:00:72 dev pair0 nud permanent");
    place.ip("neighbour replace 198.18.7.254 lladdr 02:00:00:00:00:fe dev pair0 nud permanent");
    place.until("a neighbour", |seen| seen.neighbours.iter().any(|entry| entry.mac == [2, 0, 0, 0, 0, 0xfe]));
    for destination in ["203.0.113.129", "8.8.8.8"] {
        let shown = &place.json(&format!("route get {destination}"))[0];
        let found = place.routes().resolve(destination.parse().unwrap(), None, None).unwrap();
        assert_eq!(text(shown, "prefsrc"), found.source.to_string(), "{destination}");
    }
}

#[test]
fn routes_of_every_kind_come_change_and_go() {
    let Some(mut place) = Place::new() else { return };
    let lab0 = place.interface();
    place.ip("address add 198.18.0.77/24 dev lab0");
    place.ip("route add 203.0.113.0/24 via 198.18.0.2 src 198.18.0.77 mtu 1280 metric 5 proto static");
    place.until("a route", |seen| !routes_to(seen, "203.0.113.0/24").is_empty());
    let route = routes_to(&place.seen, "203.0.113.0/24")[0];
    assert_eq!((route.gateway, route.interface), (Some(place.peer_address()), lab0));
    assert_eq!(route.preferred_source, Some(IpAddr::from([198, 18, 0, 77])));
    assert_eq!((route.mtu, route.metric, route.protocol, route.weight), (1280, 5, 4, 1));

    let before = place.reader.generation();
    place.ip("route replace 203.0.113.0/24 metric 5 nexthop via 198.18.0.2 weight 3 nexthop via 198.18.0.3 dev lab0 weight 1 onlink");
    place.until("two next hops", |seen| routes_to(seen, "203.0.113.0/24").len() == 2);
    assert_ne!(place.reader.generation(), before, "a cached route must be looked up again");
    let hops = routes_to(&place.seen, "203.0.113.0/24");
    assert_eq!([hops[0].weight, hops[1].weight], [3, 1]);
    assert_eq!([hops[0].is_continuation, hops[1].is_continuation], [false, true]);
    assert!(hops[1].is_onlink && !hops[0].is_onlink);

    for (word, kind) in [
        ("unreachable", RouteKind::Unreachable),
        ("prohibit", RouteKind::Prohibit),
        ("blackhole", RouteKind::Blackhole),
        ("throw", RouteKind::Other),
    ] {
        place.ip(&format!("route add {word} 203.0.114.0/24"));
        place.until(word, |seen| routes_to(seen, "203.0.114.0/24").first().is_some_and(|route| route.kind == kind));
        place.ip(&format!("route del {word} 203.0.114.0/24"));
        place.until("its end", |seen| routes_to(seen, "203.0.114.0/24").is_empty());
    }
    place.ip("-6 route add 2001:2:5::/48 via 2001:2::2 metric 9");
    place.until("an IPv6 route", |seen| !routes_to(seen, "2001:2:5::/48").is_empty());
    assert_eq!(routes_to(&place.seen, "2001:2:5::/48")[0].gateway, Some("2001:2::2".parse().unwrap()));

    // The kernel sends no notice for the route that goes with its address.
    place.ip("address del 198.18.0.1/24 dev lab0");
    place.until("no way out", |seen| routes_to(seen, "203.0.113.0/24").is_empty());
    assert!(!place.seen.addresses.iter().any(|address| address.address == IpAddr::from([198, 18, 0, 1])));
}

#[test]
fn a_route_that_flaps_ends_as_it_is() {
    let Some(mut place) = Place::new() else { return };
    for _ in 0..200 {
        place.ip("route add 203.0.113.0/24 via 198.18.0.2");
        place.look();
        place.ip("route del 203.0.113.0/24");
        place.look();
    }
    place.until("no route", |seen| routes_to(seen, "203.0.113.0/24").is_empty());
    place.ip("route add 203.0.113.0/24 via 198.18.0.2");
    place.until("the route", |seen| routes_to(seen, "203.0.113.0/24").len() == 1);
}

#[test]
fn links_go_down_and_up_and_change_and_end() {
    let Some(mut place) = Place::new() else { return };
    place.ip("route add 203.0.113.0/24 via 198.18.0.2");
    place.until("a route", |seen| !routes_to(seen, "203.0.113.0/24").is_empty());
    place.ip("link set lab0 mtu 1300");
    place.until("the MTU", |seen| seen.links.iter().any(|link| link.name == "lab0" && link.mtu == 1300));
    place.peer_ip("link set lab0 down");
    place.until("no carrier", |seen| seen.links.iter().any(|link| link.name == "lab0" && !link.is_up));
    place.peer_ip("link set lab0 up");
    place.until("carrier", |seen| seen.links.iter().any(|link| link.name == "lab0" && link.is_up));
    place.ip("link set lab0 down");
    place.until("no routes", |seen| routes_to(seen, "203.0.113.0/24").is_empty());
    place.ip("link set lab0 address 02:00:00:00:00:77");
    let mac = [2, 0, 0, 0, 0, 0x77];
    place.until("the Ethernet address", |seen| seen.links.iter().any(|link| link.mac == mac));
    place.ip("link set lab0 name wire0");
    place.until("the name", |seen| seen.links.iter().any(|link| link.name == "wire0"));
    place.ip("link del wire0");
    place.until("its end", |seen| seen.links.iter().all(|link| link.name == "lo"));
    assert!(place.seen.addresses.iter().all(|address| address.address.is_loopback()));
}

#[test]
fn neighbours_are_asked_for_confirmed_and_given_up() {
    let Some(mut place) = Place::new() else { return };
    let (lab0, peer) = (place.interface(), place.peer_address());
    let quick =
        "for f in /proc/sys/net/ipv4/neigh/lab0; do echo 1 > $f/mcast_solicit; echo 20 > $f/retrans_time_ms; done";
    place.run(Side::A, "sh", &["-c", quick]);
    place.ip("neighbour flush dev lab0");
    place.mirror.use_neighbour(lab0, peer).unwrap();
    let find = |seen: &sidestep_control_api::table::Snapshot, address: IpAddr| {
        seen.neighbours.iter().find(|entry| entry.address == address && entry.interface == lab0).copied()
    };
    place.until("the peer", |seen| find(seen, peer).is_some_and(|entry| entry.state == NeighbourState::Usable));
    assert_eq!(find(&place.seen, peer).unwrap().mac, place.peer_mac());
    assert_eq!(place.mirror.neighbour(lab0, peer).unwrap().mac, place.peer_mac());

    let nobody: IpAddr = [198, 18, 0, 99].into();
    place.mirror.use_neighbour(lab0, nobody).unwrap();
    place.until("a failure", |seen| find(seen, nobody).is_some_and(|entry| entry.state == NeighbourState::Failed));

    place.ip("neighbour replace 198.18.0.50 lladdr 02:00:00:00:00:50 dev lab0 nud permanent");
    let fixed: IpAddr = [198, 18, 0, 50].into();
    place.until("a permanent one", |seen| find(seen, fixed).is_some_and(|entry| entry.nud == 0x80));
    let before = place.reader.generation();
    place.ip("neighbour replace 198.18.0.50 lladdr 02:00:00:00:00:51 dev lab0 nud permanent");
    place.until("its new address", |seen| find(seen, fixed).is_some_and(|entry| entry.mac[5] == 0x51));
    assert_ne!(place.reader.generation(), before);
    place.ip("neighbour del 198.18.0.50 dev lab0");
    place.until("its end", |seen| find(seen, fixed).is_none_or(|entry| entry.state != NeighbourState::Usable));

    place.ip("neighbour change 198.18.0.2 dev lab0 nud stale");
    place.until("staleness", |seen| find(seen, peer).is_some_and(|entry| entry.nud == 4));
    let before = place.reader.generation();
    place.mirror.use_neighbour(lab0, peer).unwrap();
    place.until("its check", |seen| find(seen, peer).is_some_and(|entry| entry.nud & (8 | 16 | 2) != 0));
    assert_eq!(place.reader.generation(), before, "the address stayed: no cached route is untrue");
    assert!(place.mirror.use_neighbour(9999, peer).is_err(), "there is no such interface");
}

/// Entries of an administrator or a routing daemon are used as they are, and the kernel is never made to resolve them.
#[test]
fn entries_that_are_not_the_kernels_own_are_left_alone() {
    let Some(mut place) = Place::new() else { return };
    let lab0 = place.interface();
    let kinds = ["nud permanent", "nud noarp", "nud stale extern_learn", "nud reachable managed"];
    for (number, kind) in (10..).zip(kinds) {
        for address in [format!("198.18.0.{number}"), format!("2001:2::{number}")] {
            place.ip(&format!("neighbour replace {address} lladdr 02:00:00:00:00:{number} dev lab0 {kind}"));
            let parsed: IpAddr = address.parse().unwrap();
            let shown = |place: &Place| {
                let all = place.json(&format!("neighbour show {address} dev lab0 nud all"));
                let entry = all.first().cloned().unwrap_or_default();
                // The kernel resolves a managed one by itself.
                let own = if kind.ends_with("managed") { vec![] } else { vec![&entry["state"], &entry["lladdr"]] };
                // Names without a value.
                let marks = ["extern_learn", "managed"].map(|mark| entry.get(mark).is_some());
                (own.into_iter().cloned().collect::<Vec<Value>>(), marks)
            };
            let before = shown(&place);
            assert_eq!(before.1, [kind.ends_with("extern_learn"), kind.ends_with("managed")], "{address} {kind}");
            place.until("the entry", |seen| seen.neighbours.iter().any(|entry| entry.address == parsed));
            for _ in 0..3 {
                place.mirror.use_neighbour(lab0, parsed).unwrap();
            }
            assert_eq!(shown(&place), before, "{address} {kind}");
        }
    }
    let usable =
        |entry: &&sidestep_control_api::table::Neighbour| entry.state == NeighbourState::Usable && entry.mac[0] == 2;
    assert!(place.seen.neighbours.iter().filter(usable).count() >= 2 * 2, "{:?}", place.seen.neighbours);
}

#[test]
fn rules_of_ones_own_take_the_mirror_its_say() {
    let Some(mut place) = Place::new() else { return };
    place.ip("route add 203.0.113.0/24 via 198.18.0.2 table 100");
    place.ip("rule add from 198.18.0.1 table 100");
    place.until("the rule", |seen| seen.routes_incomplete == Incomplete::Rules);
    assert!(routes_to(&place.seen, "203.0.113.0/24").is_empty(), "table 100 is not mirrored");
    place.ip("rule del from 198.18.0.1 table 100");
    place.until("its end", |seen| seen.routes_incomplete == Incomplete::No);
    place.ip("-6 rule add fwmark 1 table 100");
    place.until("an IPv6 rule", |seen| seen.routes_incomplete == Incomplete::Rules);
    place.ip("-6 rule del fwmark 1 table 100");
    place.until("its end", |seen| seen.routes_incomplete == Incomplete::No);
}

/// A batch of `ip route` commands for that many /32 routes.
fn batch(place: &Place, verb: &str, count: usize) {
    let mut lines = String::new();
    for number in 0..count {
        let _ = writeln!(lines, "route {verb} 203.{}.{}.{}/32 dev lab0", number >> 16, number >> 8 & 255, number & 255);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    place.run(Side::A, "ip", &["-batch", file.path().to_str().unwrap()]);
}

/// Links that come and go during a dump of many more spoil it over and over; the mirror must survive that.
#[test]
fn changes_in_the_middle_of_a_reading_are_read_again() {
    let Some(mut place) = Place::new() else { return };
    let links: String =
        (0..48).map(|number| format!("link add busy{number} type veth peer name other{number}\n")).collect();
    let churn: String = (0..100).map(|_| "link add brief0 type veth peer name brief1\nlink del brief0\n").collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), links).unwrap();
    place.run(Side::A, "ip", &["-batch", file.path().to_str().unwrap()]);
    std::fs::write(file.path(), churn).unwrap();
    let mut changes = place.command("ip").args(["-batch", file.path().to_str().unwrap()]).spawn().unwrap();
    let (interface, peer) = (place.interface(), place.peer_address());
    while changes.try_wait().unwrap().is_none() {
        place.look();
        // On the socket for requests.
        place.mirror.use_neighbour(interface, peer).unwrap();
    }
    assert!(changes.wait().unwrap().success());
    place.until("all links", |seen| seen.links.len() == 2 * 48 + 2 && seen.hosts_incomplete == Incomplete::No);
}

#[test]
fn dropped_notices_lead_to_a_full_reading() {
    let Some(mut place) = Place::with_buffer(Some(2048)) else { return };
    batch(&place, "add", 1000);
    place.until("all routes", |seen| seen.routes.iter().filter(|route| route.prefix_len == 32).count() >= 1000);
    assert!(place.mirror.overruns() > 0, "the buffer was meant to be too small");
    assert_same_routes(&place, false);
    batch(&place, "del", 1000);
    place.until("none", |seen| !seen.routes.iter().any(|route| route.destination == IpAddr::from([203, 0, 3, 7])));
    assert_same_routes(&place, false);
}

#[test]
fn more_routes_than_fit_are_said_and_mended() {
    let Some(mut place) = Place::new() else { return };
    batch(&place, "add", ROUTES_MAX + 10);
    place.until("overflow", |seen| seen.routes_incomplete == Incomplete::Overflowed);
    assert!(place.seen.routes.len() <= ROUTES_MAX);
    batch(&place, "del", ROUTES_MAX + 10);
    place.look();
    assert_eq!(place.seen.routes_incomplete, Incomplete::Overflowed, "it is not read over and over");
    place.mirror.refresh(Instant::now() + Duration::from_secs(11)).unwrap();
    place.until("order", |seen| seen.routes_incomplete == Incomplete::No);
    assert_same_routes(&place, false);
}
