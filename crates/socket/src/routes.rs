//! The mirror of the kernel's tables, in the words of the stack.

use crate::reason::Reason;
use sidestep_plane::table::{self, Reader, Snapshot};
use sidestep_stack::Host;
use sidestep_stack::route::{
    Address, Link, Neighbour, NeighbourState, Query, Resolved, Route, RouteKind, Tables, Unreachable,
};
use sidestep_wire::MacAddress;
use sidestep_wire::vlan::VlanId;
use std::net::IpAddr;

/// A control that has not said for so long that it lives may have missed changes of the routes. Its own turns take a
/// quarter of a second.
const SILENCE_MAX_NS: u64 = 3_000_000_000;

/// For what a flow was resolved: it stands as long as this is the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    generation: u64,
    epoch: u32,
}

/// The tables, and the copy of them that answers were made from.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    reader: Option<Reader>,
    /// Changes with whatever the generation does not tell: another table, trust lost or won.
    epoch: u32,
    is_trusted: bool,
    snapshot: Snapshot,
    links: Vec<Link>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    neighbours: Vec<Neighbour>,
    are_complete: bool,
    copied_epoch: u32,
    has_changed: bool,
}

impl Ways {
    pub(crate) fn new(reader: Option<Reader>) -> Self {
        let mut ways = Self { is_trusted: reader.is_some(), reader, epoch: 1, ..Self::default() };
        ways.refresh();
        ways
    }

    /// Another control, with tables of its own.
    pub(crate) fn replace(&mut self, reader: Reader) {
        self.reader = Some(reader);
        self.is_trusted = true;
        self.epoch = self.epoch.wrapping_add(1);
        self.refresh();
    }

    /// Looks whether control has fallen silent or speaks again; `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn judge(&mut self, now_ns: u64) {
        let alive_ns = self.reader.as_ref().map_or(0, Reader::alive_ns);
        let is_trusted = now_ns.saturating_sub(alive_ns) < SILENCE_MAX_NS;
        if is_trusted != self.is_trusted {
            self.is_trusted = is_trusted;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// What answers are good for at present. One load.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        let generation = self.reader.as_ref().map_or(0, Reader::generation);
        Stamp { generation, epoch: self.epoch }
    }

    /// What answers out of the copy are good for.
    pub(crate) fn copied_stamp(&self) -> Stamp {
        Stamp { generation: self.snapshot.generation, epoch: self.epoch }
    }

    /// Whether the copy is another one than when this was last asked.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Copies the tables if they have changed.
    pub(crate) fn refresh(&mut self) {
        let Some(reader) = &self.reader else { return };
        if reader.generation() == self.snapshot.generation && self.copied_epoch == self.epoch {
            return;
        }
        (self.has_changed, self.copied_epoch) = (true, self.epoch);
        if reader.snapshot(&mut self.snapshot).is_err() {
            // Tried again at the next look; until then nothing is known.
            (self.are_complete, self.snapshot.generation) = (false, u64::MAX);
            return;
        }
        let Self { snapshot, links, addresses, routes, neighbours, .. } = self;
        refill(links, snapshot.links.iter().map(link));
        refill(addresses, snapshot.addresses.iter().map(address));
        refill(routes, snapshot.routes.iter().map(route));
        refill(neighbours, snapshot.neighbours.iter().map(neighbour));
        self.are_complete = snapshot.hosts_incomplete.is_complete() && snapshot.routes_incomplete.is_complete();
    }

