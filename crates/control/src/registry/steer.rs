//! Steering of traffic to stacks and back, and neighbours.

use super::others::Claim;
use super::rates::RESOLVES_PER_SECOND_MAX;
use super::{Host, RecordStore, Registry, Stack};
use crate::dataplane::Dataplane;
use crate::foreign::Foreign;
use crate::twin::{self, Place};
use sidestep_control_api::message::{Code, Entry, Protocol, Refusal, Reply};
use sidestep_sys::drop_filter::{self, Owner};
use sidestep_sys::tcp_repair;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The most entries whose kernel socket is checked again per housekeeping.
const TWINS_PER_TURN: usize = 512;

/// The most comparisons of those entries with sockets of others per housekeeping: a user may have bound a hundred thousand
/// to one port.
const COMPARISONS_PER_TURN: usize = 1 << 19;

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    pub(super) fn steer(
        &mut self,
        id: u32,
        stack: u32,
        entry: Entry,
        mut descriptors: Vec<Foreign>,
        host: &dyn Host,
    ) -> Result<(), Refusal> {
        // Two names of one entry would be two entries here and one in the program.
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
        let place = place(host, interface);
        twin::check(&entry, twin.as_fd(), place)?;
        let address = entry.local().ip();
        if !address.is_unspecified() && !address.is_multicast() && !host.is_local(address) {
            return Err(Refusal::plain(Code::NotLocal, thing()).next("see the addresses with: ip address"));
        }
        // An entry that is proved again after a restart was checked when it was new.
        let is_new = !self.owned(id, stack)?.entries.contains_key(&entry);
        // Except one that a killed control has left so, of an entry that it has made (decision 0031).
        if is_new && tcp_repair::is_on(twin.as_fd()).unwrap_or(false) {
            let reason = "the kernel's socket is in repair mode, in which it shares the ports of others";
            return Err(Refusal::new(Code::TwinMismatch, thing(), reason).next("send an ordinary one"));
        }
        // A socket that took such a port while no control was running is the kernel's: the program knows only the
        // port's owner.
        if is_new && self.pool.has(&entry) {
            let reason = "the port is reserved for connections of a stack";
            return Err(Refusal::new(Code::Taken, thing(), reason).next("see whose: sidestep ps"));
        }
        let claim = Claim { entry: &entry, uid: self.uid(id), twin: inode(&twin), place };
        // The stack's packets must not be dropped for a feed from its first one on.
        self.pass_feeds(interface, &entry, "a stack receives it")
            .map_err(|problem| Refusal::of(Code::Kernel, thing(), &problem))?;
        let filtered = DropFilter::over(&entry, &twin, is_new);
        self.install(stack, &claim, is_new, host)?;
        drop(filtered);
        self.owned(id, stack)?.entries.insert(entry, Some(twin));
        Ok(())
    }

    /// Makes the entry in the program's maps. A new entry is refused if another socket would lose traffic by it.
    fn install(&mut self, stack: u32, claim: &Claim<'_>, is_new: bool, host: &dyn Host) -> Result<(), Refusal> {
        if is_new {
            claim.refuse_loss(host)?;
        }
        self.dataplane.steer(stack, claim.entry, host.links())?;
        if is_new && let Err(refusal) = claim.refuse_loss(host) {
            // The other socket began to receive a moment before the entry existed.
            self.dataplane.unsteer(stack, claim.entry)?;
            return Err(refusal);
        }
        Ok(())
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

    /// Removes entries whose kernel socket no longer proves a right to them, whose port another user has come to hold,
    /// or whose socket was not sent again after a restart: the port may have another owner by now. Returns the clients
    /// to notify.
    pub(crate) fn check_twins(&mut self, host: &dyn Host, now: Instant) -> Vec<(u32, Reply)> {
        let receivers = self.receivers(host);
        let is_lost = |stack: &Stack, entry: &Entry, twin: &Option<Foreign>| match twin {
            Some(twin) => {
                let (place, uid) = (place(host, stack.facts.index), self.uid(stack.client));
                let claim = Claim { entry, uid, twin: inode(twin), place };
                let checked = twin::check(entry, twin.as_fd(), place);
                checked
                    .and_then(|()| claim.refuse_latecomers(receivers.beside(entry)))
                    .err()
                    .map(|refusal| refusal.reason)
            }
            None => {
                let is_due = stack.proof_due.is_some_and(|due| due <= now);
                is_due.then(|| "its owner has not shown a socket that holds the port".to_owned())
            }
        };
        let entries =
            self.stacks.iter().flat_map(|(id, stack)| stack.entries.iter().map(move |entry| (*id, stack, entry)));
        let count = entries.clone().count();
        let from = if count == 0 { 0 } else { self.twins_seen % count };
        let (mut lost, mut seen, mut compared) = (Vec::new(), 0, 0);
        for (id, stack, (entry, twin)) in entries.skip(from).take(TWINS_PER_TURN) {
            if compared >= COMPARISONS_PER_TURN {
                break;
            }
            (seen, compared) = (seen + 1, compared + receivers.beside(entry).len());
            lost.extend(is_lost(stack, entry, twin).map(|reason| (id, *entry, reason)));
        }
        self.twins_seen = if from + seen >= count { 0 } else { from + seen };
        self.give_back(lost)
    }

    /// Removes ports and groups of stacks whose device brings packets by other queues, at this check and at the one
    /// before: a table is changed in several steps, and each one disturbs connections of a port. Returns the clients to
    /// notify.
    pub(crate) fn check_queues(&mut self) -> Vec<(u32, Reply)> {
        let is_whole = |entry: &&Entry| !matches!(entry, Entry::Flow { .. });
        let (mut lost, mut found) = (Vec::new(), BTreeSet::new());
        for (id, stack) in self.stacks.iter().filter(|(_, stack)| stack.entries.keys().any(|entry| is_whole(&entry))) {
            if let Some(reason) = self.dataplane.elsewhere(*id) {
                found.insert(*id);
                if self.elsewhere_before.contains(id) {
                    lost.extend(stack.entries.keys().filter(is_whole).map(|entry| (*id, *entry, reason.clone())));
                }
            }
        }
        self.elsewhere_before = found;
        lost.truncate(TWINS_PER_TURN);
        self.give_back(lost)
    }

    fn give_back(&mut self, lost: Vec<(u32, Entry, String)>) -> Vec<(u32, Reply)> {
        let mut notices = Vec::new();
        for (stack, entry, reason) in lost {
            sidestep_sys::problem::say(format!("{entry} goes back to the kernel: {reason}"));
            let Some(facts) = self.stacks.get_mut(&stack) else { continue };
            let twin = facts.entries.get(&entry).and_then(Option::as_ref);
            let filtered = twin.map(|twin| DropFilter::over(&entry, twin, true));
            if self.dataplane.unsteer(stack, &entry).is_ok() {
                let is_filtered = filtered.is_some_and(DropFilter::stays);
                self.filtered.extend(facts.entries.remove(&entry).flatten().filter(|_| is_filtered));
                notices.push((facts.client, Reply::GivenBack { stack, entry }));
            }
        }
        notices
    }

    /// Detaches the drop filter of listeners whose entry was removed before the last check.
    pub(crate) fn detach_drop_filters(&mut self) {
        // Their owners may have done so before.
        self.filtered.drain(..).for_each(|twin| detach(twin.as_fd()));
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
        // The kernel's table has a thousand places: strangers' addresses would evict the real ones.
        if !host.is_neighbour(interface, address) {
            return Err(Refusal::plain(Code::NoRoute, thing).next("ask for the router: ip route get ADDRESS"));
        }
        let owner = self.owner(id);
        // A repeated request is not a scan: every connection to the same peer makes it.
        let mut own = self.clients.values().filter(|client| client.owner == owner);
        if !own.any(|client| client.wants(interface, address)) && !self.resolves.count(owner, now) {
            let reason = format!("a user asks for at most {RESOLVES_PER_SECOND_MAX} neighbours in a second");
            return Err(Refusal::new(Code::Limit, thing, reason).next("ask again in a second"));
        }
        if let Some(client) = self.clients.get_mut(&id).filter(|client| !client.wants(interface, address)) {
            client.want(interface, address);
        }
        host.resolve(interface, address).map_err(|error| Refusal::new(Code::Kernel, thing, error))
    }
}

