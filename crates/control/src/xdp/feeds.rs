//! Feeds in the program's tables.

use super::entry::ours;
use super::interface::Interface;
use super::socket::steerable;
use super::{Mode, Xdp};
use crate::dataplane::{FeedPlane, OpenedFeed};
use sidestep_control_api::message::{Code, Entry, FeedFacts, Refusal};
use sidestep_control_api::table::Link;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_xdp_steering::{FEED_CELLS, FeedId, Tables};
use std::os::fd::OwnedFd;

/// A feed on its interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedFeed {
    pub(super) interface: u32,
    id: FeedId,
    /// One for each receive queue that the interface had when it was opened.
    rings: u32,
}

/// The bytes of one ring in the map.
fn element_bytes() -> u64 {
    sidestep_kernel_ring::element_bytes(FEED_CELLS) as u64
}

impl Xdp {
    /// Refuses an interface that the administrator has not named.
    pub(super) fn refuse_unserved(&self, link: &Link, what: &str) -> Result<(), Refusal> {
        if self.served.is_empty() || self.served.contains(&link.name) {
            return Ok(());
        }
        Err(Refusal::plain(Code::InterfaceNotServed, format!("cannot open {what} on {}", link.name))
            .next(format!("serve it: sidestep control --interface {}", link.name)))
    }

    fn feed(&self, feed: u32) -> Result<(&Interface, FeedId), Refusal> {
        let placed = self.feeds.get(&feed);
        let found = placed.and_then(|placed| Some((self.interfaces.get(&placed.interface)?, placed.id)));
        found.ok_or_else(|| Refusal::plain(Code::Revoked, format!("cannot use feed {feed}")))
    }

    /// The tables of a feed's interface; `None` if feed or interface are gone, and with them everything in the tables.
    fn tables_of(&self, feed: u32) -> Option<(&Tables, FeedId)> {
        self.feed(feed).ok().map(|(interface, id)| (interface.steering.tables(), id))
    }
}

impl FeedPlane for Xdp {
    fn feed_size(&self, link: &Link) -> (u32, u64) {
        (steerable(link), element_bytes())
    }

    fn open_feed(&mut self, feed: u32, label: &str, link: &Link) -> Result<OpenedFeed, Refusal> {
        self.refuse_unserved(link, "a feed")?;
        let interface = self.program_on(link, Mode::ZeroCopy)?;
        let mode = interface.mode();
        // Only now: a device may have more queues with a program than without.
        let rings = steerable(link);
        let created = interface.steering.tables().feed_create(label, rings);
        let (id, map, map_id) = match created.and_then(|(id, map)| {
            let map_id = interface.steering.tables().feed_map_id(id)?;
            Ok((id, map, map_id))
        }) {
            Ok(created) => created,
            Err(problem) => {
                self.leave(link.index).unwrap_or_else(say);
                return Err(Refusal::of(Code::Kernel, format!("cannot open a feed on {}", link.name), &problem));
            }
        };
        self.feeds.insert(feed, PlacedFeed { interface: link.index, id, rings });
        let (cells, element_bytes) = (FEED_CELLS, element_bytes());
        let (interface, index) = (link.name.clone(), link.index);
        Ok(OpenedFeed { facts: FeedFacts { feed, interface, index, rings, cells, element_bytes, mode }, map, map_id })
    }

    fn feed_map(&self, feed: u32) -> Result<OwnedFd, Refusal> {
        let (interface, id) = self.feed(feed)?;
        let map = interface.steering.tables().feed_descriptor(id);
        map.map_err(|problem| Refusal::of(Code::Kernel, format!("cannot open feed {feed}"), &problem))
    }

    fn is_held(&self, map_id: u32) -> bool {
        sidestep_xdp_steering::is_map(map_id)
    }

    fn close_feed(&mut self, feed: u32) -> Result<(), Problem> {
        if let Some((tables, id)) = self.tables_of(feed) {
            tables.feed_remove(id)?;
        }
        match self.feeds.remove(&feed) {
            Some(placed) => self.leave(placed.interface),
            None => Ok(()),
        }
    }

    fn feed_add(&mut self, feed: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal> {
        let (interface, id) = self.feed(feed)?;
        let index = interface.steering.facts().ifindex;
        let is_upon = |link: &Link| link.vlan.is_some_and(|(parent, _)| parent == index);
        interface.refuse_unseen(entry, links.iter().any(is_upon))?;
        let added = interface.steering.tables().feed_add(id, &ours(entry));
        added.map_err(|problem| Refusal::of(Code::Kernel, format!("cannot copy {entry} into feed {feed}"), &problem))
    }

    fn feed_take(&mut self, feed: u32, entry: &Entry) -> Result<(), Problem> {
        let Some((tables, id)) = self.tables_of(feed) else { return Ok(()) };
        tables.feed_take(id, &ours(entry)).map(|_| ())
    }

    fn set_drop(&mut self, interface: u32, entry: &Entry, drops: bool) -> Result<(), Problem> {
        match self.interfaces.get(&interface) {
            Some(interface) => interface.steering.tables().set_drop(&ours(entry), drops),
            // Without the program everything passes.
            None if !drops => Ok(()),
            None => Err(Problem::failed(format!("cannot drop {entry}"), "its interface is gone")),
        }
    }

    fn open_doorbell(&mut self, feed: u32) -> Result<(u32, OwnedFd, OwnedFd), Refusal> {
        let (interface, id) = self.feed(feed)?;
        let made = interface.steering.tables().doorbell_create(id);
        made.map_err(|problem| Refusal::of(Code::Limit, format!("cannot make a doorbell of feed {feed}"), &problem))
    }

    fn close_doorbell(&mut self, feed: u32, slot: u32) -> Result<(), Problem> {
        self.tables_of(feed).map_or(Ok(()), |(tables, id)| tables.doorbell_remove(id, slot))
    }

    fn lost_feeds(&mut self, links: &[Link]) -> Vec<(u32, Refusal)> {
        let reason = |placed: &PlacedFeed| {
            let link = links.iter().find(|link| link.index == placed.interface);
            let Some(link) = link.filter(|_| self.interfaces.contains_key(&placed.interface)) else {
                return Some("the interface is gone, or its program was detached".to_owned());
            };
            let now = steerable(link);
            let was = placed.rings;
            (now != was).then(|| format!("{} receives by {now} queues, no longer by {was}", link.name))
        };
        let refuse = |(feed, placed): (&u32, &PlacedFeed)| {
            let refusal = Refusal::new(Code::Revoked, format!("cannot go on with feed {feed}"), reason(placed)?);
            Some((*feed, refusal))
        };
        self.feeds.iter().filter_map(refuse).collect()
    }

    fn beat(&self) -> Result<(), Problem> {
        let used = |index: &u32| self.feeds.values().any(|feed| feed.interface == *index);
        let interfaces = self.interfaces.iter().filter(|(index, _)| used(index));
        // One that fails keeps no other from it.
        let beaten: Vec<_> = interfaces.map(|(_, interface)| interface.steering.tables().control_beat()).collect();
        beaten.into_iter().collect()
    }
}
