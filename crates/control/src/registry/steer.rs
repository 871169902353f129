//! Traffic to stacks and back, and neighbours.

use super::{ENTRIES_PER_STACK_MAX, Host, Keeper, Registry, Stack};
use crate::dataplane::Dataplane;
use crate::foreign::Foreign;
use crate::netlink::sockets::{KernelSocket, Wanted};
use crate::twin::{self, Place};
use sidestep_plane::message::{Code, Entry, Protocol, Refusal, Reply};
use sidestep_steer::{FLOWS_MAX, GROUPS_MAX, LISTENERS_MAX};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Instant;

/// Entries whose kernel socket is looked at again in one turn of housekeeping.
const TWINS_PER_TURN: usize = 512;

impl<D: Dataplane, K: Keeper> Registry<D, K> {
    pub(super) fn steer(
        &mut self,
        id: u32,
        stack: u32,
        entry: Entry,
        mut descriptors: Vec<Foreign>,
        host: &dyn Host,
    ) -> Result<(), Refusal> {
        // Two names of one entry would be two rows here and one in the program.
        let entry = entry.canonical();
        self.check_share(id, stack, &entry)?;
        let owned = self.owned(id, stack)?;
        let interface = owned.facts.index;
        let thing = || format!("cannot steer {entry}");
        if let Some(fault) = entry.fault() {
            return Err(Refusal::new(Code::Malformed, thing(), fault));
        }
        let (Some(twin), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Err(Refusal::plain(Code::TwinMissing, thing()));
        };
        let place = Place { namespace: host.namespace(), interface, links: host.links() };
        twin::check(&entry, twin.as_fd(), place)?;
        let address = entry.local().ip();
        if !address.is_unspecified() && !address.is_multicast() && !host.is_local(address) {
            return Err(Refusal::plain(Code::NotLocal, thing()).next("see the addresses with: ip address"));
        }
        // What is proved again after a restart was looked at when it was new.
        let is_new = !self.owned(id, stack)?.entries.contains_key(&entry);
        let uid = self.uid(id);
        if is_new {
            refuse_others_loss(&entry, interface, uid, host)?;
        }
        self.dataplane.steer(stack, &entry, host.links())?;
        if is_new && let Err(refusal) = refuse_others_loss(&entry, interface, uid, host) {
            // It began a moment before the rule stood.
            self.dataplane.unsteer(stack, &entry)?;
            return Err(refusal);
        }
        self.owned(id, stack)?.entries.insert(entry, Some(twin));
        Ok(())
    }

    /// Refuses a new entry where there is no room for it, or only other users' room.
    fn check_share(&mut self, id: u32, stack: u32, entry: &Entry) -> Result<(), Refusal> {
        let owned = self.owned(id, stack)?;
        let (count, index) = (owned.entries.len(), owned.facts.index);
        if owned.entries.contains_key(entry) {
            return Ok(());
        }
        let all: usize = self.stacks.values().map(|stack| stack.entries.len()).sum();
        let uid = self.uid(id);
        let of_user = self.stacks.values().filter(|stack| self.uid(stack.client) == uid && stack.facts.index == index);
        let same = |other: &&Entry| std::mem::discriminant(*other) == std::mem::discriminant(entry);
        let alike = of_user.flat_map(|stack| stack.entries.keys()).filter(same).count();
        let share = match entry {
            Entry::Flow { .. } => FLOWS_MAX,
            Entry::Listener { .. } => LISTENERS_MAX,
            Entry::Multicast { .. } => GROUPS_MAX,
        } as usize
            / 2;
        let reason = match () {
            () if count >= ENTRIES_PER_STACK_MAX => format!("a stack has at most {ENTRIES_PER_STACK_MAX} entries"),
            () if all >= self.entries_max => format!("all together have at most {}", self.entries_max),
            () if alike >= share => format!("a user has at most {share} of this kind on an interface"),
            () => return Ok(()),
        };
        let refusal = Refusal::new(Code::Limit, format!("cannot steer {entry}"), reason);
        Err(refusal.next("steer the listening port instead of each flow"))
    }

    pub(super) fn unsteer(&mut self, id: u32, stack: u32, entry: &Entry) -> Result<(), Refusal> {
        let entry = &entry.canonical();
        if !self.owned(id, stack)?.entries.contains_key(entry) {
            return Err(Refusal::plain(Code::NoEntry, format!("cannot give back {entry}")));
        }
        self.dataplane.unsteer(stack, entry)?;
        self.owned(id, stack)?.entries.remove(entry);
        Ok(())
    }

