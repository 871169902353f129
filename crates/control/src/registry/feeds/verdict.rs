//! The verdict in force of feeds' entries: a packet is dropped only if nobody else would lose it.
//!
//! In doubt it passes. Whatever takes a wish away, or brings another receiver, makes the entry pass at once; only the checks make it
//! drop again.

use super::{Feeds, Wish};
use crate::dataplane::Dataplane;
use crate::netlink::sockets::{KernelSocket, Wanted};
use crate::registry::others::meets;
use crate::registry::steer::{inode, place};
use crate::registry::{Host, RecordStore, Registry};
use crate::twin::Place;
use sidestep_control_api::message::{Entry, FeedVerdict, Protocol, Reply, Verdict};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The most sockets at one port that are compared with entries: beyond it the port counts as received by others. Any user may
/// bind a hundred thousand to one port.
const SOCKETS_PER_PORT_MAX: usize = 1024;

/// The most entries whose packets begin to be dropped in one check: each takes two lists of the kernel's sockets, some milliseconds. The
/// others' turn is the next one; until then their packets pass.
const DECISIONS_MAX: usize = 8;

/// The kernel's UDP sockets and TCP listeners at the ports of feeds' entries.
#[derive(Default)]
pub(super) struct Receivers {
    ports: BTreeMap<(Protocol, u16), Vec<KernelSocket>>,
    /// Protocols whose sockets could not be read.
    unread: BTreeSet<Protocol>,
}

impl Receivers {
    /// The sockets at the port of an entry; `None` if they are not all known.
    pub(super) fn beside(&self, entry: &Entry) -> Option<&[KernelSocket]> {
        let place = (entry.protocol(), entry.local().port());
        let sockets = self.ports.get(&place).map_or(&[][..], Vec::as_slice);
        (!self.unread.contains(&place.0) && sockets.len() < SOCKETS_PER_PORT_MAX).then_some(sockets)
    }

    fn keep(&mut self, socket: &KernelSocket) -> bool {
        let sockets = self.ports.entry((socket.protocol, socket.local.port())).or_default();
        if sockets.len() < SOCKETS_PER_PORT_MAX {
            sockets.push(*socket);
        }
        false
    }

    /// Those at the port of one entry.
    pub(super) fn of(entry: &Entry, host: &dyn Host) -> Self {
        let mut receivers = Self::default();
        let wanted = Wanted::Port(entry.protocol(), entry.local().port());
        let mut keep = |socket: &KernelSocket| meets(socket, entry.local().ip()) && receivers.keep(socket);
        if host.has_socket(wanted, &mut keep).is_err() {
            receivers.unread.insert(entry.protocol());
        }
        receivers
    }

    /// Those at the ports of these entries.
    pub(super) fn of_all(entries: &BTreeSet<Entry>, host: &dyn Host) -> Self {
        let mut receivers = Self::default();
        let mut ports: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        for entry in entries {
            let local = entry.local();
            ports.entry((entry.protocol(), local.port())).or_default().insert(local.ip());
        }
        // Any user may bind any number of sockets to other addresses of the port: these are nobody's receivers.
        let concerns = |socket: &KernelSocket, addresses: &BTreeSet<IpAddr>| {
            addresses.iter().any(|address| meets(socket, *address))
        };
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            if ports.range((protocol, 0)..=(protocol, u16::MAX)).next().is_none() {
                continue;
            }
            let mut keep = |socket: &KernelSocket| {
                let addresses = ports.get(&(protocol, socket.local.port()));
                addresses.is_some_and(|addresses| concerns(socket, addresses)) && receivers.keep(socket)
            };
            if let Err(error) = host.has_socket(Wanted::Receivers(protocol), &mut keep) {
                say(format!("cannot check who else receives what feeds have: {error}"));
                receivers.unread.insert(protocol);
            }
        }
        receivers
    }
}

