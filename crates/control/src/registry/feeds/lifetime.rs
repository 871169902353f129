//! The ends of feeds, of their entries and of their clients.

use super::verdict::Receivers;
use super::{Closed, Feed, Feeds, Reader};
use crate::dataplane::Dataplane;
use crate::registry::{Host, RecordStore, Registry};
use sidestep_control_api::message::{Code, Entry, FeedRevoked, FeedVerdict, Refusal, Reply};
use sidestep_control_api::table::Link;
use sidestep_sys::problem::say;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The least time between two heartbeats: the program's deadline is a second, and a busy loop turns thousands of times in it.
const BEAT: Duration = Duration::from_millis(100);

impl Feeds {
    /// The notices that every feed is lost.
    fn revoked(&self, refusal: &Refusal) -> Vec<(u32, Reply)> {
        let of_feed = |(feed, found): (&u32, &Feed)| {
            let notice = Reply::FeedRevoked(FeedRevoked { feed: *feed, refusal: refusal.clone() });
            found.readers.keys().map(|client| (*client, notice.clone())).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of_feed).collect()
    }

    /// Counts the memory of a feed that is being closed, until nobody has it.
    pub(super) fn remember(&mut self, feed: &Feed) {
        self.closed.push(Closed { owner: feed.sharers.owner, bytes: feed.bytes(), map_id: feed.map_id });
    }

    /// Returns whether a reader of the feed has the entry.
    fn has(&self, feed: u32, entry: &Entry) -> bool {
        let found = self.all.get(&feed);
        found.is_some_and(|found| found.readers.values().any(|reader| reader.entries.contains_key(entry)))
    }
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Lets a client read traffic without a socket of its own.
    pub(crate) fn permit_taps(&mut self, id: u32, may_tap: bool) {
        self.clients.get_mut(&id).into_iter().for_each(|client| client.may_tap |= may_tap);
    }

    /// Ends every feed's part of packets, while they still come: all pass, and the readers are told to use their kernel sockets.
    pub(crate) fn end_feeds(&mut self) -> Vec<(u32, Reply)> {
        for (interface, entry) in std::mem::take(&mut self.feeds.dropping) {
            self.dataplane.set_drop(interface, &entry, false).unwrap_or_else(say);
        }
        self.feeds.revoked(&Refusal::new(Code::NoControl, "cannot go on", "the control plane ends"))
    }

    /// Stores control's heartbeat where there are feeds; at most so often.
    pub(crate) fn beat(&mut self, now: Instant) {
        let is_due = self.feeds.beaten_at.is_none_or(|at| now.saturating_duration_since(at) >= BEAT);
        if !is_due || self.feeds.all.is_empty() {
            return;
        }
        self.feeds.beaten_at = Some(now);
        // Without it every packet passes, which its owner would ask for, too.
        self.dataplane.beat().unwrap_or_else(say);
    }

    /// Removes entries that their client's socket no longer proves a right to, and decides on all verdicts anew. Returns the clients
    /// to notify.
    pub(crate) fn check_feeds(&mut self, host: &dyn Host) -> Vec<(u32, Reply)> {
        let entries: BTreeSet<Entry> = self
            .feeds
            .all
            .values()
            .flat_map(|feed| feed.readers.values())
            .flat_map(|reader| reader.entries.keys().copied())
            .collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let receivers = Receivers::of_all(&entries, host);
        let mut notices = Vec::new();
        for (client, feed, entry, reason) in self.unproved(&receivers, host) {
            say(format!("{entry} is no longer copied for client {client}: {reason}"));
            let refusal = self.unsteer_feed(client, feed, &entry).err();
            refusal.into_iter().for_each(|refusal| say(refusal.to_string()));
            let told = FeedVerdict { feed, entry, verdict: None, reason: Some(reason) };
            notices.push((client, Reply::FeedVerdict(told)));
        }
        notices.extend(self.check_verdicts(&receivers, host));
        notices
    }

    /// The entries whose proof is gone: client, feed, entry, reason.
    fn unproved(&self, receivers: &Receivers, host: &dyn Host) -> Vec<(u32, u32, Entry, String)> {
        let mut lost = Vec::new();
        for (number, feed) in &self.feeds.all {
            for (client, reader) in &feed.readers {
                for (entry, wish) in &reader.entries {
                    let Some(twin) = &wish.twin else { continue };
                    let checked = self.check_proof_again(*client, feed.facts.index, entry, twin, (receivers, host));
                    lost.extend(checked.err().map(|refusal| (*client, *number, *entry, refusal.reason)));
                }
            }
        }
        lost
    }

