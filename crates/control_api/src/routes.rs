//! The kernel's routing decisions from the shared tables: [`stack::route`](sidestep_stack::route) over a snapshot of
//! the [`table`].

use crate::table::{self, Incomplete, Reader, Snapshot};
use sidestep_stack::route::{self, Query, Resolved, Routes, Tables, Unreachable};
use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::cell::RefCell;
use std::net::IpAddr;

/// Routes from the mirror. One per thread: it has a copy of the tables, renewed after each change.
#[derive(Debug)]
pub struct MirrorRoutes {
    reader: Reader,
    held: RefCell<Held>,
}

/// The tables in the form of the routing logic.
#[derive(Debug, Default)]
struct Held {
    snapshot: Snapshot,
    links: Vec<route::Link>,
    routes: Vec<route::Route>,
    neighbours: Vec<route::Neighbour>,
    /// True if the copy is valid; the generation of an empty table is 0, too.
    is_known: bool,
    are_complete: bool,
}

impl MirrorRoutes {
    /// Wraps the table that control has handed over.
    pub fn new(reader: Reader) -> Self {
        Self { reader, held: RefCell::default() }
    }

    /// The shared table itself.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The route to a destination, as [`Routes::resolve`], with a type of service. If the mirror is not certain, the
    /// result is [`Unreachable::AskKernel`].
    pub fn find(&self, query: &Query) -> Result<Resolved, Unreachable> {
        self.with_tables(|tables, _| tables.resolve(query)).unwrap_or(Err(Unreachable::AskKernel))
    }

    /// Passes the present tables and their generation to `look`; `None` while no consistent copy is available.
    pub fn with_tables<T>(&self, look: impl FnOnce(&Tables<'_>, u64) -> T) -> Option<T> {
        let mut held = self.held.borrow_mut();
        if !held.is_known || held.snapshot.generation != self.reader.generation() {
            held.renew(&self.reader);
        }
        held.is_known.then(|| look(&held.tables(), held.snapshot.generation))
    }
}

impl Routes for MirrorRoutes {
    fn resolve(
        &self,
        destination: IpAddr,
        source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Result<Resolved, Unreachable> {
        self.find(&Query { destination, source, interface, tos: 0 })
    }

    fn generation(&self) -> u64 {
        self.reader.generation()
    }
}

impl Held {
    fn renew(&mut self, reader: &Reader) {
        self.is_known = reader.snapshot(&mut self.snapshot).is_ok();
        let seen = &self.snapshot;
        self.are_complete = seen.hosts_incomplete.or(seen.routes_incomplete) == Incomplete::No;
        self.links.clear();
        self.routes.clear();
        self.neighbours.clear();
        self.links.extend(seen.links.iter().map(link));
        self.routes.extend(seen.routes.iter().map(route_of));
        self.neighbours.extend(seen.neighbours.iter().map(neighbour));
    }