    /// Gives back entries whose kernel socket is no longer bound where it was, or has not been shown again after a restart:
    /// its port may be somebody else's by now.
    /// Returns whom to tell.
    pub(crate) fn check_twins(&mut self, host: &dyn Host, now: Instant) -> Vec<(u32, Reply)> {
        let (namespace, links) = (host.namespace(), host.links());
        let is_lost = |stack: &Stack, entry: &Entry, twin: &Option<Foreign>| match twin {
            Some(twin) => {
                let place = Place { namespace, interface: stack.facts.index, links };
                twin::check(entry, twin.as_fd(), place).is_err()
            }
            None => stack.proof_due.is_some_and(|due| due <= now),
        };
        let entries =
            self.stacks.iter().flat_map(|(id, stack)| stack.entries.iter().map(move |entry| (*id, stack, entry)));
        let count = entries.clone().count();
        let from = if count == 0 { 0 } else { self.twins_seen % count };
        let lost: Vec<(u32, Entry)> = entries
            .skip(from)
            .take(TWINS_PER_TURN)
            .filter(|(_, stack, (entry, twin))| is_lost(stack, entry, twin))
            .map(|(id, _, (entry, _))| (id, *entry))
            .collect();
        self.twins_seen = if from + TWINS_PER_TURN >= count { 0 } else { from + TWINS_PER_TURN };
        let mut notices = Vec::new();
        for (stack, entry) in lost {
            sidestep_sys::problem::say(format!(
                "{entry} goes back to the kernel: no socket of its owner holds the port"
            ));
            let Some(facts) = self.stacks.get_mut(&stack) else { continue };
            if self.dataplane.unsteer(stack, &entry).is_ok() {
                facts.entries.remove(&entry);
                notices.push((facts.client, Reply::GivenBack { stack, entry }));
            }
        }
        notices
    }

    pub(super) fn resolve(
        &mut self,
        id: u32,
        interface: u32,
        address: IpAddr,
        host: &mut dyn Host,
        now: Instant,
    ) -> Result<(), Refusal> {
        let thing = format!("cannot ask for {address}");
        let Some(link) = host.links().iter().find(|link| link.index == interface) else {
            return Err(Refusal::plain(Code::NoInterface, thing));
        };
        if link.is_loopback || address.is_multicast() || address.is_unspecified() || address.is_loopback() {
            return Err(Refusal::new(Code::Malformed, thing, "it is no neighbour's address"));
        }
        // The kernel has a thousand places for neighbours: strangers' addresses would push the real ones out.
        if !host.is_neighbour(interface, address) {
            return Err(Refusal::plain(Code::NoRoute, thing).next("ask for the router: ip route get ADDRESS"));
        }
        if !self.clients.get_mut(&id).is_some_and(|client| client.want(interface, address, now)) {
            return Err(Refusal::new(Code::Limit, thing, "too many neighbours asked for in one second"));
        }
        host.resolve(interface, address).map_err(|error| Refusal::new(Code::Kernel, thing, error))
    }
}

/// Refuses what would take packets away from sockets of the kernel that the twin gives no right to.
///
/// A connection of TCP that the kernel has would be reset by a stack that does not know it, or read by a user who has bound
/// its port beside it, which SO_REUSEADDR allows to everybody. Connections within this host are never steered. A group is
/// received by every socket that has joined it, and by one stack alone once it is steered.
fn refuse_others_loss(entry: &Entry, interface: u32, uid: u32, host: &dyn Host) -> Result<(), Refusal> {
    let thing = || format!("cannot steer {entry}");
    let local = entry.local();
    let unknown = |error: std::io::Error| Refusal::new(Code::Kernel, thing(), error);
    let is_there =
        |ours: IpAddr| local.ip() == ours || local.ip().is_unspecified() && local.is_ipv4() == ours.is_ipv4();
    match entry {
        Entry::Listener { protocol: Protocol::Tcp, .. } | Entry::Flow { protocol: Protocol::Tcp, .. } => {
            let mut is_cut = |socket: &KernelSocket| {
                let peer = socket.remote.ip();
                let is_outside = !peer.is_loopback() && !host.is_local(peer);
                let is_its = if let Entry::Flow { remote, .. } = entry { *remote == socket.remote } else { true };
                socket.is_connection() && is_outside && is_its && is_there(socket.local.ip())
            };
            let wanted = match entry {
                // One of a VLAN comes by another interface, upon this one.
                Entry::Flow { remote, vlan: None, .. } if !local.ip().is_unspecified() => {
                    Wanted::Connection(local, *remote, interface)
                }
                _ => Wanted::Port(Protocol::Tcp, local.port()),
            };
            if host.has_socket(wanted, &mut is_cut).map_err(unknown)? {
                let next = format!("wait until they are over: ss -tnp sport = :{}", local.port());
                return Err(Refusal::plain(Code::KernelConnections, thing()).next(next));
            }
        }
        Entry::Multicast { .. } if uid != 0 => {
            let mut is_others = |socket: &KernelSocket| socket.uid != uid && is_bound_for(socket, local.ip());
            if host.has_socket(Wanted::Port(Protocol::Udp, local.port()), &mut is_others).map_err(unknown)? {
                let reason = "another user's socket has this port, and would no longer receive the group";
                let next = format!("see whose: ss -uanp sport = :{}", local.port());
                return Err(Refusal::new(Code::Taken, thing(), reason).next(next));
            }
        }
        Entry::Multicast { .. } | Entry::Listener { .. } | Entry::Flow { .. } => {}
    }
    Ok(())
}

/// Whether a socket can receive what is sent to a group: bound to it, or to any address. One of IPv6 may take both families.
fn is_bound_for(socket: &KernelSocket, group: IpAddr) -> bool {
    let bound = socket.local.ip();
    bound == group || bound.is_unspecified() && (bound.is_ipv6() || group.is_ipv4())
}
