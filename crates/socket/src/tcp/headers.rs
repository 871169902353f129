//! The sink of TCP's segments: each is written behind its prebuilt header, straight into a frame of the link.
//!
//! The kernel knows none of these connections, so it cannot send for them what has no way here. Where the tables do not tell
//! the way, because control has died, because of rules that they do not hold, or because they lead out of another
//! interface, a connection keeps the way that it had; one that has none yet is answered along the frame that it came in.

use crate::reason::Reason;
use crate::route_cache::{RouteCache, Stamp};
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::xdp::Sending;
use sidestep_stack::PacketHeader;
use sidestep_stack::route::{Query, Resolved};
use sidestep_stack::tcp::{ConnectionId, NoRoom, Outgoing, Output};
use sidestep_wire::tcp::Flags;
use sidestep_wire::{Addresses, ethernet, protocol};
use std::net::IpAddr;

/// The shortest Ethernet frame without its check sequence (IEEE 802.3).
const FRAME_BYTES_MIN: usize = 60;

/// Headers kept for answers that belong to no connection: RST, SYN cookies, ACKs in TIME-WAIT. A flood from more addresses
/// than these looks each up in the tables.
const OTHERS_MAX: usize = 64;

/// Neighbours to ask for that wait for their turn; more are asked for with the next segment.
const ASKED_MAX: usize = 64;

/// What every interface with IPv6 takes (RFC 8200 section 5), where the tables do not say.
const MTU_UNKNOWN: u32 = 1280;

/// How long until control is told of a neighbour again. It refuses more than 64 a second.
const TELL_AGAIN_NS: u64 = 1_000_000_000;

/// A header, or why there is none; good for one state of the tables.
#[derive(Debug)]
struct Way {
    stamp: Stamp,
    header: Result<PacketHeader, Reason>,
}

/// The headers of all connections.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// By the connection's index.
    connections: Vec<Option<(ConnectionId, Way)>>,
    others: Vec<(Addresses, Way)>,
    /// The next of the others to go when there is no room.
    victim: usize,
    /// Neighbours that control should have the kernel ask for, or keep fresh.
    asked: Vec<(IpAddr, u32)>,
    /// Those that it was told of in the last second, and when: CLOCK_MONOTONIC.
    told: Vec<((IpAddr, u32), u64)>,
    /// Connections whose way has another MTU than before.
    pub(super) other_mtu: Vec<ConnectionId>,
    /// Frames were handed over since the last flush.
    pub(super) is_unflushed: bool,
}

impl Headers {
    /// The header of a segment, or why it has none.
    #[inline]
    fn find(
        &mut self,
        segment: &Outgoing<'_>,
        routes: &RouteCache,
        device: u32,
        answered: Option<Answered<'_>>,
    ) -> Result<&PacketHeader, Reason> {
        let addresses = &segment.flow.addresses;
        let Some(id) = segment.connection else { return self.find_other(addresses, routes, device, answered) };
        let stamp = routes.stamp();
        let is_known = match self.connections.get(id.index()) {
            Some(Some((known, way))) => *known == id && way.stamp == stamp,
            _ => false,
        };
        if !is_known {
            self.learn(id, addresses, routes, device, answered);
        }
        match &self.connections[id.index()] {
            Some((_, way)) => way.header.as_ref().map_err(|reason| *reason),
            None => Err(Reason::RouteUnknown),
        }
    }

    #[cold]
    fn learn(
        &mut self,
        id: ConnectionId,
        addresses: &Addresses,
        routes: &RouteCache,
        device: u32,
        answered: Option<Answered<'_>>,
    ) {
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        let mut way = self.look_up(addresses, routes, device);
        let before = self.mtu(id);
        if way.header.as_ref().is_err_and(|reason| is_open_question(*reason)) {
            let last = self.known(id).cloned();
            let header = last.or_else(|| answered.and_then(|frame| frame.way_back(addresses, routes, device)));
            way.header = header.ok_or(Reason::RouteUnknown).or(way.header);
        }
        self.connections[id.index()] = Some((id, way));
        let now = self.mtu(id);
        if before.is_some() && now.is_some() && before != now {
            self.other_mtu.push(id);
        }
    }

    #[cold]
    fn find_other(
        &mut self,
        addresses: &Addresses,
        routes: &RouteCache,
        device: u32,
        answered: Option<Answered<'_>>,
    ) -> Result<&PacketHeader, Reason> {
        let stamp = routes.stamp();
        let place = match self.others.iter().position(|(known, _)| known == addresses) {
            Some(place) => place,
            None => {
                let way = self.look_up(addresses, routes, device);
                self.remember(*addresses, way)
            }
        };
        if self.others[place].1.stamp != stamp {
            self.others[place].1 = self.look_up(addresses, routes, device);
        }
        let header = &mut self.others[place].1.header;
        if header.as_ref().is_err_and(|reason| is_open_question(*reason))
            && let Some(back) = answered.and_then(|frame| frame.way_back(addresses, routes, device))
        {
            *header = Ok(back);
        }
        header.as_ref().map_err(|reason| *reason)
    }

    fn remember(&mut self, addresses: Addresses, way: Way) -> usize {
        if self.others.len() < OTHERS_MAX {
            self.others.push((addresses, way));
            return self.others.len() - 1;
        }
        self.victim = (self.victim + 1) % OTHERS_MAX;
        self.others[self.victim] = (addresses, way);
        self.victim
    }

