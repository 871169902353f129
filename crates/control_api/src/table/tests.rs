//! The table as a whole: written data is read back, torn data is not, and no change leaves the generation as it is.

use super::*;
use crate::table::record::Record;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn link(index: u32, mtu: u32) -> Link {
    Link {
        index,
        name: format!("lab{index}"),
        mac: [2, 0, 0, 0, 0, index as u8],
        mtu,
        is_up: true,
        is_loopback: false,
        is_plain_ethernet: true,
        receive_queues: 1,
        transmit_queues: 2,
        vlan: None,
        master: 0,
    }
}

fn neighbour(number: u8, nud: u16) -> Neighbour {
    let address = Ipv4Addr::new(198, 18, 0, number).into();
    Neighbour { interface: 2, address, mac: [2, 0, 0, 0, 0, number], state: NeighbourState::Usable, nud }
}

fn route(number: u32) -> Route {
    let repeated = Ipv4Addr::from_bits(number);
    Route {
        table: number,
        destination: repeated.into(),
        prefix_len: 32,
        tos: 0,
        kind: RouteKind::Unicast,
        scope: 0,
        protocol: 4,
        metric: number,
        gateway: Some(repeated.into()),
        interface: number,
        preferred_source: Some(repeated.into()),
        mtu: number,
        weight: 1,
        is_onlink: false,
        is_dead: false,
        is_continuation: false,
    }
}

#[test]
fn what_is_written_is_read_and_an_empty_table_knows_nothing() {
    let mut writer = Writer::create(7).unwrap();
    let reader = Reader::open(writer.file()).unwrap();
    let mut seen = Snapshot::default();
    reader.snapshot(&mut seen).unwrap();
    assert_eq!(seen.routes_incomplete, Incomplete::NotRead);
    let links = [link(2, 1500), Link { vlan: Some((2, 100)), ..link(3, 1496) }];
    assert!(writer.set_links(&links, Incomplete::No));
    assert!(writer.set_addresses(&[], Incomplete::No));
    assert!(writer.set_routes(&[route(3)], Incomplete::Rules));
    assert!(writer.set_neighbours(&[neighbour(1, 2)], Incomplete::No));
    reader.snapshot(&mut seen).unwrap();
    assert_eq!(seen.links, links);
    assert_eq!(seen.routes, [route(3)]);
    assert_eq!(seen.neighbours, [neighbour(1, 2)]);
    assert_eq!(seen.hosts_incomplete, Incomplete::No);
    assert_eq!(seen.routes_incomplete, Incomplete::Rules);
    assert_eq!(reader.namespace(), 7);
    writer.beat(99);
    assert_eq!(reader.alive_ns(), 99);
}

#[test]
fn the_generation_moves_only_when_a_route_can_have_become_untrue() {
    let mut writer = Writer::create(0).unwrap();
    let reader = Reader::open(writer.file()).unwrap();
    writer.set_neighbours(&[neighbour(1, 2)], Incomplete::No);
    let before = reader.generation();
    assert!(!writer.set_neighbours(&[neighbour(1, 2)], Incomplete::No), "the same again");
    assert!(!writer.set_neighbours(&[neighbour(1, 4)], Incomplete::No), "reachable to stale");
    assert_eq!(reader.generation(), before);
    let mut seen = Snapshot::default();
    reader.snapshot(&mut seen).unwrap();
    assert_eq!(seen.neighbours[0].nud, 4, "yet the record says so");
    let moved = Neighbour { mac: [2, 0, 0, 0, 0, 9], ..neighbour(1, 4) };
    assert!(writer.set_neighbours(&[moved], Incomplete::No));
    assert_ne!(reader.generation(), before);
}

#[test]
fn more_than_fits_is_said() {
    let mut writer = Writer::create(0).unwrap();
    let reader = Reader::open(writer.file()).unwrap();
    let routes: Vec<Route> = (0..ROUTES_MAX as u32 + 1).map(route).collect();
    writer.set_routes(&routes, Incomplete::No);
    let mut seen = Snapshot::default();
    reader.snapshot(&mut seen).unwrap();
    assert_eq!((seen.routes.len(), seen.routes_incomplete), (ROUTES_MAX, Incomplete::Overflowed));
    writer.set_routes(&routes[1..], Incomplete::No);
    reader.snapshot(&mut seen).unwrap();
    assert_eq!((seen.routes.len(), seen.routes_incomplete), (ROUTES_MAX, Incomplete::No));
}