impl Feeds {
    /// Every wish on an interface whose traffic meets the entry's, of all clients.
    fn wishes_meeting(&self, interface: u32, entry: &Entry) -> impl Iterator<Item = &Wish> {
        let feeds = self.all.values().filter(move |feed| feed.facts.index == interface);
        let readers = feeds.flat_map(|feed| feed.readers.values());
        let wishes = readers.flat_map(|reader| reader.entries.iter());
        wishes.filter(move |(other, _)| do_meet(other, entry)).map(|(_, wish)| wish)
    }

    /// Tells everybody with a wish for the entry that is not told yet.
    fn tell(&mut self, interface: u32, entry: &Entry, told: &(Verdict, Option<String>)) -> Vec<(u32, Reply)> {
        let mut notices = Vec::new();
        for (number, feed) in self.all.iter_mut().filter(|(_, feed)| feed.facts.index == interface) {
            for (client, reader) in &mut feed.readers {
                let Some(wish) = reader.entries.get_mut(entry) else { continue };
                let told = if wish.verdict == Verdict::Pass { (Verdict::Pass, None) } else { told.clone() };
                if wish.told != told {
                    wish.told.clone_from(&told);
                    let (verdict, reason) = (Some(told.0), told.1);
                    let told = FeedVerdict { feed: *number, entry: *entry, verdict, reason };
                    notices.push((*client, Reply::FeedVerdict(told)));
                }
            }
        }
        notices
    }
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Ends the drop of every entry that meets this one.
    pub(in crate::registry) fn pass_feeds(
        &mut self,
        interface: u32,
        entry: &Entry,
        reason: &str,
    ) -> Result<(), Problem> {
        let is_met = |(index, other): &&(u32, Entry)| *index == interface && do_meet(other, entry);
        let met: Vec<Entry> = self.feeds.dropping.iter().filter(is_met).map(|(_, entry)| *entry).collect();
        for other in met {
            self.dataplane.set_drop(interface, &other, false)?;
            self.feeds.dropping.remove(&(interface, other));
            self.notices.extend(self.feeds.tell(interface, &other, &(Verdict::Pass, Some(reason.to_owned()))));
        }
        Ok(())
    }

    /// Decides on the verdict of an entry that was just asked to drop. A receiver that comes meanwhile is seen by the second look.
    pub(super) fn decide(&mut self, interface: u32, entry: &Entry, host: &dyn Host) -> (Verdict, Option<String>) {
        let look = |registry: &Self| registry.obstacle(interface, entry, &Receivers::of(entry, host), host);
        let mut obstacle = look(self);
        if obstacle.is_none() {
            obstacle = self.drop_now(interface, entry).err().map(|problem| problem.brief());
        }
        if obstacle.is_none() {
            obstacle = look(self);
        }
        self.settle_verdict(interface, entry, obstacle)
    }

    fn drop_now(&mut self, interface: u32, entry: &Entry) -> Result<(), Problem> {
        self.dataplane.beat()?;
        // Before the call, which may fail half-way.
        self.feeds.dropping.insert((interface, *entry));
        self.dataplane.set_drop(interface, entry, true)
    }

    /// Has the entry pass where there is an obstacle; returns what is in force.
    fn settle_verdict(&mut self, interface: u32, entry: &Entry, obstacle: Option<String>) -> (Verdict, Option<String>) {
        let Some(reason) = obstacle else { return (Verdict::Drop, None) };
        if self.feeds.dropping.contains(&(interface, *entry)) {
            match self.dataplane.set_drop(interface, entry, false) {
                Ok(()) => _ = self.feeds.dropping.remove(&(interface, *entry)),
                Err(problem) => say(problem),
            }
        }
        (Verdict::Pass, Some(reason))
    }