    fn tables(&self) -> Tables<'_> {
        Tables {
            links: &self.links,
            addresses: &self.snapshot.addresses,
            routes: &self.routes,
            neighbours: &self.neighbours,
            are_complete: self.are_complete,
        }
    }
}

fn link(link: &table::Link) -> route::Link {
    // An id that no tag can carry: frames cannot be built for such a device.
    let vlan = link.vlan.map(|(below, id)| (below, VlanId::new(id)));
    let is_sound = vlan.is_none_or(|(_, id)| id.is_some());
    route::Link {
        index: link.index,
        mac: MacAddress(link.mac),
        mtu: link.mtu,
        is_up: link.is_up && is_sound,
        is_loopback: link.is_loopback,
        is_plain_ethernet: link.is_plain_ethernet,
        vlan: vlan.and_then(|(below, id)| Some((below, id?))),
        master: link.master,
    }
}

fn route_of(route: &table::Route) -> route::Route {
    route::Route {
        table: route.table,
        destination: route.destination,
        prefix_len: route.prefix_len,
        tos: route.tos,
        kind: route.kind,
        scope: route.scope,
        metric: route.metric,
        gateway: route.gateway,
        interface: route.interface,
        preferred_source: route.preferred_source,
        mtu: route.mtu,
        weight: route.weight,
        is_dead: route.is_dead,
        is_continuation: route.is_continuation,
    }
}

fn neighbour(neighbour: &table::Neighbour) -> route::Neighbour {
    route::Neighbour {
        interface: neighbour.interface,
        address: neighbour.address,
        mac: MacAddress(neighbour.mac),
        state: neighbour.state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Writer;
    use std::net::Ipv4Addr;

    fn writer() -> Writer {
        let mut writer = Writer::create(0).unwrap();
        let link = table::Link {
            index: 2,
            name: "eth1".into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            is_up: true,
            is_loopback: false,
            is_plain_ethernet: true,
            receive_queues: 1,
            transmit_queues: 1,
            vlan: None,
            master: 0,
        };
        let address = table::Address {
            interface: 2,
            address: Ipv4Addr::new(198, 18, 0, 1).into(),
            prefix_len: 24,
            scope: 0,
            is_avoided: false,
            is_secondary: false,
        };
        writer.set_links(&[link], Incomplete::No);
        writer.set_addresses(&[address], Incomplete::No);
        writer.set_routes(&[subnet()], Incomplete::No);
        writer.set_neighbours(&[peer(2)], Incomplete::No);
        writer
    }

    fn subnet() -> table::Route {
        table::Route {
            table: 254,
            destination: Ipv4Addr::new(198, 18, 0, 0).into(),
            prefix_len: 24,
            tos: 0,
            kind: table::RouteKind::Unicast,
            scope: 253,
            protocol: 2,
            metric: 0,
            gateway: None,
            interface: 2,
            preferred_source: None,
            mtu: 0,
            weight: 1,
            is_onlink: false,
            is_dead: false,
            is_continuation: false,
        }
    }

    fn peer(last: u8) -> table::Neighbour {
        table::Neighbour {
            interface: 2,
            address: Ipv4Addr::new(198, 18, 0, 2).into(),
            mac: [2, 0, 0, 0, 0, last],
            state: table::NeighbourState::Usable,
            nud: 2,
        }
    }

    fn destination(last: u8) -> IpAddr {
        Ipv4Addr::new(198, 18, 0, last).into()
    }

    #[test]
    fn answers_follow_the_table() {
        let mut writer = writer();
        let routes = MirrorRoutes::new(Reader::open(writer.file()).unwrap());
        let found = routes.resolve(destination(2), None, None).unwrap();
        assert_eq!((found.source, found.next_hop_mac), (destination(1), MacAddress([2, 0, 0, 0, 0, 2])));
        let before = routes.generation();
        writer.set_neighbours(&[peer(9)], Incomplete::No);
        assert_ne!(routes.generation(), before, "a cached answer has to be asked for again");
        let found = routes.resolve(destination(2), None, None).unwrap();
        assert_eq!(found.next_hop_mac, MacAddress([2, 0, 0, 0, 0, 9]));
        let pending = Unreachable::NeighbourPending { next_hop: destination(3), interface: 2 };
        assert_eq!(routes.resolve(destination(3), None, None), Err(pending));
        assert_eq!(routes.resolve([203, 0, 113, 1].into(), None, None), Err(Unreachable::NoRoute));
    }

    #[test]
    fn what_is_not_known_is_the_kernels_to_decide() {
        let mut writer = writer();
        let routes = MirrorRoutes::new(Reader::open(writer.file()).unwrap());
        for reason in [Incomplete::Rules, Incomplete::Overflowed, Incomplete::Unreadable, Incomplete::NotRead] {
            writer.set_routes(&[subnet()], reason);
            assert_eq!(routes.resolve([203, 0, 113, 1].into(), None, None), Err(Unreachable::AskKernel), "{reason:?}");
            assert_eq!(routes.resolve(destination(2), None, None), Err(Unreachable::AskKernel), "{reason:?}");
        }
        let empty = Writer::create(0).unwrap();
        let routes = MirrorRoutes::new(Reader::open(empty.file()).unwrap());
        assert_eq!(routes.resolve(destination(2), None, None), Err(Unreachable::AskKernel));
    }
}
