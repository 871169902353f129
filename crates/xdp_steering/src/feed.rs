//! Feeds: rings into which the program copies the packets of entries, one for each receive queue.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};
use sidestep_kernel_ring::RingMap;
use sidestep_sys::Problem;

use crate::entry::{Key, MapEntry, Table, entry_of};
use crate::layout::{
    DOORBELLS_MAX, FEED_CELLS, FEEDS_MAX, LABEL_BYTES, NONE_IN_RING_FLOWS, NONE_IN_RING_GROUPS, NONE_IN_RING_LISTENERS,
    QUEUES_MAX, config, doorbell, feed_row, feed_set, put, ring_state, take,
};
use crate::stack::{absent_is_fine, monotonic_ns};
use crate::tables::{Tables, kinds_of};

/// The number of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedId(u32);

impl FeedId {
    /// The number, from 0.
    pub fn number(self) -> u32 {
        self.0
    }

    fn key(self) -> [u8; 4] {
        self.0.to_ne_bytes()
    }

    fn bit(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Display for FeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "feed {}", self.0)
    }
}

/// A feed that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedFacts {
    /// Its number.
    pub id: FeedId,
    /// The label.
    pub label: String,
    /// The number of rings.
    pub rings: u32,
    /// Packets in each ring since it was made.
    pub published: Vec<u64>,
    /// Packets that are in no ring: longer than [`RING_PACKET_BYTES_MAX`](crate::RING_PACKET_BYTES_MAX), in buffers that cannot be read,
    /// or come while another CPU wrote the ring. The rings' headers say it to the readers.
    pub dropped: u64,
}

/// An entry of feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// The packets.
    pub entry: MapEntry,
    /// The feeds that get them.
    pub feeds: Vec<FeedId>,
    /// True if nobody else gets them, as long as control's heartbeat is fresh.
    pub drops: bool,
}

impl Tables {
    /// Makes a feed of this many rings, the one of queue 0 first; returns the descriptor of their memory, which any holder
    /// can map read-only ([`sidestep_kernel_ring::RingMap`], rings of [`FEED_CELLS`]).
    pub fn feed_create(&self, label: &str, rings: u32) -> Result<(FeedId, OwnedFd), Problem> {
        let what = || format!("cannot make a feed for {label}");
        let failed = |error: &dyn fmt::Display| Problem::failed(what(), error).next("run as root: it needs CAP_BPF");
        if rings == 0 || rings > QUEUES_MAX {
            return Err(Problem::failed(
                what(),
                format!("the device has {rings} receive queues, not 1 to {QUEUES_MAX}"),
            )
            .next("change their number: ethtool -L DEV combined N"));
        }
        let id = self.free_feed()?.ok_or_else(|| {
            Problem::failed(what(), format!("an interface has at most {FEEDS_MAX} feeds"))
                .next("share one by its name, or end a reader; sidestep ps lists them")
        })?;
        let memory = RingMap::create(&format!("step_feed_{}", id.0), rings, FEED_CELLS)?;
        let descriptor = memory.fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        for queue in 0..QUEUES_MAX {
            self.write_state(id, queue, &[0; ring_state::BYTES]).map_err(|error| failed(&error))?;
        }
        let number = memory.fd().as_raw_fd().cast_unsigned().to_ne_bytes();
        self.maps.feed_rings.update(&id.key(), &number, MapFlags::ANY).map_err(|error| failed(&error))?;
        let mut row = [0; feed_row::BYTES];
        put(&mut row, feed_row::LIVE, &1_u32.to_ne_bytes());
        put(&mut row, feed_row::RINGS, &rings.to_ne_bytes());
        put(&mut row, feed_row::LABEL, &label.as_bytes()[..label.len().min(LABEL_BYTES)]);
        self.maps.feeds.update(&id.key(), &row, MapFlags::ANY).map_err(|error| failed(&error))?;
        Ok((id, descriptor))
    }

    /// Removes a feed with its entries and doorbells. What readers have mapped stays theirs, and nothing is written to it
    /// any more. An interrupted removal is completed by the next call.
    pub fn feed_remove(&self, feed: FeedId) -> Result<(), Problem> {
        let failed = |error: libbpf_rs::Error| Problem::failed(format!("cannot remove {feed}"), error);
        let mut row = self.feed_row(feed)?;
        for FeedEntry { entry, .. } in self.feed_entries()?.into_iter().filter(|found| found.feeds.contains(&feed)) {
            self.feed_take(feed, &entry)?;
        }
        put(&mut row, feed_row::LIVE, &[0; 4]);
        self.maps.feeds.update(&feed.key(), &row, MapFlags::ANY).map_err(failed)?;
        for slot in 0..DOORBELLS_MAX {
            self.doorbell_remove(feed, slot)?;
        }
        absent_is_fine(self.maps.feed_rings.delete(&feed.key())).map_err(failed)?;
        self.maps.feeds.update(&feed.key(), &[0; feed_row::BYTES], MapFlags::ANY).map_err(failed)
    }

