//! The levels of one side of an instrument, by price: a sorted array, the best at the end.
//!
//! Most changes are at the best price or near it, so a new level moves few entries, and a level is looked for from the end: over a line
//! of the cache one by one, then by bisection. An entry is one integer: the key above, the level's number below. What a change at the
//! best price needs stands in the header.

use super::blocks::{Blocks, Size};
use super::level::Key;
use crate::units::{Locate, Side};
use sidestep_sys::{memory, prefetch};
use std::collections::TryReserveError;

/// Entries that are looked at one by one, from the best: a line of the cache.
const NEAR: usize = 8;

/// The header of a side.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ladder {
    /// The place of its block.
    at: u32,
    /// Its levels; 0: it has no block.
    len: u16,
    size: Size,
    /// The best level.
    best_key: Key,
    best_level: u32,
}

const EMPTY: Ladder = Ladder { at: 0, len: 0, size: Size::MIN, best_key: Key(0), best_level: 0 };
const _: () = assert!(size_of::<[Ladder; 2]>() == 32);

/// Why a level found no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The side has as many levels as it may have.
    Side,
    /// There is no block for its array.
    Pool,
}

/// The sides of all instruments.
pub(super) struct Ladders {
    sides: Vec<[Ladder; 2]>,
    blocks: Blocks,
    len_max: usize,
}

/// The memory of the headers.
pub(super) fn bytes(instruments: u16) -> usize {
    (usize::from(instruments) + 1) * size_of::<[Ladder; 2]>()
}

fn entry(key: Key, level: u32) -> u64 {
    // The sign's bit is turned, so that unsigned integers are in the order of the keys.
    u64::from(key.0 as u32 ^ 1 << 31) << 32 | u64::from(level)
}

fn level_of(entry: u64) -> u32 {
    entry as u32
}

fn key_of(entry: u64) -> Key {
    Key(((entry >> 32) as u32 ^ 1 << 31) as i32)
}

/// The place of the first entry that is not below `bound`.
#[inline]
fn place(entries: &[u64], bound: u64) -> usize {
    let near = entries.len().saturating_sub(NEAR);
    match entries[near..].iter().rposition(|entry| *entry < bound) {
        Some(at) => near + at + 1,
        None => entries[..near].partition_point(|entry| *entry < bound),
    }
}