/// Every word of a record holds the number of its version: a torn copy would show two.
#[test]
fn no_reader_ever_sees_a_torn_table() {
    const ROUNDS: u32 = 20_000;
    /// Copies that the two readers together must get during the writes.
    const LOOKS: u64 = 1000;
    let mut writer = Writer::create(0).unwrap();
    let reader = Reader::open(writer.file()).unwrap();
    let version = |number: u32| (0..4 + number % 5).map(|_| route(number)).collect::<Vec<_>>();
    writer.set_routes(&version(0), Incomplete::No);
    let (is_done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let look = || {
            let (mut seen, mut last) = (Snapshot::default(), 0);
            while !is_done.load(Ordering::Relaxed) {
                if reader.snapshot(&mut seen).is_ok() {
                    let number = seen.routes[0].table;
                    assert_eq!(seen.routes, version(number), "whole");
                    assert!(number >= last, "time does not run backwards");
                    last = number;
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let readers = [scope.spawn(look), scope.spawn(look)];
        let is_running = || !readers.iter().any(|reader| reader.is_finished());
        let mut number = 0;
        while (number < ROUNDS || looks.load(Ordering::Relaxed) < LOOKS) && is_running() {
            number += 1;
            writer.set_routes(&version(number), Incomplete::No);
        }
        is_done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(looks.into_inner() >= LOOKS);
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into());
    prop_oneof![v4, any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into())]
}

fn any_route() -> impl Strategy<Value = Route> {
    let bits = any::<[bool; 3]>();
    let numbers = any::<(u32, u32, u32, u32, u16)>();
    let addresses = (any_ip(), prop::option::of(any_ip()), prop::option::of(any_ip()));
    (bits, numbers, addresses, any::<[u8; 3]>(), 0..33_u8).prop_map(|(bits, numbers, addresses, bytes, prefix_len)| {
        let (table, metric, interface, mtu, weight) = numbers;
        let [is_onlink, is_dead, is_continuation] = bits;
        let (destination, gateway, preferred_source) = addresses;
        let kind = [RouteKind::Unicast, RouteKind::Prohibit, RouteKind::Other][usize::from(bytes[0] % 3)];
        let [tos, scope, protocol] = bytes;
        let source = preferred_source;
        Route {
            table,
            destination,
            prefix_len,
            tos,
            kind,
            scope,
            protocol,
            metric,
            gateway,
            interface,
            preferred_source: source,
            mtu,
            weight,
            is_onlink,
            is_dead,
            is_continuation,
        }
    })
}

fn coded<R: Record>(record: &R) -> Option<R> {
    let mut words = vec![0; R::WORDS];
    record.encode(&mut words);
    R::decode(&words)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn routes_are_read_as_they_were_written(route in any_route()) {
        prop_assert_eq!(coded(&route), Some(route));
    }

    #[test]
    fn links_are_read_as_they_were_written(
        name in "[a-z0-9.]{0,15}", index in any::<u32>(), mac in any::<[u8; 6]>(), queues in any::<[u16; 2]>(),
        vlan in prop::option::of(any::<(u32, u16)>()), bits in any::<[bool; 3]>(), master in any::<u32>(),
    ) {
        let [is_up, is_loopback, is_plain_ethernet] = bits;
        let [receive_queues, transmit_queues] = queues;
        let mtu = index ^ master;
        let link = Link {
            index, name, mac, mtu, is_up, is_loopback, is_plain_ethernet, receive_queues, transmit_queues, vlan, master,
        };
        prop_assert_eq!(coded(&link), Some(link));
    }

    #[test]
    fn addresses_and_neighbours_are_read_as_they_were_written(
        address in any_ip(), interface in any::<u32>(), prefix_len in 0..33_u8, scope in any::<u8>(),
        bits in any::<[bool; 2]>(), mac in any::<[u8; 6]>(), nud in any::<u16>(), state in 0..3_usize,
    ) {
        let [is_avoided, is_secondary] = bits;
        let record = Address { interface, address, prefix_len, scope, is_avoided, is_secondary };
        prop_assert_eq!(coded(&record), Some(record));
        let state = [NeighbourState::Usable, NeighbourState::Pending, NeighbourState::Failed][state];
        let record = Neighbour { interface, address, mac, state, nud };
        prop_assert_eq!(coded(&record), Some(record));
    }

    /// A table of arbitrary words, as of a hostile writer: a result or an error, in bounded time.
    #[test]
    fn any_words_are_borne(words in prop::collection::vec(any::<u64>(), 10)) {
        let _ = Link::decode(&words);
        let _ = Address::decode(&words);
        let _ = Route::decode(&words);
        let _ = Neighbour::decode(&words);
    }
}
