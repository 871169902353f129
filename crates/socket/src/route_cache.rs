//! The routes past the kernel: the mirror of its tables, and whether they can be trusted.

use crate::reason::Reason;
use sidestep_control_api::routes::MirrorRoutes;
use sidestep_control_api::table::Reader;
use sidestep_stack::route::{Query, Resolved, Tables, Unreachable};
use sidestep_stack::{Host, MTU_MIN_V4, MTU_MIN_V6};
use std::net::{IpAddr, Ipv4Addr};

/// A control that has not said for so long that it lives may have missed changes of the routes. Its own turns take a
/// quarter of a second.
const SILENCE_MAX_NS: u64 = 3_000_000_000;

/// The time for which a smaller MTU is believed: as in the kernel (net.ipv4.route.mtu_expires).
const LOWERED_NS: u64 = 600_000_000_000;

/// Destinations with a smaller MTU; the oldest goes, and is told again.
const LOWERED_MAX: usize = 256;

/// The MTU that is taken from ICMP: a router older than RFC 1191 does not say, and a tiny one is an attack or a fault.
pub(crate) fn believed_mtu(mtu: u32, destination: IpAddr) -> u32 {
    let least = if destination.is_ipv4() { MTU_MIN_V4 } else { MTU_MIN_V6 };
    mtu.max(least)
}

/// For what a flow was resolved: it stands as long as this is the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    generation: u64,
    epoch: u32,
}

/// The tables of the present control.
#[derive(Debug)]
pub(crate) struct RouteCache {
    routes: MirrorRoutes,
    /// Changes with whatever the generation does not tell: another table, trust lost or won.
    epoch: u32,
    is_trusted: bool,
    /// The stamp for which the stack's host was last taken.
    told: Stamp,
    /// Destinations with a smaller MTU than the route's, told by ICMP, and the time until which that is believed: CLOCK_MONOTONIC.
    lowered: Vec<(IpAddr, u32, u64)>,
    now_ns: u64,
    /// True if the engine's interface was up when last looked at.
    was_up: bool,
}

/// The reason why the kernel takes a datagram, and the neighbour to resolve.
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