impl Ladders {
    pub(super) fn new(instruments: u16, entries: usize, len_max: u16) -> Result<Self, TryReserveError> {
        Ok(Self {
            sides: memory::filled([EMPTY; 2], usize::from(instruments) + 1)?,
            blocks: Blocks::new(entries, usize::from(len_max))?,
            len_max: usize::from(len_max),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.sides.capacity() * size_of::<[Ladder; 2]>() + self.blocks.bytes()
    }

    /// Returns whether there is such an instrument. 0 is none.
    #[inline(always)]
    pub(super) fn has(&self, locate: Locate) -> bool {
        locate.0 != 0 && usize::from(locate.0) < self.sides.len()
    }

    pub(super) fn instruments(&self) -> u16 {
        (self.sides.len() - 1) as u16
    }

    #[inline(always)]
    fn ladder(&self, locate: Locate, side: Side) -> &Ladder {
        &self.sides[usize::from(locate.0)][side as usize]
    }

    /// Prefetches the headers of an instrument.
    #[inline(always)]
    pub(super) fn prefetch(&self, locate: Locate) {
        if let Some(sides) = self.sides.get(usize::from(locate.0)) {
            prefetch::to_write(sides);
        }
    }

    /// The key and the number of the best level.
    #[inline(always)]
    pub(super) fn best(&self, locate: Locate, side: Side) -> Option<(Key, u32)> {
        let ladder = self.ladder(locate, side);
        (ladder.len != 0).then_some((ladder.best_key, ladder.best_level))
    }

    /// Levels of the side.
    pub(super) fn len(&self, locate: Locate, side: Side) -> usize {
        usize::from(self.ladder(locate, side).len)
    }

    #[inline(always)]
    fn entries(&self, ladder: &Ladder) -> &[u64] {
        &self.blocks.entries()[ladder.at as usize..][..usize::from(ladder.len)]
    }

    /// The numbers of the levels of the side, the best at the end.
    pub(super) fn levels(
        &self,
        locate: Locate,
        side: Side,
    ) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator {
        self.entries(self.ladder(locate, side)).iter().map(|entry| level_of(*entry))
    }

    /// The number of the level at a price.
    #[inline(always)]
    pub(super) fn find(&self, locate: Locate, key: Key) -> Option<u32> {
        let ladder = self.ladder(locate, key.side());
        if ladder.len == 0 || key > ladder.best_key {
            None
        } else if key == ladder.best_key {
            Some(ladder.best_level)
        } else {
            self.find_deeper(ladder, key)
        }
    }

    fn find_deeper(&self, ladder: &Ladder, key: Key) -> Option<u32> {
        let entries = self.entries(ladder);
        let found = entries.get(place(entries, entry(key, 0))).filter(|entry| key_of(**entry) == key);
        found.map(|entry| level_of(*entry))
    }

    /// Makes sure that one more level has room.
    pub(super) fn reserve(&mut self, locate: Locate, side: Side) -> Result<(), NoRoom> {
        let ladder = *self.ladder(locate, side);
        let len = usize::from(ladder.len);
        if len == self.len_max {
            return Err(NoRoom::Side);
        }
        if len == 0 {
            let at = self.blocks.take(Size::MIN).ok_or(NoRoom::Pool)?;
            self.sides[usize::from(locate.0)][side as usize] = Ladder { at, size: Size::MIN, ..EMPTY };
        } else if len == ladder.size.entries() {
            self.resize(locate, side, ladder.size.larger()).ok_or(NoRoom::Pool)?;
        }
        Ok(())
    }

    /// Enters a level that is not there yet; room for it has been reserved.
    pub(super) fn insert(&mut self, locate: Locate, key: Key, level: u32) {
        let ladder = &mut self.sides[usize::from(locate.0)][key.side() as usize];
        let len = usize::from(ladder.len);
        let entries = &mut self.blocks.entries_mut()[ladder.at as usize..][..len + 1];
        let place = place(&entries[..len], entry(key, 0));
        entries.copy_within(place..len, place + 1);
        entries[place] = entry(key, level);
        ladder.len += 1;
        if place == len {
            (ladder.best_key, ladder.best_level) = (key, level);
        }
    }

    /// Takes a level out that is there. Its room stays reserved until [`Self::shrink`].
    pub(super) fn remove(&mut self, locate: Locate, key: Key) {
        let ladder = &mut self.sides[usize::from(locate.0)][key.side() as usize];
        let len = usize::from(ladder.len);
        let entries = &mut self.blocks.entries_mut()[ladder.at as usize..][..len];
        let place = place(entries, entry(key, 0));
        entries.copy_within(place + 1.., place);
        ladder.len -= 1;
        if place + 1 == len && len > 1 {
            let best = entries[len - 2];
            (ladder.best_key, ladder.best_level) = (key_of(best), level_of(best));
        }
    }

    /// Gives room back after a level was taken out: all of it if there is none left, half of it if a quarter is used.
    #[inline]
    pub(super) fn shrink(&mut self, locate: Locate, side: Side) {
        let ladder = *self.ladder(locate, side);
        let len = usize::from(ladder.len);
        if len == 0 {
            self.blocks.give(ladder.at, ladder.size);
        } else if len <= ladder.size.entries() / 4
            && let Some(size) = ladder.size.smaller()
        {
            self.resize(locate, side, size);
        }
    }

    /// Moves the array to a block of another size; without one it stays where it is.
    #[cold]
    fn resize(&mut self, locate: Locate, side: Side, size: Size) -> Option<()> {
        let to = self.blocks.take(size)?;
        let ladder = &mut self.sides[usize::from(locate.0)][side as usize];
        let from = ladder.at as usize;
        self.blocks.entries_mut().copy_within(from..from + usize::from(ladder.len), to as usize);
        let before = std::mem::replace(ladder, Ladder { at: to, size, ..*ladder });
        self.blocks.give(before.at, before.size);
        Some(())
    }

    /// Takes all levels out.
    pub(super) fn clear(&mut self) {
        self.sides.fill([EMPTY; 2]);
        self.blocks.clear();
    }
}
