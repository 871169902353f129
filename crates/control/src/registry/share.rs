//! Shares: no user can exclude the other users, or root.
//!
//! A user is the [`Owner`] of the requesting process: all uids of its own user namespaces count as one.

use super::{RecordStore, Registry, Stack};
use crate::dataplane::Dataplane;
use sidestep_control_api::message::{Code, Entry, OpenStack, Refusal, StackFacts};
use sidestep_control_api::table::Link;
use sidestep_sys::owner::Owner;
use sidestep_xdp_steering::{FLOWS_MAX, GROUPS_MAX, LISTENERS_MAX};

/// The most applications; each costs two descriptors, one more while it opens a stack.
pub(crate) const CLIENTS_MAX: usize = 256;
/// The most applications of one user.
pub(crate) const CLIENTS_PER_USER_MAX: usize = 64;
/// Applications reserved for root.
pub(crate) const CLIENTS_OF_ROOT: usize = 16;
/// The most stacks of one application: one per queue of a large device.
pub(crate) const STACKS_PER_CLIENT_MAX: usize = 16;
/// The most stacks of one user.
pub(crate) const STACKS_PER_USER_MAX: usize = 64;
/// The most queues of one user: those of two large devices. Each costs a descriptor while it is opened.
pub(crate) const QUEUES_PER_USER_MAX: usize = 128;
/// The most queues being opened, of all users: each takes a descriptor of control until it is bound.
pub(crate) const QUEUES_BEGUN_MAX: usize = 512;
/// The most packet memory of one user, bytes: it is locked, and no other limit counts it.
pub(crate) const MEMORY_PER_USER_MAX: u64 = 4 << 30;
/// The most packet memory of one stack, bytes. One request makes it, which takes about a second per gibibyte, and
/// applications distrust the tables after three seconds without a heartbeat.
pub(crate) const MEMORY_PER_STACK_MAX: u64 = 512 << 20;
/// The most entries of one stack. Each costs a descriptor: the kernel socket that holds the port.
pub(crate) const ENTRIES_PER_STACK_MAX: usize = 4096;
/// The most entries of all.
pub(crate) const ENTRIES_MAX: usize = 16 << 10;
/// The fraction of entries reserved for root: one in this many.
const ENTRIES_OF_ROOT: usize = 16;

/// The queues of a device that a user may have: half of them, rounded up, unless the administrator has set a number.
fn queues_of_user(count: usize, set: Option<u32>) -> usize {
    set.map_or(count.div_ceil(2), |set| set as usize)
}

/// The queues of a device that are reserved for root when all users together would take the last one. None of a device
/// with one queue, and none if the administrator has set a user's number.
fn queues_of_root(count: usize, set: Option<u32>) -> usize {
    if count < 2 || set.is_some() { 0 } else { (count / 8).max(1) }
}