impl RouteCache {
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            routes: MirrorRoutes::new(reader),
            epoch: 1,
            is_trusted: true,
            told: Stamp::default(),
            lowered: Vec::new(),
            now_ns: 0,
            was_up: true,
        }
    }

    /// Another control, with tables of its own.
    pub(crate) fn replace(&mut self, reader: Reader) {
        self.routes = MirrorRoutes::new(reader);
        self.is_trusted = true;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Looks whether control has fallen silent or speaks again; `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn update_trust(&mut self, now_ns: u64) {
        let is_trusted = now_ns.saturating_sub(self.routes.reader().alive_ns()) < SILENCE_MAX_NS;
        if is_trusted != self.is_trusted {
            self.is_trusted = is_trusted;
            self.epoch = self.epoch.wrapping_add(1);
        }
        self.now_ns = now_ns;
        if self.lowered.iter().any(|(.., until_ns)| *until_ns <= now_ns) {
            self.lowered.retain(|(.., until_ns)| *until_ns > now_ns);
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// A router says that packets to an address must be no longer than `mtu`.
    pub(crate) fn lower_mtu(&mut self, address: IpAddr, mtu: u32) {
        self.lowered.retain(|(known, ..)| *known != address);
        if self.lowered.len() == LOWERED_MAX {
            self.lowered.remove(0);
        }
        self.lowered.push((address, mtu, self.now_ns.saturating_add(LOWERED_NS)));
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The stamp of the present tables. One load.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { generation: self.routes.reader().generation(), epoch: self.epoch }
    }

    /// The route to a destination by `device`, or the reason why the kernel takes it; with the stamp of the answer.
    pub(crate) fn resolve(&self, query: &Query, device: u32) -> (Stamp, Result<Resolved, Detour>) {
        let found = self.routes.with_tables(|tables, generation| (generation, tables.resolve(query)));
        // Tables that cannot be had whole are tried again with the next datagram.
        let (generation, found) = found.unwrap_or((u64::MAX, Err(Unreachable::AskKernel)));
        let stamp = Stamp { generation, epoch: self.epoch };
        let route =
            match found {
                _ if !self.is_trusted => Err(Reason::ControlSilent.into()),
                Ok(route) if route.device == device => {
                    let lowered = self.lowered.iter().find(|(address, ..)| *address == query.destination);
                    Ok(Resolved { mtu: lowered.map_or(route.mtu, |(_, mtu, _)| route.mtu.min(*mtu)), ..route })
                }
                Ok(_) => Err(Reason::RouteNotOnInterface.into()),
                // Whether its neighbour answers is nothing to us.
                Err(
                    Unreachable::NeighbourPending { interface, .. } | Unreachable::NeighbourFailed { interface, .. },
                ) if self.vlan_of_interface(interface, device).is_none() => Err(Reason::RouteNotOnInterface.into()),
                Err(Unreachable::NeighbourPending { next_hop, interface }) => {
                    Err(Detour { reason: Reason::NeighbourPending, ask_for: Some((next_hop, interface)) })
                }
                Err(other) => Err(Reason::of_route(other).into()),
            };
        (stamp, route)
    }

    /// Returns the reason why the tables leave routes undecided, if they do.
    pub(crate) fn check_complete(&self) -> Result<(), Reason> {
        match self.look(|tables| tables.are_complete) {
            _ if !self.is_trusted => Err(Reason::ControlSilent),
            Some(true) => Ok(()),
            Some(false) | None => Err(Reason::RouteUnknown),
        }
    }

    /// Has the next [`Self::changed_host`] return the host, changed or not.
    pub(crate) fn forget_host(&mut self) {
        self.told = Stamp::default();
    }

    /// The interfaces and addresses of the stack on `device`, if they may have changed since the last call.
    pub(crate) fn changed_host(&mut self, device: u32) -> Option<Host> {
        if self.told == self.stamp() {
            return None;
        }
        let (generation, host) = self.routes.with_tables(|tables, generation| {
            let is_known = tables.links.iter().any(|link| link.index == device);
            (generation, Host::of_device(tables, device).ok().filter(|_| is_known))
        })?;
        self.told = Stamp { generation, epoch: self.epoch };
        host
    }

    /// Returns whether the interface is up, and was not when this was last asked.
    pub(crate) fn has_come_up(&mut self, device: u32) -> bool {
        let is_up = self.look(|tables| tables.links.iter().any(|link| link.index == device && link.is_up));
        let was_up = std::mem::replace(&mut self.was_up, is_up.unwrap_or(false));
        self.was_up && !was_up
    }

    /// Returns whether an address is one of this host's.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.look(|tables| tables.addresses.iter().any(|ours| ours.address == address)).unwrap_or(false)
    }

    /// The tag of frames for an interface upon `device`, none for `device` itself; `None` for any other interface, and for one
    /// with an Ethernet address of its own, which steering does not take for this host's.
    pub(crate) fn vlan_of_interface(&self, interface: u32, device: u32) -> Option<Option<u16>> {
        if interface == device {
            return Some(None);
        }
        self.look(|tables| {
            let link = tables.links.iter().find(|link| link.index == interface)?;
            let below = tables.links.iter().find(|link| link.index == device)?;
            link.vlan.filter(|(parent, _)| *parent == device && link.mac == below.mac).map(|(_, id)| Some(id.number()))
        })?
    }

    /// The largest IP packet of an interface, bytes.
    pub(crate) fn mtu_of(&self, interface: u32) -> Option<u32> {
        self.look(|tables| tables.links.iter().find(|link| link.index == interface).map(|link| link.mtu))?
    }

    /// The interface that has an address.
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<u32> {
        self.look(|tables| tables.addresses.iter().find(|ours| ours.address == address).map(|ours| ours.interface))?
    }

    /// The first IPv4 address of an interface.
    pub(crate) fn first_v4(&self, interface: u32) -> Option<Ipv4Addr> {
        self.look(|tables| {
            let mut ours = tables.addresses.iter().filter(|ours| ours.interface == interface);
            ours.find_map(|ours| if let IpAddr::V4(address) = ours.address { Some(address) } else { None })
        })?
    }

    fn look<T>(&self, look: impl FnOnce(&Tables<'_>) -> T) -> Option<T> {
        self.routes.with_tables(|tables, _| look(tables))
    }
}

/// The query for a route. A link-local address is looked up on the engine's interface.
pub(crate) fn query(destination: IpAddr, source: Option<IpAddr>, scope: Option<u32>, device: u32) -> Query {
    let is_of_link = matches!(destination, IpAddr::V6(address) if address.is_unicast_link_local());
    Query { destination, source, interface: scope.or(is_of_link.then_some(device)), tos: 0 }
}
