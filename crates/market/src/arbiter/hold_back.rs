//! Messages that came before those ahead of them, copied until it is their turn: bounded in messages and bytes, allocated once.
//!
//! ```text
//!  slots   by sequence modulo their number:  sequence, arrival, line, place of the bytes
//!  order   ring of allocations, oldest first: sequence, place      frees bytes from the oldest on
//!  bytes   ring; a message is never split over its end
//! ```

use super::Origin;
use crate::units::Nanos;
use sidestep_sys::memory::filled;
use std::collections::TryReserveError;

/// A sequence that no message has.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    sequence: u64,
    arrived: Nanos,
    at: u32,
    bytes: u32,
    origin: Origin,
}

const EMPTY: Slot = Slot { sequence: NONE, arrived: Nanos(0), at: 0, bytes: 0, origin: Origin::NONE };

#[derive(Clone, Copy, Debug, Default)]
struct Allocation {
    sequence: u64,
    at: u32,
}

#[derive(Debug)]
pub(super) struct HoldBack {
    slots: Box<[Slot]>,
    order: Box<[Allocation]>,
    /// Of `order`: the oldest, and their number.
    oldest: usize,
    allocations: usize,
    bytes: Box<[u8]>,
    /// Where the next message goes, unless it does not fit before the end.
    write: usize,
    /// The newest bytes stand before the oldest ones.
    is_wrapped: bool,
    /// Messages that are held.
    held: usize,
    held_max: usize,
}

/// A message that is held.
pub(super) struct Held<'a> {
    pub(super) arrived: Nanos,
    pub(super) origin: Origin,
    pub(super) bytes: &'a [u8],
}

impl HoldBack {
    /// Room for so many messages, rounded up to a power of two, with so many bytes.
    ///
    /// Every page of it is written now: the first gap of the day must not wait for the kernel's pages.
    pub(super) fn new(messages: usize, bytes: usize) -> Result<Self, TryReserveError> {
        let messages = messages.next_power_of_two();
        Ok(Self {
            slots: filled(EMPTY, messages)?.into(),
            order: filled(Allocation::default(), messages)?.into(),
            oldest: 0,
            allocations: 0,
            bytes: filled(0, bytes)?.into(),
            write: 0,
            is_wrapped: false,
            held: 0,
            held_max: 0,
        })
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Messages held now, and the most so far.
    pub(super) fn depth(&self) -> (usize, usize) {
        (self.held, self.held_max)
    }

    /// The number of slots: sequences that lie so far apart exclude each other.
    #[inline]
    pub(super) fn span(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    fn index(&self, sequence: u64) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    #[inline]
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.slots[self.index(sequence)].sequence == sequence && sequence != NONE
    }

    #[inline]
    pub(super) fn get(&self, sequence: u64) -> Option<Held<'_>> {
        let slot = &self.slots[self.index(sequence)];
        if slot.sequence != sequence || sequence == NONE {
            return None;
        }
        let bytes = &self.bytes[slot.at as usize..][..slot.bytes as usize];
        Some(Held { arrived: slot.arrived, origin: slot.origin, bytes })
    }

    /// Copies a message in. False if there is no room.
    pub(super) fn hold(&mut self, sequence: u64, origin: Origin, arrived: Nanos, message: &[u8]) -> bool {
        let index = self.index(sequence);
        if self.slots[index].sequence != NONE || self.allocations == self.order.len() {
            return false;
        }
        let Some(at) = self.allocate(message.len()) else { return false };
        self.bytes[at..at + message.len()].copy_from_slice(message);
        let last = (self.oldest + self.allocations) & (self.order.len() - 1);
        self.order[last] = Allocation { sequence, at: at as u32 };
        self.allocations += 1;
        self.slots[index] = Slot { sequence, arrived, at: at as u32, bytes: message.len() as u32, origin };
        self.held += 1;
        self.held_max = self.held_max.max(self.held);
        true
    }

    /// As [`hold`](Self::hold), at the expense of the messages that came first.
    pub(super) fn hold_newest(&mut self, sequence: u64, origin: Origin, arrived: Nanos, message: &[u8]) {
        self.forget(self.slots[self.index(sequence)].sequence);
        while !self.hold(sequence, origin, arrived, message) && self.allocations > 0 {
            self.forget(self.order[self.oldest].sequence);
        }
    }

    /// Lets a message go, if it is there.
    pub(super) fn forget(&mut self, sequence: u64) {
        if !self.has(sequence) {
            return;
        }
        let index = self.index(sequence);
        self.slots[index].sequence = NONE;
        self.held -= 1;
        self.free();
    }

