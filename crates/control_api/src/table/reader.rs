//! The reading side: any number of unprivileged processes.

use super::layout::{
    ADDRESSES, ALIVE_AT, COUNT, GENERATION_AT, HASH_AT, INCOMPLETE, LAYOUT_HASH, LINKS, MAGIC, MAGIC_AT, NAMESPACE_AT,
    NEIGHBOURS, ROUTES, SECTION_HEADER, Section, TABLE_WORDS,
};
use super::record::{Address, Link, Neighbour, Record, Route};
use super::{Incomplete, seqlock};
use sidestep_sys::Problem;
use sidestep_sys::words::WordsView;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The most retries of a snapshot because the tables changed between two of its sections.
const SNAPSHOTS_MAX: usize = 16;

/// A consistent copy of the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The value of [`Reader::generation`]; while it is unchanged, resolved routes stay valid.
    pub generation: u64,
    /// Interfaces, by index.
    pub links: Vec<Link>,
    /// Addresses of this host.
    pub addresses: Vec<Address>,
    /// Routes; the next hops of one route are consecutive.
    pub routes: Vec<Route>,
    /// Neighbours.
    pub neighbours: Vec<Neighbour>,
    /// The reason why a miss in `links` or `addresses` proves nothing.
    pub hosts_incomplete: Incomplete,
    /// The reason why a miss in `routes`, or a match, proves nothing.
    pub routes_incomplete: Incomplete,
    /// The reason why a miss in `neighbours` proves nothing.
    pub neighbours_incomplete: Incomplete,
}

/// No consistent copy is available: the writer died during a change, or changes the tables all the time. The kernel
/// path must be used; "no route" would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the shared tables are inconsistent: their writer died during a change, or does not stop changing them",
        )
    }
}

impl std::error::Error for Unknown {}

/// A read-only view of the tables.
#[derive(Debug)]
pub struct Reader(WordsView);

impl Reader {
    /// Maps the table that control has handed over.
    pub fn open(file: BorrowedFd<'_>) -> Result<Self, Problem> {
        let words = WordsView::open(file, TABLE_WORDS)?;
        let header = [words.load(MAGIC_AT, Acquire), words.load(HASH_AT, Relaxed)];
        if header != [MAGIC, LAYOUT_HASH] {
            return Err(Problem::failed("cannot use the shared table", "it has another layout")
                .next("restart the control plane and the program from the same version of sidestep"));
        }
        Ok(Self(words))
    }

    /// The generation. It changes whenever a resolved route may have become invalid. One load: cheap enough for every
    /// packet.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Partner: the Release store of the writer, after it has changed a section.
        self.0.load(GENERATION_AT, Acquire)
    }

    /// The writer's last heartbeat: CLOCK_MONOTONIC, nanoseconds; 0 before the first one.
    pub fn alive_ns(&self) -> u64 {
        self.0.load(ALIVE_AT, Relaxed)
    }

    /// The inode of the network namespace that the tables describe.
    pub fn namespace(&self) -> u64 {
        self.0.load(NAMESPACE_AT, Relaxed)
    }

    /// Makes a consistent copy of the tables in `into`, whose memory is reused. It takes microseconds to milliseconds,
    /// so it is for changes of the generation, not for every packet.
    pub fn snapshot(&self, into: &mut Snapshot) -> Result<(), Unknown> {
        for _ in 0..SNAPSHOTS_MAX {
            into.generation = self.generation();
            let links = self.section(LINKS, &mut into.links)?;
            let addresses = self.section(ADDRESSES, &mut into.addresses)?;
            into.hosts_incomplete = links.or(addresses);
            into.routes_incomplete = self.section(ROUTES, &mut into.routes)?;
            into.neighbours_incomplete = self.section(NEIGHBOURS, &mut into.neighbours)?;
            if self.generation() == into.generation {
                return Ok(());
            }
        }
        Err(Unknown)
    }

    fn section<R: Record>(&self, section: Section, into: &mut Vec<R>) -> Result<Incomplete, Unknown> {
        let words = &self.0;
        let copied = seqlock::read(words, section.at, || {
            let count = words.load(section.at + COUNT, Relaxed);
            // A torn or hostile count: bounded here, discarded by the lock or detected below.
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(section.capacity);
            let first = section.at + SECTION_HEADER;
            let raw: Vec<u64> = (first..first + count * R::WORDS).map(|index| words.load(index, Relaxed)).collect();
            (raw, words.load(section.at + INCOMPLETE, Relaxed))
        });
        let (raw, incomplete) = copied.ok_or(Unknown)?;
        into.clear();
        into.extend(raw.chunks_exact(R::WORDS).filter_map(R::decode));
        let is_sound = into.len() * R::WORDS == raw.len();
        Ok(if is_sound { Incomplete::of(incomplete) } else { Incomplete::Unreadable })
    }
}
