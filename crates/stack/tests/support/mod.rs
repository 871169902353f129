//! Hosts on one wire, for the tests of this crate.

#![allow(dead_code, unreachable_pub)]

use sidestep_stack::route::{Address, Link, MemoryRoutes, Neighbour, NeighbourState, Route, RouteKind, Routes, scope};
use sidestep_stack::tcp::{Config, Instant, NoRoom, Outgoing, Secret, Tcp};
use sidestep_stack::udp::{Flow, FlowHeader};
use sidestep_stack::{Checksums, Host, Stack, Verdict};
use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::net::{IpAddr, SocketAddr};

/// The untagged interface of every host.
pub const DEVICE: u32 = 2;
/// VLAN 70 upon it.
pub const TAGGED: u32 = 3;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number])
}

/// Host `number` has 10.0.0.n and 2001:db8::n untagged, 10.7.0.n and 2001:db8:7::n in VLAN 70.
fn networks(number: u8) -> [(u32, String, String, u8); 4] {
    [
        (DEVICE, format!("10.0.0.{number}"), "10.0.0.0".into(), 24),
        (DEVICE, format!("2001:db8::{number}"), "2001:db8::".into(), 64),
        (TAGGED, format!("10.7.0.{number}"), "10.7.0.0".into(), 24),
        (TAGGED, format!("2001:db8:7::{number}"), "2001:db8:7::".into(), 64),
    ]
}

/// The tables of host `own`, which knows host `peer`.
pub fn routes(own: u8, peer: u8) -> MemoryRoutes {
    let mut tables = MemoryRoutes::new();
    tables.change(|links, addresses, routes, neighbours| {
        for (index, vlan) in [(DEVICE, None), (TAGGED, VlanId::new(70).map(|id| (DEVICE, id)))] {
            links.push(Link {
                index,
                mac: mac(own),
                mtu: 1500,
                is_up: true,
                is_loopback: false,
                is_plain_ethernet: true,
                vlan,
                master: 0,
            });
        }
        for ((interface, address, prefix, prefix_len), (.., other, _, _)) in
            networks(own).into_iter().zip(networks(peer))
        {
            let (scope, is_avoided, is_secondary) = (scope::UNIVERSE, false, false);
            addresses.push(Address { interface, address: ip(&address), prefix_len, scope, is_avoided, is_secondary });
            let state = NeighbourState::Usable;
            neighbours.push(Neighbour { interface, address: ip(&other), mac: mac(peer), state });
            routes.push(connected(&prefix, prefix_len, interface));
        }
        routes.push(connected("224.0.0.0", 4, DEVICE));
    });
    tables
}

fn connected(prefix: &str, prefix_len: u8, interface: u32) -> Route {
    Route {
        table: 254,
        destination: ip(prefix),
        prefix_len,
        tos: 0,
        kind: RouteKind::Unicast,
        scope: scope::LINK,
        metric: 0,
        gateway: None,
        interface,
        preferred_source: None,
        mtu: 0,
        weight: 1,
        is_dead: false,
        is_continuation: false,
    }
}

pub fn stack(tables: &MemoryRoutes) -> Stack {
    Stack::new(Host::of_device(&tables.tables(), DEVICE).unwrap(), tcp())
}

/// TCP without connections.
pub fn tcp() -> Tcp {
    Tcp::new(Config::latency(), Secret([1, 2, 3, 4]), Instant::default())
}

/// Receives a frame in which no segment of TCP is answered.
pub fn receive<'s>(stack: &'s mut Stack, frame: &'s [u8], checksums: Checksums) -> Verdict<'s> {
    let mut output = |_: &Outgoing<'_>| -> Result<(), NoRoom> { panic!("an answer of TCP") };
    stack.receive(Instant::default, frame, checksums, &mut output, &mut |_, _| 0)
}

/// The header of datagrams from `source_port` of the host with these tables.
pub fn header(tables: &MemoryRoutes, source_port: u16, destination: &str) -> FlowHeader {
    header_by(tables, source_port, destination, None)
}

/// The same by a fixed interface.
pub fn header_by(tables: &MemoryRoutes, source_port: u16, destination: &str, interface: Option<u32>) -> FlowHeader {
    let destination = at(destination);
    let way = tables.resolve(destination.ip(), None, interface).unwrap();
    FlowHeader::new(&Flow::along(&way, source_port, destination).unwrap()).unwrap()
}

/// A frame with this payload.
pub fn frame(header: &mut FlowHeader, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xee; header.bytes() + payload.len()];
    frame[header.bytes()..].copy_from_slice(payload);
    let length = header.write(&mut frame, payload.len()).unwrap();
    assert_eq!(length, frame.len());
    frame
}
