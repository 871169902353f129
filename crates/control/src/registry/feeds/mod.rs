//! Feeds: rings that the steering program fills, and who may read them.
//!
//! Clients of one user that give the same name share a feed. Each has wishes of its own: entries with a verdict and the socket that proves
//! the right to them. A feed lives as long as one of its clients is connected; the memory stays mapped where it is.

mod lifetime;
mod limits;
mod proof;
mod verdict;

use super::open::usable_link;
use super::{Answer, Host, RecordStore, Registry};
use crate::dataplane::{Dataplane, OpenedFeed};
use crate::foreign::Foreign;
#[cfg(test)]
pub(super) use limits::FEEDS_PER_USER_MAX;
use limits::{DOORBELLS_PER_CLIENT_MAX, EntriesMax};
use sidestep_control_api::message::{
    Code, Entry, FEED_NAME_BYTES_MAX, FeedFacts, FeedLine, FeedVerdict, Protocol, Refusal, Reply, Request, Verdict,
};
use sidestep_sys::owner::Owner;
use sidestep_sys::problem::note;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The most feeds of a client in a list: its line has to fit a packet beside that of its stacks.
const LINES_MAX: usize = 8;

/// All feeds.
#[derive(Default)]
pub(super) struct Feeds {
    all: BTreeMap<u32, Feed>,
    last: u32,
    /// Entries whose packets may go nowhere else at present, each with the index of its interface.
    dropping: BTreeSet<(u32, Entry)>,
    /// Feeds whose closing failed; it is retried.
    doomed: BTreeSet<u32>,
    /// Closed feeds whose memory a client may still have.
    closed: Vec<Closed>,
    entries_max: EntriesMax,
    beaten_at: Option<Instant>,
}

/// One feed.
struct Feed {
    sharers: Sharers,
    facts: FeedFacts,
    map_id: u32,
    readers: BTreeMap<u32, Reader>,
}

impl Feed {
    /// The size of its rings.
    fn bytes(&self) -> u64 {
        self.facts.element_bytes.saturating_mul(self.facts.rings.into())
    }
}

/// The memory of a feed that was closed.
struct Closed {
    owner: Owner,
    bytes: u64,
    map_id: u32,
}

/// The clients that share a feed. A program with the right to taps shares none with one that lacks it, which would read the taps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sharers {
    owner: Owner,
    uid: u32,
    may_tap: bool,
    name: String,
}

/// A client's part of a feed.
#[derive(Default)]
struct Reader {
    entries: BTreeMap<Entry, Wish>,
    doorbells: BTreeSet<u32>,
}

/// What a client wants of an entry.
struct Wish {
    verdict: Verdict,
    /// The socket that proves the right; `None` for a tap.
    twin: Option<Foreign>,
    /// The verdict in force that the client knows of, and why it is not the one it wants.
    told: (Verdict, Option<String>),
}

impl Feeds {
    /// A feed that this client has open.
    fn of(&self, id: u32, feed: u32) -> Result<&Feed, Refusal> {
        let found = self.all.get(&feed).filter(|found| found.readers.contains_key(&id));
        found.ok_or_else(|| no_feed(feed))
    }

    fn reader(&mut self, id: u32, feed: u32) -> Result<&mut Reader, Refusal> {
        self.all.get_mut(&feed).and_then(|found| found.readers.get_mut(&id)).ok_or_else(|| no_feed(feed))
    }

    /// The entries for which any client wants a drop.
    fn wanting_drop(&self) -> BTreeSet<(u32, Entry)> {
        let of_feed = |feed: &Feed| {
            let wishes = feed.readers.values().flat_map(|reader| reader.entries.iter());
            let wanting = wishes.filter(|(_, wish)| wish.verdict == Verdict::Drop);
            wanting.map(|(entry, _)| (feed.facts.index, *entry)).collect::<Vec<_>>()
        };
        self.all.values().flat_map(of_feed).collect()
    }

    /// The feeds of a client, for lists.
    pub(super) fn lines(&self, id: u32) -> Vec<FeedLine> {
        let line = |(number, feed): (&u32, &Feed)| {
            Some(FeedLine {
                feed: *number,
                interface: feed.facts.interface.clone(),
                name: super::client::name(&feed.sharers.name),
                rings: feed.facts.rings,
                entries: feed.readers.get(&id)?.entries.len() as u32,
                readers: feed.readers.len() as u32,
            })
        };
        self.all.iter().filter_map(line).take(LINES_MAX).collect()
    }

