//! Connections that are handed over to the kernel: whose they may be, what steering does, and their end.

use super::{Host, RecordStore, Registry};
use crate::dataplane::Dataplane;
use crate::foreign::Foreign;
use crate::hand_over::{Made, Making, ShownSocket, Wire};
use crate::netlink::sockets::Wanted;
use crate::permit::HandOvers;
use crate::twin;
use sidestep_control_api::message::{Code, Entry, HandOver, Protocol, Refusal, Reply};
use sidestep_control_api::token;
use sidestep_sys::memory::size_is_sealed;
use sidestep_sys::owner::Owner;
use sidestep_xdp_steering::FLOWS_MAX;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The most connections of one user that the kernel has got and that have not ended: half of the flows of an interface. Those
/// on reserved ports take none, but control looks after all of them.
const PER_USER_MAX: usize = FLOWS_MAX as usize / 2;

/// The most connections looked after per housekeeping: each costs a lookup of some microseconds.
const LOOKS_PER_TURN: usize = 1024;

/// What steers a connection's segments to its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// An entry of its own, or that of its listener. The kernel gets an entry of the flow.
    Entry,
    /// A port that is reserved for the stack. Its segments are looked up among the kernel's sockets.
    Port,
}

/// A connection that the kernel has.
#[derive(Debug)]
struct HandedOver {
    /// The stack that had it.
    stack: u32,
    owner: Owner,
    /// The one whose frames the kernel's socket receives.
    interface: u32,
    cover: Cover,
}