    /// Marks the ring of a queue as being written, or not.
    pub(crate) fn mark_busy(&self, feed: FeedId, queue: u32, is_busy: bool) -> Result<(), Problem> {
        let failed = |why: &dyn fmt::Display| Problem::failed(format!("cannot mark a ring of {feed}"), why);
        let state =
            self.maps.ring_states.lookup(&state_key(feed, queue), MapFlags::ANY).map_err(|error| failed(&error))?;
        let mut state = state.ok_or_else(|| failed(&"it has none of this queue"))?;
        put(&mut state, ring_state::BUSY, &u64::from(is_busy).to_ne_bytes());
        self.write_state(feed, queue, &state).map_err(|error| failed(&error))
    }

    /// Every feed that exists.
    pub fn feeds(&self) -> Result<Vec<FeedFacts>, Problem> {
        (0..FEEDS_MAX).map(|number| self.feed_facts(FeedId(number))).filter_map(Result::transpose).collect()
    }

    /// One feed; `None` if it does not exist.
    pub fn feed_facts(&self, feed: FeedId) -> Result<Option<FeedFacts>, Problem> {
        let row = self.feed_row(feed)?;
        if take::<4>(&row, feed_row::LIVE) == [0; 4] {
            return Ok(None);
        }
        let rings = u32::from_ne_bytes(take(&row, feed_row::RINGS)).min(QUEUES_MAX);
        let label = take::<LABEL_BYTES>(&row, feed_row::LABEL);
        let label = String::from_utf8_lossy(&label).trim_end_matches('\0').to_owned();
        let (mut published, mut dropped) = (Vec::new(), 0_u64);
        for queue in 0..rings {
            let state = self.maps.ring_states.lookup(&state_key(feed, queue), MapFlags::ANY);
            let state = state.map_err(|error| Problem::failed(format!("cannot read the rings of {feed}"), error))?;
            let word = |at| state.as_ref().map_or(0, |state| u64::from_ne_bytes(take(state, at)));
            published.push(word(ring_state::SEQUENCE));
            dropped = dropped.saturating_add(word(ring_state::DROPPED)).saturating_add(word(ring_state::REFUSED));
        }
        Ok(Some(FeedFacts { id: feed, label, rings, published, dropped }))
    }

    /// The descriptor that [`Self::feed_create`] returned, opened again.
    pub fn feed_descriptor(&self, feed: FeedId) -> Result<OwnedFd, Problem> {
        let problem = |why: String| Problem::failed(format!("cannot open the rings of {feed}"), why);
        let map = MapHandle::from_map_id(self.feed_map_id(feed)?);
        let map = map.map_err(|error| problem(error.to_string()))?;
        map.as_fd().try_clone_to_owned().map_err(|error| problem(error.to_string()))
    }

    /// The number that the kernel has given to the rings of a feed: see [`is_map`].
    pub fn feed_map_id(&self, feed: FeedId) -> Result<u32, Problem> {
        let problem = |why: String| Problem::failed(format!("cannot look up the rings of {feed}"), why);
        let id = self.maps.feed_rings.lookup(&feed.key(), MapFlags::ANY).map_err(|error| problem(error.to_string()))?;
        let id = id.ok_or_else(|| problem("there is no such feed".to_owned()))?;
        Ok(u32::from_ne_bytes(take(&id, 0)))
    }

    /// Has packets copied into a feed. All entries that match a packet count, not only the most specific one. A new entry passes them
    /// on; one that others have keeps its verdict. A repetition changes nothing.
    pub fn feed_add(&self, feed: FeedId, entry: &MapEntry) -> Result<(), Problem> {
        let what = || format!("cannot copy {entry} into {feed}");
        entry.check()?;
        if self.feed_facts(feed)?.is_none() {
            return Err(Problem::failed(what(), "there is no such feed").next("open one"));
        }
        let (feeds, drops) = self.feed_set(entry)?;
        let table = match entry {
            MapEntry::Flow(_) => NONE_IN_RING_FLOWS,
            MapEntry::Listener(_) => NONE_IN_RING_LISTENERS,
            MapEntry::Group(_) => NONE_IN_RING_GROUPS,
        };
        self.look_for_kinds(kinds_of(entry) | table)?;
        self.write_feed_set(entry, feeds | feed.bit(), drops)
    }

