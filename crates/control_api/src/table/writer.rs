//! The writing side, in the control plane.

use super::layout::{
    ADDRESSES, ALIVE_AT, COUNT, GENERATION_AT, HASH_AT, INCOMPLETE, LAYOUT_HASH, LINKS, MAGIC, MAGIC_AT, NAMESPACE_AT,
    NEIGHBOURS, PID_AT, ROUTES, SECTION_HEADER, Section, TABLE_WORDS,
};
use super::memory::{Load, Store};
use super::record::{Address, Link, Neighbour, Record, Route};
use super::{Incomplete, seqlock};
use sidestep_sys::Problem;
use sidestep_sys::words::{Words, Writers};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};

/// The one writer of a table.
#[derive(Debug)]
pub struct Writer {
    words: Words,
    file: OwnedFd,
}

impl Writer {
    /// Makes an empty table, marked as not read yet; `namespace` is the inode of the network namespace that it
    /// describes.
    pub fn create(namespace: u64) -> Result<Self, Problem> {
        let (words, file) = Words::create("sidestep-table", TABLE_WORDS, Writers::Maker).map_err(|error| {
            Problem::failed("cannot make the shared table", error).next("free some memory; it needs half a megabyte")
        })?;
        for section in [LINKS, ADDRESSES, ROUTES, NEIGHBOURS] {
            words.store(section.at + INCOMPLETE, Incomplete::NotRead as u64, Relaxed);
        }
        words.store(HASH_AT, LAYOUT_HASH, Relaxed);
        words.store(PID_AT, u64::from(std::process::id()), Relaxed);
        words.store(NAMESPACE_AT, namespace, Relaxed);
        words.store(MAGIC_AT, MAGIC, Release);
        Ok(Self { words, file })
    }

    /// The file for readers: it can be mapped for reading only.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes a heartbeat: CLOCK_MONOTONIC, nanoseconds.
    pub fn beat(&self, now_ns: u64) {
        self.words.store(ALIVE_AT, now_ns, Relaxed);
    }

    /// Replaces the interfaces. Returns whether anything changed that a resolved route depends on, as the other setters
    /// do.
    pub fn set_links(&mut self, links: &[Link], incomplete: Incomplete) -> bool {
        self.set(LINKS, links, incomplete)
    }

    /// Replaces the addresses.
    pub fn set_addresses(&mut self, addresses: &[Address], incomplete: Incomplete) -> bool {
        self.set(ADDRESSES, addresses, incomplete)
    }

    /// Replaces the routes; the next hops of one route are consecutive.
    pub fn set_routes(&mut self, routes: &[Route], incomplete: Incomplete) -> bool {
        self.set(ROUTES, routes, incomplete)
    }

    /// Replaces the neighbours.
    pub fn set_neighbours(&mut self, neighbours: &[Neighbour], incomplete: Incomplete) -> bool {
        self.set(NEIGHBOURS, neighbours, incomplete)
    }

    fn set<R: Record>(&mut self, section: Section, records: &[R], incomplete: Incomplete) -> bool {
        let fitting = &records[..records.len().min(section.capacity)];
        let incomplete = if fitting.len() < records.len() { Incomplete::Overflowed } else { incomplete };
        let changes = self.changes(section, fitting, incomplete);
        if changes.stores.is_empty() {
            return false;
        }
        seqlock::write(&self.words, section.at, || {
            changes.stores.iter().for_each(|(index, value)| self.words.store(*index, *value, Relaxed));
        });
        if changes.is_material {
            // After the section: a reader that loads the new number reads the new section. Only this thread stores.
            let generation = self.words.load(GENERATION_AT, Relaxed);
            self.words.store(GENERATION_AT, generation.wrapping_add(1), Release);
        }
        changes.is_material
    }

    /// The words to store, found before readers are disturbed.
    fn changes<R: Record>(&self, section: Section, records: &[R], incomplete: Incomplete) -> Changes {
        let mut changes = Changes::default();
        changes.note(&self.words, section.at + COUNT, records.len() as u64, u64::MAX);
        changes.note(&self.words, section.at + INCOMPLETE, incomplete as u64, u64::MAX);
        let mut words = vec![0; R::WORDS];
        for (number, record) in records.iter().enumerate() {
            record.encode(&mut words);
            let at = section.at + SECTION_HEADER + number * R::WORDS;
            for (index, value) in words.iter().enumerate() {
                changes.note(&self.words, at + index, *value, R::material_bits(index));
            }
        }
        changes
    }
}

/// Words whose value changes.
#[derive(Default)]
struct Changes {
    stores: Vec<(usize, u64)>,
    is_material: bool,
}

impl Changes {
    fn note(&mut self, words: &Words, index: usize, value: u64, material_bits: u64) {
        let difference = words.load(index, Relaxed) ^ value;
        if difference != 0 {
            self.stores.push((index, value));
            self.is_material |= difference & material_bits != 0;
        }
    }
}
