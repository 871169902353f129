//! Demultiplexing: from the flow of a segment to its slot: one hash, one or two cache lines, whatever the number of connections.

pub(crate) mod hash;
pub(crate) mod ids;
pub(crate) mod slots;

use crate::tcp::demux::hash::{FlowHasher, Secret};
use crate::tcp::flow::Flow;
use sidestep_wire::Addresses;
use std::hint::black_box;

/// Entries of an empty table; a power of two.
const ENTRIES_MIN: usize = 64;
const EMPTY: u32 = u32::MAX;

/// Open addressing with linear probing, at most half full. An entry has the whole 32-bit hash, so that a miss in the
/// table does not touch a connection.
pub(crate) struct Demux {
    entries: Vec<Entry>,
    used: usize,
    hasher: FlowHasher,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    slot: u32,
}

const FREE: Entry = Entry { hash: 0, slot: EMPTY };

impl Demux {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self { entries: vec![FREE; ENTRIES_MIN], used: 0, hasher: FlowHasher::new(secret) }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    /// The slot of the flow that a segment between these addresses and ports belongs to; `is_of(slot)` tells whether a slot
    /// with the same hash is the right one.
    #[inline]
    pub(crate) fn find(
        &self,
        addresses: &Addresses,
        local_port: u16,
        remote_port: u16,
        is_of: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.with_hash(self.hasher.hash_arrival(addresses, local_port, remote_port), is_of)
    }

    /// The hash of a segment's flow. Loads the line of the table where its search begins.
    #[inline]
    pub(crate) fn hash_and_touch(&self, addresses: &Addresses, local_port: u16, remote_port: u16) -> u32 {
        let hash = self.hasher.hash_arrival(addresses, local_port, remote_port);
        black_box(self.entries[hash as usize & self.mask()].slot);
        hash
    }

    /// The first slot with this hash: most likely the right one.
    #[inline]
    pub(crate) fn first_with(&self, hash: u32) -> Option<u32> {
        self.with_hash(hash, |_| true)
    }

    #[inline]
    fn with_hash(&self, hash: u32, is_of: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Ends: at least half of the entries are free.
        loop {
            let entry = self.entries[at & mask];
            if entry.slot == EMPTY {
                return None;
            }
            if entry.hash == hash && is_of(entry.slot) {
                return Some(entry.slot);
            }
            at += 1;
        }
    }

    /// Adds a flow that is not there.
    pub(crate) fn insert(&mut self, flow: &Flow, slot: u32) {
        if (self.used + 1) * 2 > self.entries.len() {
            self.grow();
        }
        self.place(Entry { hash: self.hasher.hash(flow), slot });
        self.used += 1;
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.mask();
        let mut at = entry.hash as usize & mask;
        while self.entries[at].slot != EMPTY {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    /// Doubles the table. Paid for when connections are made, never per segment.
    fn grow(&mut self) {
        let larger = vec![FREE; self.entries.len() * 2];
        let old = std::mem::replace(&mut self.entries, larger);
        for entry in old.into_iter().filter(|entry| entry.slot != EMPTY) {
            self.place(entry);
        }
    }

    /// Removes `flow` with its `slot`, and closes the gap so that no probe ends too early.
    pub(crate) fn remove(&mut self, flow: &Flow, slot: u32) {
        let mask = self.mask();
        let mut gap = self.hasher.hash(flow) as usize & mask;
        while self.entries[gap].slot != slot {
            if self.entries[gap].slot == EMPTY {
                return;
            }
            gap = (gap + 1) & mask;
        }
        self.used -= 1;
        let mut next = gap;
        loop {
            self.entries[gap] = FREE;
            loop {
                next = (next + 1) & mask;
                let entry = self.entries[next];
                if entry.slot == EMPTY {
                    return;
                }
                // An entry may move back to the gap unless its home lies behind the gap.
                let home = entry.hash as usize & mask;
                if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                    self.entries[gap] = entry;
                    gap = next;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn flow(port: u16) -> Flow {
        Flow::new(([192, 0, 2, 1], 80).into(), ([192, 0, 2, 2], port).into()).unwrap()
    }

    #[test]
    fn agrees_with_a_plain_map() {
        let mut demux = Demux::new(&Secret([1, 2, 3, 4]));
        let mut flows = HashMap::new();
        let mut random = fastrand::Rng::with_seed(1);
        for step in 0..20_000_u32 {
            let port = random.u16(..2000);
            match flows.remove(&port) {
                Some(slot) => demux.remove(&flow(port), slot),
                None => {
                    demux.insert(&flow(port), step);
                    flows.insert(port, step);
                }
            }
            let probe = random.u16(..2000);
            let arrival = flow(probe).addresses.reversed();
            let found = demux.find(&arrival, 80, probe, |slot| flows.get(&probe) == Some(&slot));
            assert_eq!(found, flows.get(&probe).copied(), "step {step}, port {probe}");
        }
        assert_eq!(demux.used, flows.len());
        assert_eq!(demux.entries.iter().filter(|entry| entry.slot != EMPTY).count(), flows.len());
    }
}