    /// Ends the copies of an entry into a feed; `false` if there are none.
    pub fn feed_take(&self, feed: FeedId, entry: &MapEntry) -> Result<bool, Problem> {
        let (feeds, drops) = self.feed_set(entry)?;
        if feeds & feed.bit() == 0 {
            return Ok(false);
        }
        if feeds != feed.bit() {
            return self.write_feed_set(entry, feeds & !feed.bit(), drops).map(|()| true);
        }
        let key = Key::from(entry);
        absent_is_fine(self.maps.of_rings(key.table()).delete(key.bytes()))
            .map_err(|error| Problem::failed(format!("cannot end the copies of {entry}"), error))?;
        Ok(true)
    }

    /// Sets whether the feeds of an entry have its packets for themselves; fails if no feed has it.
    pub fn set_drop(&self, entry: &MapEntry, drops: bool) -> Result<(), Problem> {
        match self.feed_set(entry)? {
            (0, _) => Err(Problem::failed(format!("cannot drop {entry}"), "no feed has it")),
            (_, found) if found == drops => Ok(()),
            (feeds, _) => self.write_feed_set(entry, feeds, drops),
        }
    }

    /// Every entry of feeds, in no order.
    pub fn feed_entries(&self) -> Result<Vec<FeedEntry>, Problem> {
        let mut entries = Vec::new();
        for table in [Table::Flows, Table::Listeners, Table::Groups] {
            let map = self.maps.of_rings(table);
            let keys: Vec<_> = map.keys().take(map.max_entries() as usize).collect();
            for entry in keys.iter().filter_map(|key| entry_of(table, key)) {
                let (feeds, drops) = self.feed_set(&entry)?;
                let feeds = (0..FEEDS_MAX).map(FeedId).filter(|feed| feeds & feed.bit() != 0).collect();
                entries.push(FeedEntry { entry, feeds, drops });
            }
        }
        Ok(entries)
    }

    /// Makes a doorbell for a reader that sleeps: its number, the page with the word that the reader sets before it sleeps
    /// (mapped shared, read and write), and the BPF ring buffer that becomes readable when a packet has come.
    pub fn doorbell_create(&self, feed: FeedId) -> Result<(u32, OwnedFd, OwnedFd), Problem> {
        let what = || format!("cannot make a doorbell of {feed}");
        let failed = |error: &dyn fmt::Display| Problem::failed(what(), error).next("run as root: it needs CAP_BPF");
        let mut row = self.feed_row(feed)?;
        if take::<4>(&row, feed_row::LIVE) == [0; 4] {
            return Err(Problem::failed(what(), "there is no such feed"));
        }
        let bells = u64::from_ne_bytes(take(&row, feed_row::DOORBELLS));
        let slot = (0..DOORBELLS_MAX).find(|slot| bells & 1 << slot == 0).ok_or_else(|| {
            Problem::failed(what(), format!("a feed has at most {DOORBELLS_MAX} readers that sleep"))
                .next("poll this one, or open a feed of another name")
        })?;
        let page = new_page(feed, slot).map_err(|error| failed(&error))?;
        let ring = new_ring(feed, slot).map_err(|error| failed(&error))?;
        let key = bell_key(feed, slot);
        let set = |map: &MapHandle, value: &MapHandle| {
            let number = value.as_fd().as_raw_fd().cast_unsigned().to_ne_bytes();
            map.update(&key, &number, MapFlags::ANY).map_err(|error| failed(&error))
        };
        set(&self.maps.doorbell_rings, &ring)?;
        set(&self.maps.doorbells, &page)?;
        put(&mut row, feed_row::DOORBELLS, &(bells | 1 << slot).to_ne_bytes());
        self.maps.feeds.update(&feed.key(), &row, MapFlags::ANY).map_err(|error| failed(&error))?;
        let descriptor = |map: &MapHandle| map.as_fd().try_clone_to_owned().map_err(|error| failed(&error));
        Ok((slot, descriptor(&page)?, descriptor(&ring)?))
    }