/// The number of a stack's queues, for all limits.
fn queues(facts: &StackFacts) -> usize {
    facts.queues.len()
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Sets the number of each device's queues that one user may have, instead of half of them.
    pub(crate) fn set_queues_per_user(&mut self, queues: u32) {
        self.queues_per_user = Some(queues);
    }

    /// Checks that another client of this user is within the limits.
    pub(super) fn check_place(&self, owner: Owner) -> Result<(), Refusal> {
        let of_user = self.clients.values().filter(|client| client.owner == owner).count();
        let places = if owner.is_root() { CLIENTS_MAX } else { CLIENTS_MAX - CLIENTS_OF_ROOT };
        if self.clients.len() < places && of_user < CLIENTS_PER_USER_MAX {
            return Ok(());
        }
        let reason = format!("there are at most {places} clients, {CLIENTS_PER_USER_MAX} of one user");
        Err(Refusal::new(Code::Limit, "cannot take another client", reason)
            .next("end some accelerated programs; sidestep ps lists them"))
    }

    /// The number of queues of a stack's request that it may have.
    pub(super) fn share_of_queues(&self, id: u32, link: &Link, wanted: u32, thing: &str) -> Result<u32, Refusal> {
        let owner = self.owner(id);
        if owner.is_root() {
            return Ok(wanted);
        }
        let (count, set) = (self.dataplane.queues(link) as usize, self.queues_per_user);
        let have = |is_it: &dyn Fn(Owner) -> bool| self.queues_on(link.index, is_it);
        let own = queues_of_user(count, set).saturating_sub(have(&|other| other == owner));
        let kept = queues_of_root(count, set).saturating_sub(have(&Owner::is_root));
        let free = count.saturating_sub(have(&|_| true)).saturating_sub(kept);
        match own.min(free).min(wanted as usize) {
            0 if own == 0 => {
                let reason = format!("a user has at most {} of its {count} queues", queues_of_user(count, set));
                Err(Refusal::new(Code::Limit, thing, reason)
                    .next("let users have more: sidestep control --user-queues N"))
            }
            // All queues are taken: the refusal names the owner.
            0 if kept == 0 => Ok(wanted),
            0 => {
                let reason = format!("the last {kept} of its {count} queues are kept for root");
                Err(Refusal::new(Code::Limit, thing, reason)
                    .next("let users have them: sidestep control --user-queues N"))
            }
            some => Ok(some as u32),
        }
    }

    /// The queues of an interface that stacks have or are about to get.
    fn queues_on(&self, interface: u32, is_it: &dyn Fn(Owner) -> bool) -> usize {
        let opened =
            self.stacks.values().filter(|stack| stack.facts.index == interface && is_it(self.owner(stack.client)));
        let begun = self.begun.iter().filter(|(id, pending)| pending.interface == interface && is_it(self.owner(**id)));
        opened.map(|stack| queues(&stack.facts)).chain(begun.map(|(_, pending)| pending.queues as usize)).sum()
    }

    /// Refuses a stack beyond the limits of one user.
    pub(super) fn check_limits(&self, id: u32, wish: &OpenStack, wanted: u32, thing: &str) -> Result<(), Refusal> {
        let Some(client) = self.clients.get(&id) else { return Ok(()) };
        let is_of_user = |other: &u32| self.owner(*other) == client.owner;
        let of_user: Vec<&Stack> = self.stacks.values().filter(|stack| is_of_user(&stack.client)).collect();
        let begun: Vec<_> = self.begun.iter().filter(|(id, _)| is_of_user(id)).map(|(_, pending)| pending).collect();
        let of_begun = begun.iter().map(|pending| pending.wish.bytes(pending.queues));
        let memory = of_user.iter().map(|stack| stack.facts.bytes()).chain(of_begun).sum::<u64>();
        let queues_of_user = of_user.iter().map(|stack| queues(&stack.facts)).sum::<usize>()
            + begun.iter().map(|pending| pending.queues as usize).sum::<usize>();
        let queues_begun: usize = self.begun.values().map(|pending| pending.queues as usize).sum();
        let refuse = |reason: String| {
            Err(Refusal::new(Code::Limit, thing, reason)
                .next("close stacks that are not needed; sidestep ps lists them"))
        };
        if client.stacks.len() >= STACKS_PER_CLIENT_MAX {
            return refuse(format!("a program has at most {STACKS_PER_CLIENT_MAX} stacks"));
        }
        if of_user.len() + begun.len() >= STACKS_PER_USER_MAX {
            return refuse(format!("a user has at most {STACKS_PER_USER_MAX} stacks"));
        }
        if queues_of_user + wanted as usize > QUEUES_PER_USER_MAX {
            return refuse(format!("a user has at most {QUEUES_PER_USER_MAX} queues"));
        }
        if queues_begun + wanted as usize > QUEUES_BEGUN_MAX {
            return refuse(format!("at most {QUEUES_BEGUN_MAX} queues are being opened at a time"));
        }
        let geometry = wish.geometry(wanted);
        if u64::from(geometry.frames) * u64::from(geometry.frame_bytes) > MEMORY_PER_STACK_MAX {
            let reason = format!("a stack has at most {} MiB of packet memory", MEMORY_PER_STACK_MAX >> 20);
            return Err(Refusal::new(Code::Limit, thing, reason).next("ask for fewer frames"));
        }
        if memory.saturating_add(wish.bytes(wanted)) > MEMORY_PER_USER_MAX {
            return refuse(format!("a user has at most {} GiB of packet memory", MEMORY_PER_USER_MAX >> 30));
        }
        Ok(())
    }

    /// Refuses a new entry if its limit is reached, or only other users' share is left.
    pub(super) fn check_share(&mut self, id: u32, stack: u32, entry: &Entry) -> Result<(), Refusal> {
        let owned = self.owned(id, stack)?;
        let (count, index) = (owned.entries.len(), owned.facts.index);
        if owned.entries.contains_key(entry) {
            return Ok(());
        }
        let all: usize = self.stacks.values().map(|stack| stack.entries.len()).sum();
        let owner = self.owner(id);
        let kept = if owner.is_root() { 0 } else { self.entries_max / ENTRIES_OF_ROOT };
        let is_of_user = |stack: &&Stack| self.owner(stack.client) == owner && stack.facts.index == index;
        let same = |other: &&Entry| std::mem::discriminant(*other) == std::mem::discriminant(entry);
        let of_user = self.stacks.values().filter(is_of_user);
        let alike = of_user.flat_map(|stack| stack.entries.keys()).filter(same).count();
        let share = match entry {
            Entry::Flow { .. } => FLOWS_MAX,
            Entry::Listener { .. } => LISTENERS_MAX,
            Entry::Multicast { .. } => GROUPS_MAX,
        } as usize
            / 2;
        let reason = match () {
            () if count >= ENTRIES_PER_STACK_MAX => format!("a stack has at most {ENTRIES_PER_STACK_MAX} entries"),
            () if all >= self.entries_max - kept => {
                format!("all stacks have at most {} entries", self.entries_max - kept)
            }
            () if alike >= share => format!("a user has at most {share} entries of this kind on an interface"),
            () => return Ok(()),
        };
        let refusal = Refusal::new(Code::Limit, format!("cannot steer {entry}"), reason);
        Err(refusal.next("steer the listening port instead of each flow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_half_of_a_device_and_root_always_something_of_a_larger_one() {
        let shares: Vec<_> =
            [1, 2, 3, 4, 8, 64].map(|count| (queues_of_user(count, None), queues_of_root(count, None))).into();
        assert_eq!(shares, [(1, 0), (1, 1), (2, 1), (2, 1), (4, 1), (32, 8)]);
        assert_eq!((queues_of_user(4, Some(4)), queues_of_root(4, Some(4))), (4, 0), "the administrator's word");
    }
}