/// The interface of the stack, and the flow: an address of this host may be reached by several.
type Place = (u32, Entry);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct HandedOvers {
    all: BTreeMap<Place, HandedOver>,
    /// The last one that was looked at.
    seen: Option<Place>,
    /// The number of hand-overs since the start.
    pub(super) times: u64,
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    pub(super) fn hand_over(
        &mut self,
        id: u32,
        stack: u32,
        connection: &HandOver,
        descriptors: Vec<Foreign>,
        host: &dyn Host,
    ) -> Result<(), Refusal> {
        let HandOver { local, remote, vlan, .. } = *connection;
        let thing = || format!("cannot hand over tcp {local} from {remote}");
        let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan };
        if let Some(fault) = connection.fault().or(flow.fault()) {
            return Err(Refusal::new(Code::Malformed, thing(), fault));
        }
        if let Some(excess) = connection.excess() {
            let next = "use smaller buffers: receive_buffer_bytes, send_buffer_bytes";
            return Err(Refusal::new(Code::Limit, thing(), excess).next(next));
        }
        if flow.canonical() != flow {
            return Err(Refusal::new(Code::Malformed, thing(), "its addresses are not as packets carry them"));
        }
        let device = self.owned(id, stack)?.facts.index;
        if self.hand_overs == HandOvers::Root && !self.owner(id).is_root() {
            let reason = "control hands connections of root over, and of nobody else";
            return Err(Refusal::new(Code::NotAllowed, thing(), reason)
                .next("run the program as root, or control without --hand-over root"));
        }
        let cover = self.cover(id, stack, &flow).ok_or_else(|| Refusal::plain(Code::NoEntry, thing()))?;
        self.check_handed_over(id, &thing)?;
        if !host.is_local(local.ip()) {
            return Err(Refusal::plain(Code::NotLocal, thing()).next("see the addresses with: ip address"));
        }
        let Ok([socket, bytes, token]) = <[Foreign; 3]>::try_from(descriptors) else {
            return Err(Refusal::plain(Code::TwinMissing, thing()));
        };
        // Reading any other file may take as long as its owner likes.
        if size_is_sealed(bytes.as_fd()).is_none() {
            return Err(Refusal::new(Code::Malformed, thing(), "the bytes are not in a memfd"));
        }
        let place =
            twin::Place { namespace: host.namespace(), guard: host.guard(), interface: device, links: host.links() };
        let is_its = |link: &&sidestep_control_api::table::Link| match vlan {
            None => link.index == device,
            Some(number) => link.vlan == Some((device, number)),
        };
        let link = host.links().iter().find(is_its);
        let interface = link.map_or(device, |link| link.index);
        let wire = link.zip(host.injector()).map(|(link, injector)| Wire { injector, link });
        let socket_fd = socket.as_fd();
        let shown = ShownSocket::check(socket_fd, connection, place)?;
        let shares_port = cover == Cover::Entry && !self.has_own_entry(stack, &flow);
        let making = Making { connection, socket: shown, bytes: bytes.as_fd(), wire, interface, shares_port };
        // From here on its owner waits for the answer, however long this process may stop.
        let failed = |error| Refusal::new(Code::Malformed, thing(), format!("no token came: {error}"));
        if !token::take(token.as_fd()).map_err(failed)? {
            return Err(Refusal::new(Code::NoEntry, thing(), "the program has stopped waiting for it"));
        }
        let made = Made::of(making)?;
        if let Err(refusal) = self.share(stack, cover, &flow) {
            made.dissolve();
            return Err(refusal);
        }
        made.begin();
        if cover == Cover::Entry {
            // Spares the lookups; without it the flow stays shared.
            self.dataplane.pass(stack, &flow).unwrap_or_else(sidestep_sys::problem::say);
        }
        let handed_over = HandedOver { stack, owner: self.owner(id), interface, cover };
        self.handed_over.all.insert((device, flow), handed_over);
        self.handed_over.times += 1;
        // The application's own descriptors decide when the connection ends.
        self.owned(id, stack)?.entries.remove(&flow);
        self.note_handed_over(id);
        Ok(())
    }

    /// Sets whose connections are handed over.
    pub(crate) fn set_hand_overs(&mut self, hand_overs: HandOvers) {
        self.hand_overs = hand_overs;
    }

    /// What steers a flow to a stack; `None` if nothing does.
    fn cover(&self, id: u32, stack: u32, flow: &Entry) -> Option<Cover> {
        let owned = self.stacks.get(&stack).filter(|owned| owned.client == id)?;
        if flow.vlan().is_none() && self.pool.owner(flow.local().port()) == Some(stack) {
            return Some(Cover::Port);
        }
        let (local, vlan) = (flow.local(), flow.vlan());
        let covers = |entry: &Entry| match entry {
            Entry::Flow { .. } => entry == flow,
            Entry::Listener { protocol: Protocol::Tcp, local: bound, vlan: tag } => {
                let is_any = bound.ip().is_unspecified() && bound.is_ipv4() == local.is_ipv4();
                bound.port() == local.port() && *tag == vlan && (is_any || bound.ip() == local.ip())
            }
            Entry::Listener { .. } | Entry::Multicast { .. } => false,
        };
        owned.entries.keys().any(covers).then_some(Cover::Entry)
    }

    fn has_own_entry(&self, stack: u32, flow: &Entry) -> bool {
        self.stacks.get(&stack).is_some_and(|stack| stack.entries.contains_key(flow))
    }

    fn check_handed_over(&self, id: u32, thing: &dyn Fn() -> String) -> Result<(), Refusal> {
        let owner = self.owner(id);
        let of_user = self.handed_over.all.values().filter(|one| one.owner == owner).count();
        if of_user < PER_USER_MAX {
            return Ok(());
        }
        let reason = format!("a user has at most {PER_USER_MAX} connections that were handed over");
        Err(Refusal::new(Code::Limit, thing(), reason).next("close connections that are not needed"))
    }

    /// The kernel gets the segments if it has the connection, else the stack.
    fn share(&mut self, stack: u32, cover: Cover, flow: &Entry) -> Result<(), Refusal> {
        match cover {
            Cover::Entry => self.dataplane.share_flow(stack, flow),
            Cover::Port => self.dataplane.share_port(stack, flow.local().port()),
        }
    }

    /// Adopts the flows that an earlier control has given to the kernel, or was about to give.
    pub(super) fn adopt_passed(&mut self) {
        for (device, flow) in self.dataplane.passed() {
            let one = HandedOver { stack: 0, owner: Owner::Unknown, interface: device, cover: Cover::Entry };
            self.handed_over.all.insert((device, flow), one);
        }
    }

    /// Ends the steering of connections that have ended in the kernel; returns the clients to notify.
    pub(crate) fn check_passed(&mut self, host: &dyn Host) -> Vec<(u32, Reply)> {
        let (over, last) = self.handed_over.look(host);
        self.handed_over.seen = last;
        over.into_iter().filter_map(|place| self.end_passed(place)).collect()
    }

    fn end_passed(&mut self, place: Place) -> Option<(u32, Reply)> {
        let HandedOver { stack, cover, .. } = self.handed_over.all.remove(&place)?;
        let (device, flow) = place;
        let port = flow.local().port();
        match cover {
            Cover::Entry => self.dataplane.unpass(device, &flow).unwrap_or_else(sidestep_sys::problem::say),
            Cover::Port if !self.handed_over.has_port(stack, port) => _ = self.dataplane.steer_ports(stack, &[port]),
            Cover::Port => {}
        }
        let client = self.stacks.get(&stack)?.client;
        let Entry::Flow { local, remote, .. } = flow else { return None };
        Some((client, Reply::Ended { stack, local, remote }))
    }

    /// A stack is closed: the rows of its ports are gone.
    pub(super) fn forget_passed_ports(&mut self, stack: u32) {
        self.handed_over.all.retain(|_, one| one.stack != stack || one.cover == Cover::Entry);
    }
}

impl HandedOvers {
    fn has_port(&self, stack: u32, port: u16) -> bool {
        let mut of_stack = self.all.iter().filter(|(_, one)| one.stack == stack && one.cover == Cover::Port);
        of_stack.any(|((_, flow), _)| flow.local().port() == port)
    }

    /// The next connections of which the kernel has nothing left, TIME-WAIT included; and the last one looked at, unless the
    /// round is over.
    fn look(&self, host: &dyn Host) -> (Vec<Place>, Option<Place>) {
        let from = self.seen.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let range = self.all.range((from, std::ops::Bound::Unbounded));
        let (mut over, mut last) = (Vec::new(), None);
        for (number, (place, one)) in range.take(LOOKS_PER_TURN).enumerate() {
            last = Some(*place).filter(|_| number + 1 == LOOKS_PER_TURN);
            let Entry::Flow { local, remote, .. } = place.1 else { continue };
            if !is_there(host, local, remote, one.interface) {
                over.push(*place);
            }
        }
        (over, last)
    }
}

/// Returns whether the kernel has anything of a connection; true if it does not say.
fn is_there(host: &dyn Host, local: SocketAddr, remote: SocketAddr, interface: u32) -> bool {
    let is_it = &mut |socket: &crate::netlink::sockets::KernelSocket| socket.local == local && socket.remote == remote;
    host.has_socket(Wanted::Connection(local, remote, interface), is_it).unwrap_or(true)
}