    /// The tables as the stack reads them.
    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables {
            links: &self.links,
            addresses: &self.addresses,
            routes: &self.routes,
            neighbours: &self.neighbours,
            are_complete: self.are_complete,
        }
    }

    /// The way to a destination by `device`, or why the kernel takes it.
    pub(crate) fn resolve(&self, query: &Query, device: u32) -> Result<Resolved, Detour> {
        if !self.is_trusted {
            return Err(Reason::ControlSilent.into());
        }
        match self.tables().resolve(query) {
            Ok(way) if way.device == device => Ok(way),
            Ok(_) => Err(Reason::RouteNotOnInterface.into()),
            Err(Unreachable::NeighbourPending { next_hop, interface }) => {
                Err(Detour { reason: Reason::NeighbourPending, ask_for: Some((next_hop, interface)) })
            }
            Err(other) => Err(Reason::from(other).into()),
        }
    }

    /// Who the stack on `device` is; `None` while the tables do not tell.
    pub(crate) fn host(&self, device: u32) -> Option<Host> {
        let is_known = self.links.iter().any(|link| link.index == device);
        Host::of_device(&self.tables(), device).ok().filter(|_| is_known)
    }

    /// Whether an address is one of this host's.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|ours| ours.address == address)
    }

    /// The VLAN upon `device` whose interface has the address.
    pub(crate) fn vlan_of(&self, address: IpAddr, device: u32) -> Option<u16> {
        let ours = self.addresses.iter().find(|ours| ours.address == address)?;
        let link = self.links.iter().find(|link| link.index == ours.interface)?;
        link.vlan.filter(|(below, _)| *below == device).map(|(_, id)| id.number())
    }
}

/// Why the kernel takes a datagram, and what to do about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detour {
    pub(crate) reason: Reason,
    /// A neighbour that control should have the kernel ask for.
    pub(crate) ask_for: Option<(IpAddr, u32)>,
}

impl From<Reason> for Detour {
    fn from(reason: Reason) -> Self {
        Self { reason, ask_for: None }
    }
}

fn refill<T>(into: &mut Vec<T>, from: impl Iterator<Item = T>) {
    into.clear();
    into.extend(from);
}

fn link(record: &table::Link) -> Link {
    let vlan = record.vlan.and_then(|(below, id)| Some((below, VlanId::new(id)?)));
    Link {
        index: record.index,
        mac: MacAddress(record.mac),
        mtu: record.mtu,
        is_up: record.is_up,
        is_loopback: record.is_loopback,
        // A VLAN whose number cannot be is none that frames are built for.
        is_plain_ethernet: record.is_plain_ethernet && record.vlan.is_some() == vlan.is_some(),
        vlan,
        master: record.master,
    }
}

fn address(record: &table::Address) -> Address {
    Address {
        interface: record.interface,
        address: record.address,
        prefix_len: record.prefix_len,
        scope: record.scope,
        is_avoided: record.is_avoided,
        is_secondary: record.is_secondary,
    }
}

fn route(record: &table::Route) -> Route {
    Route {
        table: record.table,
        destination: record.destination,
        prefix_len: record.prefix_len,
        tos: record.tos,
        kind: kind(record.kind),
        scope: record.scope,
        metric: record.metric,
        gateway: record.gateway,
        interface: record.interface,
        preferred_source: record.preferred_source,
        mtu: record.mtu,
        weight: record.weight,
        is_dead: record.is_dead,
        is_continuation: record.is_continuation,
    }
}

fn kind(kind: table::RouteKind) -> RouteKind {
    match kind {
        table::RouteKind::Unicast => RouteKind::Unicast,
        table::RouteKind::Local => RouteKind::Local,
        table::RouteKind::Broadcast => RouteKind::Broadcast,
        table::RouteKind::Multicast => RouteKind::Multicast,
        table::RouteKind::Anycast => RouteKind::Anycast,
        table::RouteKind::Unreachable => RouteKind::Unreachable,
        table::RouteKind::Prohibit => RouteKind::Prohibit,
        table::RouteKind::Blackhole => RouteKind::Blackhole,
        table::RouteKind::Other => RouteKind::Other,
    }
}

fn neighbour(record: &table::Neighbour) -> Neighbour {
    let state = match record.state {
        table::NeighbourState::Usable => NeighbourState::Usable,
        table::NeighbourState::Pending => NeighbourState::Pending,
        table::NeighbourState::Failed => NeighbourState::Failed,
    };
    Neighbour { interface: record.interface, address: record.address, mac: MacAddress(record.mac), state }
}
