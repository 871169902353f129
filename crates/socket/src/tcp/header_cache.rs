//! Cache of the prebuilt headers of connections: one look at the mirrored routes serves until they change.
//!
//! The kernel knows none of these connections, so it cannot send for them what has no route here. Where the tables do not tell
//! the route, because control has died, because of rules that they do not hold, or because they lead out of another
//! interface, a connection keeps its last header; one that has none yet is answered along the frame that it came in.

use crate::reason::Reason;
use crate::route_cache::{RouteCache, Stamp, query};
use sidestep_stack::tcp::{ConnectionId, Outgoing};
use sidestep_stack::{PacketHeader, Service};
use sidestep_wire::{Addresses, protocol};
use std::net::IpAddr;

/// Headers cached for segments without a connection: RST, SYN cookies, ACKs in TIME-WAIT. A flood from more addresses than
/// these costs a look into the tables for each.
const OTHERS_MAX: usize = 64;

/// Neighbours waiting to be resolved; more are asked for with the next segment.
const ASKED_MAX: usize = 64;

/// The MTU where the tables do not tell it: what every interface with IPv6 takes (RFC 8200 section 5).
const MTU_UNKNOWN: u32 = 1280;

/// The time after which control is told of a neighbour again. It refuses more than 64 a second.
const TELL_AGAIN_NS: u64 = 1_000_000_000;

/// A header, or the reason why there is none; valid for one state of the tables.
#[derive(Debug)]
struct CachedHeader {
    stamp: Stamp,
    header: Result<PacketHeader, Reason>,
}

/// The headers of all connections.
#[derive(Debug, Default)]
pub(crate) struct HeaderCache {
    /// By the connection's index.
    connections: Vec<Option<(ConnectionId, CachedHeader)>>,
    others: Vec<(Addresses, CachedHeader)>,
    /// The entry of `others` that is replaced next when there is no room.
    victim: usize,
    /// Neighbours that control should have the kernel resolve, or keep fresh.
    asked: Vec<(IpAddr, u32)>,
    /// Neighbours that control was told of in the last second, and the time: CLOCK_MONOTONIC.
    told: Vec<((IpAddr, u32), u64)>,
    /// Connections whose path has another MTU than before.
    pub(crate) changed_mtu: Vec<ConnectionId>,
    /// Frames were handed over since the last flush.
    pub(crate) is_unflushed: bool,
}

impl HeaderCache {
    /// The header of a segment, or the reason why it has none. `received` is the frame that is being answered, if any.
    #[inline]
    pub(crate) fn find(
        &mut self,
        segment: &Outgoing<'_>,
        routes: &RouteCache,
        device: u32,
        received: Option<&[u8]>,
    ) -> Result<&PacketHeader, Reason> {
        let addresses = &segment.flow.addresses;
        let service = segment.service;
        let Some(id) = segment.connection else { return self.find_other(addresses, routes, device, received) };
        let stamp = routes.stamp();
        let is_known = match self.connections.get(id.index()) {
            Some(Some((known, cached))) => *known == id && cached.stamp == stamp,
            _ => false,
        };
        if !is_known {
            self.refresh(id, (addresses, service), routes, device, received);
        }
        match &self.connections[id.index()] {
            Some((_, cached)) => cached.header.as_ref().map_err(|reason| *reason),
            None => Err(Reason::RouteUnknown),
        }
    }

    #[cold]
    fn refresh(
        &mut self,
        id: ConnectionId,
        (addresses, service): (&Addresses, Service),
        routes: &RouteCache,
        device: u32,
        received: Option<&[u8]>,
    ) {
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        let mut cached = self.look_up(addresses, service, routes, device);
        let before = self.mtu(id);
        if cached.header.as_ref().is_err_and(|reason| is_undecided(*reason)) {
            let last = self.known(id).cloned();
            let answering = || received.and_then(|frame| answering(frame, addresses, routes, device));
            let header = last.or_else(|| Some(answering()?.with(service)));
            cached.header = header.ok_or(Reason::RouteUnknown).or(cached.header);
        }
        self.connections[id.index()] = Some((id, cached));
        let now = self.mtu(id);
        if before.is_some() && now.is_some() && before != now {
            self.changed_mtu.push(id);
        }
    }