    /// Lets all messages go that are not in `keep`.
    pub(super) fn keep_only(&mut self, keep: std::ops::Range<u64>) {
        if self.is_empty() {
            return;
        }
        for index in 0..self.slots.len() {
            let sequence = self.slots[index].sequence;
            if sequence != NONE && !keep.contains(&sequence) {
                self.forget(sequence);
            }
        }
    }

    /// The highest sequence held.
    pub(super) fn highest(&self) -> Option<u64> {
        self.slots.iter().map(|slot| slot.sequence).filter(|sequence| *sequence != NONE).max()
    }

    /// The place for so many bytes.
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        if self.allocations == 0 {
            (self.write, self.is_wrapped) = (0, false);
        }
        let oldest = self.order[self.oldest].at as usize;
        let end = if self.is_wrapped { oldest } else { self.bytes.len() };
        let at = if bytes <= end - self.write {
            self.write
        } else if !self.is_wrapped && self.allocations > 0 && bytes <= oldest {
            self.is_wrapped = true;
            0
        } else {
            return None;
        };
        self.write = at + bytes;
        Some(at)
    }

    /// Takes back the bytes of the oldest allocations whose messages are gone.
    fn free(&mut self) {
        while self.allocations > 0 {
            let oldest = self.order[self.oldest];
            // A message that was let go and came again has a younger allocation elsewhere.
            let slot = &self.slots[self.index(oldest.sequence)];
            if slot.sequence == oldest.sequence && slot.at == oldest.at {
                break;
            }
            self.oldest = (self.oldest + 1) & (self.order.len() - 1);
            self.allocations -= 1;
            if self.allocations > 0 && self.order[self.oldest].at < oldest.at {
                self.is_wrapped = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn held(store: &HoldBack) -> BTreeMap<u64, Vec<u8>> {
        let slots = store.slots.iter().filter(|slot| slot.sequence != NONE);
        slots.map(|slot| (slot.sequence, store.get(slot.sequence).unwrap().bytes.to_vec())).collect()
    }

    #[test]
    fn a_full_store_refuses_by_messages_and_by_bytes() {
        let mut store = HoldBack::new(4, 10).unwrap();
        assert!(store.hold(1, Origin::NONE, Nanos(1), b"12345") && store.hold(2, Origin::NONE, Nanos(2), b"12345"));
        assert!(!store.hold(3, Origin::NONE, Nanos(3), b"1"), "no bytes are left");
        assert!(store.hold(3, Origin::NONE, Nanos(3), b"") && store.hold(4, Origin::NONE, Nanos(3), b""));
        assert!(!store.hold(5, Origin::NONE, Nanos(3), b""), "no slot is left");
        assert!(!store.has(NONE));
        store.forget(1);
        assert!(store.hold(5, Origin::NONE, Nanos(3), b"54321"));
        assert_eq!(store.depth(), (4, 4));
    }

    #[test]
    fn the_newest_message_displaces_the_oldest() {
        let mut store = HoldBack::new(4, 8).unwrap();
        for sequence in 1..=9 {
            store.hold_newest(sequence, Origin::NONE, Nanos(0), b"abc");
        }
        assert_eq!(held(&store).into_keys().collect::<Vec<_>>(), [8, 9]);
        store.hold_newest(10, Origin::NONE, Nanos(0), b"longer than all");
        assert!(store.is_empty(), "what can never fit is not held");
    }

    proptest! {
        #[test]
        fn what_is_held_is_a_map(
            steps in prop::collection::vec((0..40_u64, 0..9_usize, 0..4_u8), 0..300),
        ) {
            let (mut store, mut map) = (HoldBack::new(16, 64).unwrap(), BTreeMap::new());
            for (number, (sequence, bytes, kind)) in steps.into_iter().enumerate() {
                let message = vec![number as u8; bytes];
                match kind {
                    0 => {
                        store.forget(sequence);
                        map.remove(&sequence);
                    }
                    1 => {
                        store.hold_newest(sequence, Origin::NONE, Nanos(0), &message);
                        map.insert(sequence, message);
                        let left = held(&store);
                        prop_assert!(left.contains_key(&sequence));
                        prop_assert!(left.iter().all(|(key, value)| map.get(key) == Some(value)));
                        map = left;
                    }
                    _ => if store.hold(sequence, Origin::NONE, Nanos(0), &message) {
                        prop_assert!(map.insert(sequence, message).is_none());
                    }
                }
                prop_assert_eq!(&held(&store), &map);
                prop_assert_eq!(store.depth().0, map.len());
            }
        }
    }
}