    fn look_up(&mut self, addresses: &Addresses, routes: &RouteCache, device: u32) -> Way {
        let query = query(addresses.destination(), Some(addresses.source()), None, device);
        let (stamp, found) = routes.resolve(&query, device);
        let neighbour = match &found {
            Ok(way) => Some((way.next_hop, way.interface)),
            Err(detour) => detour.ask_for,
        };
        if let Some(neighbour) = neighbour.filter(|known| self.asked.len() < ASKED_MAX && !self.asked.contains(known)) {
            self.asked.push(neighbour);
        }
        let header = found
            .map_err(|detour| detour.reason)
            .and_then(|way| PacketHeader::along(&way, *addresses, protocol::TCP).map_err(|_| Reason::RouteUnknown));
        Way { stamp, header }
    }

    /// Neighbours to tell control of, each once a second: what it was told of it keeps fresh by itself.
    pub(super) fn take_asked(&mut self, now_ns: u64) -> Vec<(IpAddr, u32)> {
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

    /// The largest IP packet of a connection's way, once it is known.
    pub(super) fn mtu(&self, id: ConnectionId) -> Option<u32> {
        self.known(id).map(PacketHeader::mtu)
    }

    fn known(&self, id: ConnectionId) -> Option<&PacketHeader> {
        let (known, way) = self.connections.get(id.index())?.as_ref()?;
        way.header.as_ref().ok().filter(|_| *known == id)
    }
}

/// Whether the tables leave the way open, rather than say that there is none.
fn is_open_question(reason: Reason) -> bool {
    matches!(reason, Reason::ControlSilent | Reason::RouteUnknown | Reason::RouteNotOnInterface)
}

/// The frame of a segment that is being answered, and its addresses.
#[derive(Clone, Copy)]
pub(super) struct Answered<'a> {
    pub(super) frame: &'a [u8],
    pub(super) addresses: &'a Addresses,
}

impl Answered<'_> {
    /// To whom the frame came from, as long as it is the answer to its packet.
    #[cold]
    fn way_back(&self, addresses: &Addresses, routes: &RouteCache, device: u32) -> Option<PacketHeader> {
        let (here, there) = (self.addresses.destination(), self.addresses.source());
        let frame = ethernet::View::parse(self.frame).ok()?;
        let is_answer = (addresses.source(), addresses.destination()) == (here, there);
        // Steering knows one tag, and a neighbour's own address is nobody else's.
        if !is_answer || frame.tags().len() > 1 || frame.source().is_multicast() {
            return None;
        }
        let way = Resolved {
            interface: device,
            device,
            vlan: frame.tags().outer().map(|tag| tag.id()),
            source: here,
            next_hop: there,
            next_hop_mac: frame.source(),
            source_mac: frame.destination(),
            mtu: routes.mtu_of(device).unwrap_or(MTU_UNKNOWN),
        };
        PacketHeader::along(&way, *addresses, protocol::TCP).ok()
    }
}

/// What the routes are asked. An address that is only unique on its link is looked for on the engine's.
pub(super) fn query(destination: IpAddr, source: Option<IpAddr>, scope: Option<u32>, device: u32) -> Query {
    let is_of_link = matches!(destination, IpAddr::V6(address) if address.is_unicast_link_local());
    Query { destination, source, interface: scope.or(is_of_link.then_some(device)), tos: 0 }
}

/// Where segments go.
pub(crate) struct Sink<'a> {
    pub(super) sending: Sending<'a>,
    pub(super) headers: &'a mut Headers,
    pub(super) routes: &'a RouteCache,
    pub(super) device: u32,
    pub(super) counters: &'a Counters,
    pub(super) answered: Option<Answered<'a>>,
}

impl Sink<'_> {
    /// Makes leave what was handed over.
    #[inline]
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.headers.is_unflushed) && self.sending.flush().is_err() {
            // The link is down or gone: what is lost by that is sent again, as on any wire.
            self.counters.add(Counter::LinkFaults, 1);
        }
    }
}

impl Sink<'_> {
    /// Made before its way got a smaller MTU: as good as lost, and sent anew in smaller ones once the connection knows.
    #[cold]
    fn refuse(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        self.headers.other_mtu.extend(segment.connection);
        self.counters.add(Counter::SendTooLong, 1);
        Ok(())
    }
}

impl Output for Sink<'_> {
    #[inline]
    fn segment(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let header = match self.headers.find(segment, self.routes, self.device, self.answered) {
            Ok(header) => header,
            Err(Reason::NeighbourPending) if segment.connection.is_some() => return Err(NoRoom),
            // Without a way it is as good as lost on one; what waits for its ACK will be sent again, or given up.
            Err(_) => {
                self.counters.add(Counter::SendNoWay, 1);
                return Ok(());
            }
        };
        if !header.takes(segment.bytes()) {
            return self.refuse(segment);
        }
        let Some(frame) = self.sending.allocate_for(header.bytes() + segment.bytes()) else {
            self.counters.add(Counter::SendNoFrame, 1);
            self.flush();
            return Err(NoRoom);
        };
        let buffer = self.sending.buffer(&frame);
        let place = buffer.get_mut(header.bytes()..).unwrap_or_default();
        let written = segment.write(place).ok().and_then(|bytes| header.write(buffer, bytes));
        let Some(len) = written else {
            self.sending.discard(frame);
            self.counters.add(Counter::SendTooLong, 1);
            return Ok(());
        };
        if let Some(padding) = buffer.get_mut(len..FRAME_BYTES_MIN) {
            padding.fill(0);
        }
        let len = len.max(FRAME_BYTES_MIN);
        self.headers.is_unflushed = true;
        if !self.sending.send(frame, len) {
            self.counters.add(Counter::SendFull, 1);
            self.flush();
            return Err(NoRoom);
        }
        // The last of what the program gave leaves now; what is to be noted of it is noted while it is on its way.
        if segment.header.flags.has(Flags::PSH) {
            self.flush();
        }
        self.counters.add(Counter::SentFrames, 1);
        self.counters.add(Counter::SentBytes, len as u64);
        Ok(())
    }
}