    #[cold]
    fn find_other(
        &mut self,
        addresses: &Addresses,
        routes: &RouteCache,
        device: u32,
        received: Option<&[u8]>,
    ) -> Result<&PacketHeader, Reason> {
        let stamp = routes.stamp();
        let place = match self.others.iter().position(|(known, _)| known == addresses) {
            Some(place) => place,
            None => {
                let cached = self.look_up(addresses, Service::default(), routes, device);
                self.insert_other(*addresses, cached)
            }
        };
        if self.others[place].1.stamp != stamp {
            self.others[place].1 = self.look_up(addresses, Service::default(), routes, device);
        }
        let header = &mut self.others[place].1.header;
        if header.as_ref().is_err_and(|reason| is_undecided(*reason))
            && let Some(back) = received.and_then(|frame| answering(frame, addresses, routes, device))
        {
            *header = Ok(back);
        }
        header.as_ref().map_err(|reason| *reason)
    }

    fn insert_other(&mut self, addresses: Addresses, cached: CachedHeader) -> usize {
        if self.others.len() < OTHERS_MAX {
            self.others.push((addresses, cached));
            return self.others.len() - 1;
        }
        self.victim = (self.victim + 1) % OTHERS_MAX;
        self.others[self.victim] = (addresses, cached);
        self.victim
    }

    fn look_up(&mut self, addresses: &Addresses, service: Service, routes: &RouteCache, device: u32) -> CachedHeader {
        let query = query(addresses.destination(), Some(addresses.source()), None, device);
        let (stamp, found) = routes.resolve(&query, device);
        let neighbour = match &found {
            Ok(route) => Some((route.next_hop, route.interface)),
            Err(detour) => detour.ask_for,
        };
        if let Some(neighbour) = neighbour.filter(|known| self.asked.len() < ASKED_MAX && !self.asked.contains(known)) {
            self.asked.push(neighbour);
        }
        let along = |route| PacketHeader::along(&route, *addresses, protocol::TCP).map_err(|_| Reason::RouteUnknown);
        let header = found.map_err(|detour| detour.reason).and_then(along).map(|header| header.with(service));
        CachedHeader { stamp, header }
    }

    /// Returns the neighbours to tell control of, each once a second: control keeps those fresh by itself.
    pub(crate) fn take_asked(&mut self, now_ns: u64) -> Vec<(IpAddr, u32)> {
        if self.asked.is_empty() {
            return Vec::new();
        }
        self.told.retain(|(_, at_ns)| now_ns.saturating_sub(*at_ns) < TELL_AGAIN_NS);
        let Self { asked, told, .. } = self;
        let is_new = |neighbour: &(IpAddr, u32)| told.iter().all(|(known, _)| known != neighbour);
        let new: Vec<_> = std::mem::take(asked).into_iter().filter(is_new).take(ASKED_MAX - told.len()).collect();
        told.extend(new.iter().map(|neighbour| (*neighbour, now_ns)));
        new
    }

    /// The program has chosen other fields of the IP header for a connection.
    pub(crate) fn set_service(&mut self, id: ConnectionId, service: Service) {
        if let Some(Some((known, CachedHeader { header: Ok(header), .. }))) = self.connections.get_mut(id.index())
            && *known == id
        {
            header.set_service(service);
        }
    }

    /// The MTU of a connection's path, once it is known.
    pub(crate) fn mtu(&self, id: ConnectionId) -> Option<u32> {
        self.known(id).map(PacketHeader::mtu)
    }

    fn known(&self, id: ConnectionId) -> Option<&PacketHeader> {
        let (known, cached) = self.connections.get(id.index())?.as_ref()?;
        cached.header.as_ref().ok().filter(|_| *known == id)
    }
}

/// Returns whether the tables leave the route undecided, rather than say that there is none.
fn is_undecided(reason: Reason) -> bool {
    matches!(reason, Reason::ControlSilent | Reason::RouteUnknown | Reason::RouteNotOnInterface)
}

/// The header of an answer to a received frame.
#[cold]
fn answering(frame: &[u8], addresses: &Addresses, routes: &RouteCache, device: u32) -> Option<PacketHeader> {
    let mtu = routes.mtu_of(device).unwrap_or(MTU_UNKNOWN);
    PacketHeader::answering(frame, *addresses, protocol::TCP, mtu)
}