/// A TCP listener that drops SYNs while its entry is made: the kernel would accept a connection whose next segments go
/// to the stack, which resets it. It also drops them for a while after its entry is removed: the kernel would reset the
/// stack's connections before they have entries of their own.
struct DropFilter<'a>(Option<BorrowedFd<'a>>);

impl<'a> DropFilter<'a> {
    fn over(entry: &Entry, twin: &'a Foreign, is_new: bool) -> Self {
        let is_listener = matches!(entry, Entry::Listener { protocol: Protocol::Tcp, .. });
        // A socket with a filter of the program's keeps it.
        let attach = || drop_filter::attach(twin.as_fd(), Owner::CONTROL).unwrap_or(false);
        Self((is_new && is_listener && attach()).then(|| twin.as_fd()))
    }

    /// Leaves the filter attached; returns whether it is.
    fn stays(mut self) -> bool {
        self.0.take().is_some()
    }
}

impl Drop for DropFilter<'_> {
    fn drop(&mut self) {
        self.0.into_iter().for_each(detach);
    }
}

fn detach(twin: BorrowedFd<'_>) {
    // One without our filter is as wanted.
    let _ = drop_filter::detach(twin, Owner::CONTROL);
}

pub(super) fn place(host: &dyn Host, interface: u32) -> Place<'_> {
    Place { namespace: host.namespace(), guard: host.guard(), interface, links: host.links() }
}

/// The inode of the socket. If it cannot be read, the result matches no other socket.
pub(super) fn inode(twin: &Foreign) -> u64 {
    rustix::fs::fstat(twin.as_fd()).map_or(u64::MAX, |facts| facts.st_ino)
}