    /// Removes a doorbell, if it is there.
    pub fn doorbell_remove(&self, feed: FeedId, slot: u32) -> Result<(), Problem> {
        let failed = |error: libbpf_rs::Error| Problem::failed(format!("cannot remove a doorbell of {feed}"), error);
        let mut row = self.feed_row(feed)?;
        let bells = u64::from_ne_bytes(take(&row, feed_row::DOORBELLS));
        if slot >= DOORBELLS_MAX || bells & 1 << slot == 0 {
            return Ok(());
        }
        put(&mut row, feed_row::DOORBELLS, &(bells & !(1 << slot)).to_ne_bytes());
        self.maps.feeds.update(&feed.key(), &row, MapFlags::ANY).map_err(failed)?;
        let key = bell_key(feed, slot);
        absent_is_fine(self.maps.doorbells.delete(&key)).map_err(failed)?;
        absent_is_fine(self.maps.doorbell_rings.delete(&key)).map_err(failed)
    }

    /// Stores control's heartbeat: without a fresh one (see [`Self::set_deadline`]) no feed has a packet for itself.
    pub fn control_beat(&self) -> Result<(), Problem> {
        let now = monotonic_ns().to_ne_bytes();
        self.change_config(|bytes| put(bytes, config::CONTROL_BEAT_NS, &now))
    }

    fn free_feed(&self) -> Result<Option<FeedId>, Problem> {
        for id in (0..FEEDS_MAX).map(FeedId) {
            if self.feed_facts(id)?.is_none() {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn feed_row(&self, feed: FeedId) -> Result<Vec<u8>, Problem> {
        let row = self.maps.feeds.lookup(&feed.key(), MapFlags::ANY);
        let row = row.map_err(|error| Problem::failed(format!("cannot look {feed} up"), error))?;
        Ok(row.unwrap_or_else(|| vec![0; feed_row::BYTES]))
    }

    fn write_state(&self, feed: FeedId, queue: u32, state: &[u8]) -> libbpf_rs::Result<()> {
        self.maps.ring_states.update(&state_key(feed, queue), state, MapFlags::ANY)
    }

    /// The set of feeds of an entry, empty if it has none, and its verdict.
    fn feed_set(&self, entry: &MapEntry) -> Result<(u64, bool), Problem> {
        let key = Key::from(entry);
        let found = self.maps.of_rings(key.table()).lookup(key.bytes(), MapFlags::ANY);
        let found = found.map_err(|error| Problem::failed(format!("cannot look {entry} up"), error))?;
        Ok(found.map_or((0, false), |set| {
            (u64::from_ne_bytes(take(&set, feed_set::FEEDS)), take::<4>(&set, feed_set::DROPS) != [0; 4])
        }))
    }

    fn write_feed_set(&self, entry: &MapEntry, feeds: u64, drops: bool) -> Result<(), Problem> {
        let mut set = [0; feed_set::BYTES];
        put(&mut set, feed_set::FEEDS, &feeds.to_ne_bytes());
        put(&mut set, feed_set::DROPS, &u32::from(drops).to_ne_bytes());
        let key = Key::from(entry);
        let map = self.maps.of_rings(key.table());
        map.update(key.bytes(), &set, MapFlags::ANY).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::TooBig => format!("feeds of an interface have at most {} of this kind", map.max_entries()),
                _ => error.to_string(),
            };
            Problem::failed(format!("cannot copy {entry} into rings"), why).next("close others")
        })
    }
}

/// Returns whether the kernel has a BPF map of this number: it goes with the last one who has it open or mapped.
pub fn is_map(id: u32) -> bool {
    MapHandle::from_map_id(id).is_ok()
}

fn state_key(feed: FeedId, queue: u32) -> [u8; 4] {
    (feed.0 * QUEUES_MAX + queue).to_ne_bytes()
}

fn bell_key(feed: FeedId, slot: u32) -> [u8; 4] {
    (feed.0 * DOORBELLS_MAX + slot).to_ne_bytes()
}

fn new_page(feed: FeedId, slot: u32) -> libbpf_rs::Result<MapHandle> {
    let sz = size_of::<bpf_map_create_opts>() as _;
    let options = bpf_map_create_opts { sz, map_flags: BPF_F_MMAPABLE, ..Default::default() };
    let name = format!("step_bell_{}_{slot}", feed.0);
    MapHandle::create(MapType::Array, Some(name), 4, doorbell::BYTES as u32, 1, &options)
}

fn new_ring(feed: FeedId, slot: u32) -> libbpf_rs::Result<MapHandle> {
    let options = bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
    let name = format!("step_rb_{}_{slot}", feed.0);
    // The smallest one.
    MapHandle::create(MapType::RingBuf, Some(name), 0, 0, sidestep_sys::memory::page_bytes() as u32, &options)
}
