//! Traffic to stacks and back, and neighbours.

use super::{ENTRIES_MAX, ENTRIES_PER_STACK_MAX, Host, Keeper, Registry, Stack};
use crate::dataplane::Dataplane;
use crate::foreign::Foreign;
use crate::twin::{self, Place};
use sidestep_plane::message::{Code, Entry, Refusal};
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
        let all: usize = self.stacks.values().map(|stack| stack.entries.len()).sum();
        let owned = self.owned(id, stack)?;
        let thing = || format!("cannot steer {entry}");
        if let Some(fault) = entry.fault() {
            return Err(Refusal::new(Code::Malformed, thing(), fault));
        }
        let (Some(twin), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Err(Refusal::plain(Code::TwinMissing, thing()));
        };
        let place = Place { namespace: host.namespace(), interface: owned.facts.index, links: host.links() };
        twin::check(&entry, twin.as_fd(), place)?;
        let address = entry.local().ip();
        if !address.is_unspecified() && !address.is_multicast() && !host.is_local(address) {
            return Err(Refusal::plain(Code::NotLocal, thing()).next("see the addresses with: ip address"));
        }
        let is_new = !owned.entries.contains_key(&entry);
        if is_new && (owned.entries.len() >= ENTRIES_PER_STACK_MAX || all >= ENTRIES_MAX) {
            let reason = format!("a stack has at most {ENTRIES_PER_STACK_MAX} entries, all together {ENTRIES_MAX}");
            return Err(
                Refusal::new(Code::Limit, thing(), reason).next("steer the listening port instead of each flow")
            );
        }
        self.dataplane.steer(stack, &entry)?;
        self.owned(id, stack)?.entries.insert(entry, Some(twin));
        Ok(())
    }

    pub(super) fn unsteer(&mut self, id: u32, stack: u32, entry: &Entry) -> Result<(), Refusal> {
        if !self.owned(id, stack)?.entries.contains_key(entry) {
            return Err(Refusal::plain(Code::NoEntry, format!("cannot give back {entry}")));
        }
        self.dataplane.unsteer(stack, entry)?;
        self.owned(id, stack)?.entries.remove(entry);
        Ok(())
    }

    /// Gives back entries whose kernel socket is no longer bound where it was, or has not been shown again after a restart:
    /// its port may be somebody else's by now.
    pub(crate) fn check_twins(&mut self, host: &dyn Host, now: Instant) {
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
        for (stack, entry) in lost {
            sidestep_sys::problem::say(format!(
                "{entry} goes back to the kernel: no socket of its owner holds the port"
            ));
            let Some(facts) = self.stacks.get_mut(&stack) else { continue };
            if self.dataplane.unsteer(stack, &entry).is_ok() {
                facts.entries.remove(&entry);
            }
        }
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
        if !self.clients.get_mut(&id).is_some_and(|client| client.want(interface, address, now)) {
            return Err(Refusal::new(Code::Limit, thing, "too many neighbours asked for in one second"));
        }
        host.resolve(interface, address).map_err(|error| Refusal::new(Code::Kernel, thing, error))
    }
}