    /// The verdicts at housekeeping; returns the clients to notify.
    pub(super) fn check_verdicts(&mut self, receivers: &Receivers, host: &dyn Host) -> Vec<(u32, Reply)> {
        let mut notices = Vec::new();
        let mut decisions_left = DECISIONS_MAX;
        for (interface, entry) in self.feeds.wanting_drop() {
            let is_dropping = self.feeds.dropping.contains(&(interface, entry));
            let mut obstacle = self.obstacle(interface, &entry, receivers, host);
            if obstacle.is_none() && !is_dropping {
                if decisions_left == 0 {
                    continue;
                }
                decisions_left -= 1;
                // `receivers` are as old as this check.
                let told = self.decide(interface, &entry, host);
                notices.extend(self.feeds.tell(interface, &entry, &told));
                continue;
            }
            if let Some(reason) = obstacle.as_mut().filter(|_| is_dropping) {
                say(format!("{entry} passes again beside its feed: {reason}"));
            }
            let told = self.settle_verdict(interface, &entry, obstacle);
            notices.extend(self.feeds.tell(interface, &entry, &told));
        }
        notices
    }

    /// The reason why the packets of an entry cannot be dropped.
    fn obstacle(&self, interface: u32, entry: &Entry, receivers: &Receivers, host: &dyn Host) -> Option<String> {
        let wishes = || self.feeds.wishes_meeting(interface, entry);
        if wishes().any(|wish| wish.verdict == Verdict::Pass) {
            return Some("another reader of a feed wants it to pass".into());
        }
        let on_it = |stack: &&super::super::Stack| stack.facts.index == interface;
        let mut stacks = self.stacks.values().filter(on_it);
        if let Some(stack) = stacks.find(|stack| stack.entries.keys().any(|other| do_meet(other, entry))) {
            return Some(format!("stack {} receives it", stack.facts.id));
        }
        let Some(sockets) = receivers.beside(entry) else {
            return Some("it is not known which sockets receive it".into());
        };
        let twins: BTreeSet<u64> = wishes().filter_map(|wish| wish.twin.as_ref()).map(inode).collect();
        let place = place(host, interface);
        let other = sockets.iter().find(|socket| !twins.contains(&socket.inode) && receives(socket, entry, place))?;
        Some(format!("another socket at {}, of user {}, receives it", other.local, other.uid))
    }
}

/// Returns whether a datagram socket may receive some of the traffic of an entry. The kernel does not say which groups it has joined;
/// by default it receives those of all others, too (IP_MULTICAST_ALL).
fn receives(socket: &KernelSocket, entry: &Entry, place: Place<'_>) -> bool {
    let is_peer = |address: IpAddr| socket.remote.port() == 0 || socket.remote.ip() == address;
    let is_from = match entry {
        Entry::Flow { remote, .. } => socket.remote.port() == 0 || socket.remote == *remote,
        Entry::Multicast { source: Some(source), .. } => is_peer(*source),
        Entry::Listener { .. } | Entry::Multicast { source: None, .. } => true,
    };
    is_from
        && socket.protocol == entry.protocol()
        && socket.local.port() == entry.local().port()
        && meets(socket, entry.local().ip())
        && place.is_reached_by(socket.device, entry.vlan())
}

/// Returns whether a packet may match both entries.
pub(super) fn do_meet(one: &Entry, other: &Entry) -> bool {
    let (here, there) = (one.local(), other.local());
    let is_any = |address: IpAddr| address.is_unspecified();
    let is_same_place = here.ip() == there.ip() || is_any(here.ip()) || is_any(there.ip());
    let peers = match (one, other) {
        (Entry::Flow { remote: one, .. }, Entry::Flow { remote: other, .. }) => one == other,
        (Entry::Multicast { source: Some(one), .. }, Entry::Multicast { source: Some(other), .. }) => one == other,
        _ => true,
    };
    one.protocol() == other.protocol()
        && one.vlan() == other.vlan()
        && here.port() == there.port()
        && here.is_ipv4() == there.is_ipv4()
        && is_same_place
        && peers
}