    /// The entries of a client, for lists.
    pub(super) fn verdicts(&self, id: u32) -> Vec<FeedVerdict> {
        let own = self.all.iter().filter_map(|(number, feed)| Some((*number, feed.readers.get(&id)?)));
        let line = |feed: u32, entry: &Entry, wish: &Wish| {
            let (verdict, reason) = wish.told.clone();
            FeedVerdict { feed, entry: *entry, verdict: Some(verdict), reason }
        };
        own.flat_map(|(feed, reader)| reader.entries.iter().map(move |(entry, wish)| line(feed, entry, wish))).collect()
    }
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Answers a request about feeds.
    pub(super) fn answer_feed(
        &mut self,
        id: u32,
        request: Request,
        descriptors: Vec<Foreign>,
        host: &dyn Host,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::OpenFeed { interface, name } => self.open_feed(id, &interface, &name, host),
            Request::SteerFeed { feed, entry, verdict } => {
                self.steer_feed(id, feed, entry.canonical(), verdict, descriptors, host)
            }
            Request::UnsteerFeed { feed, entry } => {
                self.unsteer_feed(id, feed, &entry.canonical())?;
                Ok(self.when_closed(id, now))
            }
            Request::OpenDoorbell { feed } => self.open_doorbell(id, feed),
            Request::CloseFeed { feed } => {
                self.feeds.of(id, feed)?;
                self.leave_feed(id, feed);
                Ok(self.when_closed(id, now))
            }
            _ => Err(Refusal::plain(Code::Malformed, "cannot answer")),
        }
    }

    fn open_feed(&mut self, id: u32, interface: &str, name: &str, host: &dyn Host) -> Result<Answer, Refusal> {
        let thing = format!("cannot open a feed on {}", super::client::name(interface));
        if name.len() > FEED_NAME_BYTES_MAX {
            let reason = format!("the name of a feed has at most {FEED_NAME_BYTES_MAX} bytes");
            return Err(Refusal::new(Code::Malformed, thing, reason));
        }
        if self.is_ending {
            return Err(Refusal::new(Code::NoControl, thing, "the control plane ends"));
        }
        let link = usable_link(host.links(), interface, &thing)?;
        let sharers = self.sharers(id, name);
        if let Some(feed) = self.feed_to_share(&sharers, link.index) {
            let map = self.dataplane.feed_map(feed)?;
            let found = self.feeds.all.get_mut(&feed).ok_or_else(|| no_feed(feed))?;
            found.readers.entry(id).or_default();
            return Ok(Answer { descriptors: vec![map], ..Answer::plain(Reply::Feed(found.facts.clone())) });
        }
        let (plane, closed) = (&self.dataplane, &mut self.feeds.closed);
        closed.retain(|feed| plane.is_held(feed.map_id));
        let (rings, bytes) = self.dataplane.feed_size(link);
        self.feeds.check_size(sharers.owner, link.index, bytes.saturating_mul(rings.into()), &thing)?;
        let number = self.free_feed();
        let label = format!("#{number} user {}", sharers.uid);
        let OpenedFeed { facts, map, map_id } = self.dataplane.open_feed(number, &label, link)?;
        // A device may have more queues with a program than without.
        let bytes = facts.element_bytes.saturating_mul(facts.rings.into());
        if let Err(refusal) = self.feeds.check_size(sharers.owner, link.index, bytes, &thing) {
            self.close_feed(number);
            return Err(refusal);
        }
        note(format!("feed {number}: {} rings on {} for user {}", facts.rings, facts.interface, sharers.uid));
        self.feeds.last = number;
        let readers = BTreeMap::from([(id, Reader::default())]);
        self.feeds.all.insert(number, Feed { sharers, facts: facts.clone(), map_id, readers });
        Ok(Answer { descriptors: vec![map], ..Answer::plain(Reply::Feed(facts)) })
    }

    /// A number that no feed has, one that is still to be closed neither.
    fn free_feed(&self) -> u32 {
        let Feeds { all, doomed, last, .. } = &self.feeds;
        let mut numbers = (last.saturating_add(1)..=u32::MAX).chain(1..=u32::MAX);
        numbers.find(|number| !all.contains_key(number) && !doomed.contains(number)).unwrap_or(u32::MAX)
    }

    fn sharers(&self, id: u32, name: &str) -> Sharers {
        let may_tap = self.clients.get(&id).is_some_and(|client| client.may_tap);
        Sharers { owner: self.owner(id), uid: self.uid(id), may_tap, name: name.to_owned() }
    }

    /// The feed that these clients share on an interface, if there is one.
    fn feed_to_share(&self, sharers: &Sharers, interface: u32) -> Option<u32> {
        // Processes of unknown users are not known to be of one.
        if sharers.name.is_empty() || sharers.owner == Owner::Unknown {
            return None;
        }
        let is_it = |feed: &Feed| feed.sharers == *sharers && feed.facts.index == interface;
        self.feeds.all.iter().find(|(_, feed)| is_it(feed)).map(|(number, _)| *number)
    }

    fn steer_feed(
        &mut self,
        id: u32,
        feed: u32,
        entry: Entry,
        verdict: Verdict,
        mut descriptors: Vec<Foreign>,
        host: &dyn Host,
    ) -> Result<Answer, Refusal> {
        let interface = self.feeds.of(id, feed)?.facts.index;
        let thing = || format!("cannot copy {entry} into feed {feed}");
        if let Some(fault) = entry.fault() {
            return Err(Refusal::new(Code::Malformed, thing(), fault));
        }
        if verdict == Verdict::Drop && entry.protocol() == Protocol::Tcp {
            let reason = "a segment that is dropped comes again: only datagrams may go nowhere else";
            return Err(Refusal::new(Code::Malformed, thing(), reason).next("ask for the verdict pass"));
        }
        let address = entry.local().ip();
        if !address.is_unspecified() && !address.is_multicast() && !host.is_local(address) {
            return Err(Refusal::plain(Code::NotLocal, thing()).next("see the addresses with: ip address"));
        }
        let twin = descriptors.pop();
        if !descriptors.is_empty() {
            return Err(Refusal::new(Code::Malformed, thing(), "one kernel socket at most comes with an entry"));
        }
        match &twin {
            Some(twin) => self.check_proof(id, interface, &entry, twin, host)?,
            None => self.check_tap(id, verdict, &thing())?,
        }
        if !self.feeds.reader(id, feed)?.entries.contains_key(&entry) {
            self.feeds.check_entries(self.owner(id), &entry)?;
        }
        self.dataplane.feed_add(feed, &entry, host.links())?;
        let wish = Wish { verdict, twin, told: (Verdict::Pass, None) };
        // A wish that is replaced has another socket: the first one may count as a receiver from now on.
        self.feeds.reader(id, feed)?.entries.insert(entry, wish);
        let (verdict, reason) = match verdict {
            Verdict::Drop => self.decide(interface, &entry, host),
            Verdict::Pass => {
                let failed = |problem| Refusal::of(Code::Kernel, thing(), &problem);
                self.pass_feeds(interface, &entry, "another reader of a feed wants it to pass").map_err(failed)?;
                (Verdict::Pass, None)
            }
        };
        if let Some(wish) = self.feeds.reader(id, feed)?.entries.get_mut(&entry) {
            wish.told = (verdict, reason.clone());
        }
        Ok(Answer::plain(Reply::FeedSteered { verdict, reason }))
    }

    /// Refuses traffic without a socket that receives it.
    fn check_tap(&self, id: u32, verdict: Verdict, thing: &str) -> Result<(), Refusal> {
        if !self.clients.get(&id).is_some_and(|client| client.may_tap) {
            let next = "send the socket that receives it, or have the administrator name a group: sidestep control --allow-tap-gid";
            return Err(Refusal::plain(Code::NoTap, thing).next(next));
        }
        if verdict == Verdict::Drop {
            let reason = "without a socket that receives it, it is not known whom a drop would deprive";
            return Err(Refusal::new(Code::TwinMissing, thing, reason).next("ask for the verdict pass"));
        }
        Ok(())
    }

    fn open_doorbell(&mut self, id: u32, feed: u32) -> Result<Answer, Refusal> {
        if self.feeds.reader(id, feed)?.doorbells.len() >= DOORBELLS_PER_CLIENT_MAX {
            let reason = format!("a program has at most {DOORBELLS_PER_CLIENT_MAX} of a feed");
            return Err(Refusal::new(Code::Limit, format!("cannot make a doorbell of feed {feed}"), reason));
        }
        let (slot, flag_page, ring_buffer) = self.dataplane.open_doorbell(feed)?;
        self.feeds.reader(id, feed)?.doorbells.insert(slot);
        Ok(Answer { descriptors: vec![flag_page, ring_buffer], ..Answer::plain(Reply::Doorbell) })
    }
}

fn no_feed(feed: u32) -> Refusal {
    Refusal::plain(Code::NoFeed, format!("cannot use feed {feed}"))
}
