//! Shares of feeds: no user can exclude the other users, or root.

use super::Feeds;
use sidestep_control_api::message::{Code, Entry, Refusal};
use sidestep_sys::owner::Owner;
use sidestep_xdp_steering::FEEDS_MAX;

/// The most feeds of one user: a quarter of what an interface has places for.
pub(in crate::registry) const FEEDS_PER_USER_MAX: usize = FEEDS_MAX as usize / 4;
/// Places of an interface reserved for root.
const FEEDS_OF_ROOT: usize = 8;
/// The most memory of one user's feeds, bytes: it is locked, and no other limit counts it. A feed has about one MiB for each
/// receive queue, so this is one on each of four devices of 64 queues.
pub(in crate::registry) const FEED_MEMORY_PER_USER_MAX: u64 = 256 << 20;
/// The most memory of all feeds, bytes; an eighth is root's.
const FEED_MEMORY_MAX: u64 = 1 << 30;
/// The most entries of all feeds. Each may cost a descriptor, and is checked every second, which takes some five microseconds.
const FEED_ENTRIES_MAX: usize = 1024;
/// The most doorbells of one client for a feed: one for each of its threads, and half of what a feed has.
pub(super) const DOORBELLS_PER_CLIENT_MAX: usize = 8;

/// The limit of entries, which scarce descriptors lower.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntriesMax(usize);

impl Default for EntriesMax {
    fn default() -> Self {
        Self(FEED_ENTRIES_MAX)
    }
}

impl Feeds {
    /// Limits entries to an eighth of so many descriptors.
    pub(in crate::registry) fn limit(&mut self, descriptors: usize) {
        self.entries_max = EntriesMax(FEED_ENTRIES_MAX.min(descriptors / 8));
    }

    /// Checks that another feed of this size is within the limits.
    pub(super) fn check_size(&self, owner: Owner, interface: u32, bytes: u64, thing: &str) -> Result<(), Refusal> {
        let sum = |is_it: &dyn Fn(Owner) -> bool| -> u64 {
            let open = self.all.values().filter(|feed| is_it(feed.sharers.owner)).map(super::Feed::bytes);
            // Whoever has mapped it keeps it.
            let closed = self.closed.iter().filter(|feed| is_it(feed.owner)).map(|feed| feed.bytes);
            open.chain(closed).sum()
        };
        let refuse = |reason: String| {
            let next = "close feeds that are not needed, or share one by its name; sidestep ps lists them";
            Err(Refusal::new(Code::Limit, thing, reason).next(next))
        };
        let here = self.all.values().filter(|feed| feed.facts.index == interface).count();
        let (places, memory) = match owner.is_root() {
            true => (FEEDS_MAX as usize, FEED_MEMORY_MAX),
            false => (FEEDS_MAX as usize - FEEDS_OF_ROOT, FEED_MEMORY_MAX - FEED_MEMORY_MAX / 8),
        };
        let of_user = self.all.values().filter(|feed| feed.sharers.owner == owner).count();
        if of_user >= FEEDS_PER_USER_MAX && !owner.is_root() {
            return refuse(format!("a user has at most {FEEDS_PER_USER_MAX} feeds"));
        }
        if here >= places {
            return refuse(format!("an interface has at most {places} feeds"));
        }
        if sum(&|other| other == owner).saturating_add(bytes) > FEED_MEMORY_PER_USER_MAX && !owner.is_root() {
            return refuse(format!("the feeds of a user have at most {} MiB", FEED_MEMORY_PER_USER_MAX >> 20));
        }
        if sum(&|_| true).saturating_add(bytes) > memory {
            return refuse(format!("all feeds have at most {} MiB", memory >> 20));
        }
        Ok(())
    }

    /// Checks that another entry is within the limits: a user has half of them, and a sixteenth is root's.
    pub(super) fn check_entries(&self, owner: Owner, entry: &Entry) -> Result<(), Refusal> {
        let EntriesMax(max) = self.entries_max;
        let count = |is_it: &dyn Fn(Owner) -> bool| -> usize {
            let feeds = self.all.values().filter(|feed| is_it(feed.sharers.owner));
            feeds.flat_map(|feed| feed.readers.values()).map(|reader| reader.entries.len()).sum()
        };
        let (all, own) = if owner.is_root() { (max, max) } else { (max - max / 16, max / 2) };
        if count(&|_| true) < all && count(&|other| other == owner) < own {
            return Ok(());
        }
        let reason = format!("feeds have at most {all} entries, {own} of one user");
        Err(Refusal::new(Code::Limit, format!("cannot copy {entry} into a feed"), reason)
            .next("take a listener instead of each flow"))
    }
}