    pub(super) fn unsteer_feed(&mut self, id: u32, feed: u32, entry: &Entry) -> Result<(), Refusal> {
        let thing = || format!("cannot end the copies of {entry}");
        let interface = self.feeds.of(id, feed)?.facts.index;
        if self.feeds.reader(id, feed)?.entries.remove(entry).is_none() {
            return Err(Refusal::plain(Code::NoEntry, thing()));
        }
        self.end_entry(feed, interface, entry).map_err(|problem| Refusal::of(Code::Kernel, thing(), &problem))
    }

    /// What a wish that was taken away has held up ends: its socket is another receiver now, so the packets pass until the next check.
    fn end_entry(&mut self, feed: u32, interface: u32, entry: &Entry) -> Result<(), sidestep_sys::Problem> {
        let passed = self.pass_feeds(interface, entry, "it is being checked who receives it");
        if !self.feeds.has(feed, entry) {
            self.dataplane.feed_take(feed, entry)?;
        }
        // An entry of no feed drops nothing.
        let is_gone = !self
            .feeds
            .all
            .iter()
            .any(|(other, found)| found.facts.index == interface && self.feeds.has(*other, entry));
        if is_gone {
            self.feeds.dropping.remove(&(interface, *entry));
            return Ok(());
        }
        passed
    }

    /// Ends a client's part of every feed.
    pub(in crate::registry) fn leave_feeds(&mut self, id: u32) {
        let own = self.feeds.all.iter().filter(|(_, feed)| feed.readers.contains_key(&id));
        let own: Vec<u32> = own.map(|(number, _)| *number).collect();
        own.into_iter().for_each(|feed| self.leave_feed(id, feed));
    }

    pub(super) fn leave_feed(&mut self, id: u32, feed: u32) {
        let Some(found) = self.feeds.all.get_mut(&feed) else { return };
        let interface = found.facts.index;
        let Some(Reader { entries, doorbells }) = found.readers.remove(&id) else { return };
        let is_last = found.readers.is_empty();
        for entry in entries.keys() {
            self.end_entry(feed, interface, entry).unwrap_or_else(say);
        }
        for slot in doorbells {
            self.dataplane.close_doorbell(feed, slot).unwrap_or_else(say);
        }
        if is_last && let Some(found) = self.feeds.all.remove(&feed) {
            self.feeds.remember(&found);
            self.close_feed(feed);
        }
    }

    pub(super) fn close_feed(&mut self, feed: u32) {
        if let Err(problem) = self.dataplane.close_feed(feed) {
            say(problem);
            self.feeds.doomed.insert(feed);
        }
    }

    /// Retries failed closings.
    pub(in crate::registry) fn close_doomed_feeds(&mut self) {
        std::mem::take(&mut self.feeds.doomed).into_iter().for_each(|feed| self.close_feed(feed));
    }

    /// Removes feeds that have lost their interface; returns the clients to notify.
    pub(in crate::registry) fn revoke_feeds(&mut self, links: &[Link]) -> Vec<(u32, Reply)> {
        let mut notices = Vec::new();
        for (feed, refusal) in self.dataplane.lost_feeds(links) {
            let Some(found) = self.feeds.all.remove(&feed) else { continue };
            say(format!("feed {feed} is closed: {}", refusal.reason));
            self.feeds.remember(&found);
            let interface = found.facts.index;
            for (client, Reader { entries, .. }) in &found.readers {
                let notice = FeedRevoked { feed, refusal: refusal.clone() };
                notices.push((*client, Reply::FeedRevoked(notice)));
                entries.keys().for_each(|entry| self.end_entry(feed, interface, entry).unwrap_or_else(say));
            }
            self.close_feed(feed);
        }
        notices
    }
}

#[cfg(test)]
impl Feeds {
    /// The number of feeds, and of entries in force as drops.
    pub(in crate::registry) fn counts(&self) -> (usize, usize) {
        (self.all.len(), self.dropping.len())
    }
}
