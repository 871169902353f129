//! A sorted sequence of slots, in blocks: an insertion moves the slots of one block, not those of a whole side.
//!
//! ```text
//!  order:   | 3 | 0 | 7 |              numbers of blocks; the best slots are in the last one
//!             │   │   └ | c | d | e |  none is empty, and two neighbours have more than half a block together
//!             │   └──── | b |
//!             └──────── | a | a | ...
//! ```
//!
//! So the number of blocks is bounded, whatever is removed.

use crate::book::table::Slot;
use sidestep_sys::memory;
use std::collections::TryReserveError;

/// Slots of a block: four lines of the cache.
const BLOCK: usize = 64;
/// Neighbours with not more slots than this become one block.
const MERGED: usize = BLOCK / 2;

#[derive(Clone, Copy)]
struct Block {
    slots: [Slot; BLOCK],
    len: usize,
}

impl Block {
    const EMPTY: Self = Self { slots: [Slot::NONE; BLOCK], len: 0 };

    #[inline]
    fn slots(&self) -> &[Slot] {
        &self.slots[..self.len]
    }

    fn insert(&mut self, at: usize, slot: Slot) {
        self.slots.copy_within(at..self.len, at + 1);
        self.slots[at] = slot;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.slots.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

/// The sequence, the worst slot first.
#[derive(Clone)]
pub(super) struct Sequence {
    blocks: Vec<Block>,
    /// Blocks in use, in their order.
    order: Vec<u32>,
    free: Vec<u32>,
    len: usize,
}

/// Blocks of a sequence of so many slots: two of them have `MERGED + 1` slots at least; and the last one may be alone.
fn blocks(slots: u32) -> usize {
    2 * (slots as usize).div_ceil(MERGED + 1) + 1
}

/// The memory of a sequence of so many slots, bytes.
pub(super) fn bytes(slots: u32) -> usize {
    blocks(slots) * (size_of::<Block>() + 2 * size_of::<u32>())
}

impl Sequence {
    pub(super) fn new(slots: u32) -> Result<Self, TryReserveError> {
        let blocks = blocks(slots);
        let mut free = memory::filled(0, blocks)?;
        (0..).zip(&mut free).for_each(|(number, free)| *free = number);
        let mut order = memory::filled(0, blocks)?;
        order.clear();
        Ok(Self { blocks: memory::filled(Block::EMPTY, blocks)?, order, free, len: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All slots, the worst first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Slot> {
        self.order.iter().flat_map(|number| self.blocks[*number as usize].slots()).copied()
    }

    pub(super) fn clear(&mut self) {
        for number in self.order.drain(..) {
            self.blocks[number as usize].len = 0;
            self.free.push(number);
        }
        self.len = 0;
    }

    #[inline]
    fn block(&mut self, place: usize) -> &mut Block {
        &mut self.blocks[self.order[place] as usize]
    }

    /// The slots of the block at this place of the order.
    #[inline]
    fn slots_at(&self, place: usize) -> &[Slot] {
        self.order.get(place).map_or(&[], |number| self.blocks[*number as usize].slots())
    }

    /// The place of the block, and the place in it, of the first slot that is not worse: behind the last one if all are.
    #[inline]
    fn find(&self, is_worse: &impl Fn(Slot) -> bool) -> (usize, usize) {
        let last_is_worse =
            |number: &u32| self.blocks[*number as usize].slots().last().is_none_or(|slot| is_worse(*slot));
        let place = self.order.partition_point(last_is_worse).min(self.order.len().saturating_sub(1));
        (place, self.slots_at(place).partition_point(|slot| is_worse(*slot)))
    }

    /// Puts a slot behind all that are worse. There is room for it: the caller counts.
    pub(super) fn insert(&mut self, slot: Slot, is_worse: impl Fn(Slot) -> bool) {
        let (mut place, mut at) = self.find(&is_worse);
        match self.order.get(place) {
            None => self.open(0),
            Some(number) if self.blocks[*number as usize].len == BLOCK => {
                self.split(place);
                if at > MERGED {
                    (place, at) = (place + 1, at - MERGED);
                }
            }
            Some(_) => {}
        }
        self.block(place).insert(at, slot);
        self.len += 1;
    }

    /// Takes out the first slot that is not worse.
    pub(super) fn remove(&mut self, is_worse: impl Fn(Slot) -> bool) {
        let (place, at) = self.find(&is_worse);
        if at >= self.slots_at(place).len() {
            return;
        }
        self.block(place).remove(at);
        self.len -= 1;
        if self.block(place).len == 0 {
            self.close(place);
            return;
        }
        self.merge(place);
        if let Some(before) = place.checked_sub(1) {
            self.merge(before);
        }
    }

    /// Puts an empty block at this place of the order.
    fn open(&mut self, place: usize) {
        let number = self.free.pop().expect("blocks are as many as the slots may need");
        self.order.insert(place, number);
    }

    /// Gives back the block at this place of the order.
    fn close(&mut self, place: usize) {
        let number = self.order.remove(place);
        self.blocks[number as usize].len = 0;
        self.free.push(number);
    }

    /// Moves the better half of a full block to one of its own.
    fn split(&mut self, place: usize) {
        self.open(place + 1);
        let full = *self.block(place);
        let better = self.block(place + 1);
        better.slots[..BLOCK - MERGED].copy_from_slice(&full.slots[MERGED..]);
        better.len = BLOCK - MERGED;
        self.block(place).len = MERGED;
    }

    /// Makes one block of this one and the next, if they have few slots.
    fn merge(&mut self, place: usize) {
        let (slots, next) = (self.slots_at(place).len(), self.slots_at(place + 1).len());
        if next == 0 || slots + next > MERGED {
            return;
        }
        let from = *self.block(place + 1);
        let block = self.block(place);
        block.slots[slots..slots + next].copy_from_slice(from.slots());
        block.len += next;
        self.close(place + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots that are ranked by their numbers.
    fn insert(sequence: &mut Sequence, number: u32) {
        sequence.insert(Slot(number), |slot| slot.0 < number);
    }

    fn remove(sequence: &mut Sequence, number: u32) {
        sequence.remove(|slot| slot.0 < number);
    }

    fn check(sequence: &Sequence, numbers: impl Iterator<Item = u32>, slots: u32) {
        assert!(sequence.iter().map(|slot| slot.0).eq(numbers));
        assert_eq!(sequence.iter().count(), sequence.len());
        let lens: Vec<usize> = (0..sequence.order.len()).map(|place| sequence.slots_at(place).len()).collect();
        assert!(lens.iter().all(|len| *len > 0) && lens.windows(2).all(|two| two[0] + two[1] > MERGED), "{lens:?}");
        assert_eq!(sequence.order.len() + sequence.free.len(), blocks(slots));
    }

    #[test]
    fn the_most_slots_fit_in_every_order_of_coming_and_going() {
        const SLOTS: u32 = 2_000;
        let rising: Vec<u32> = (0..SLOTS).collect();
        let falling: Vec<u32> = (0..SLOTS).rev().collect();
        let mut mixed = rising.clone();
        fastrand::Rng::with_seed(3).shuffle(&mut mixed);
        let mut sequence = Sequence::new(SLOTS).unwrap();
        for coming in [&rising, &falling, &mixed] {
            for going in [&rising, &falling, &mixed] {
                coming.iter().for_each(|number| insert(&mut sequence, *number));
                check(&sequence, 0..SLOTS, SLOTS);
                // Of each block few are left, then others come between them.
                (0..SLOTS).filter(|number| number % 40 != 0).for_each(|number| remove(&mut sequence, number));
                check(&sequence, (0..SLOTS).step_by(40), SLOTS);
                (0..SLOTS).filter(|number| number % 40 != 0).for_each(|number| insert(&mut sequence, number));
                check(&sequence, 0..SLOTS, SLOTS);
                going.iter().for_each(|number| remove(&mut sequence, *number));
                check(&sequence, 0..0, SLOTS);
            }
        }
    }

    #[test]
    fn any_steps_leave_what_they_leave_in_a_sorted_set() {
        let mut random = fastrand::Rng::with_seed(4);
        for slots in [1, 2, 32, 33, 64, 65, 500] {
            let (mut sequence, mut set) = (Sequence::new(slots).unwrap(), std::collections::BTreeSet::new());
            for _ in 0..20_000 {
                let number = random.u32(0..slots * 2);
                if set.remove(&number) {
                    remove(&mut sequence, number);
                } else if set.len() < slots as usize {
                    set.insert(number);
                    insert(&mut sequence, number);
                }
            }
            check(&sequence, set.iter().copied(), slots);
            assert!(sequence.iter().rev().map(|slot| slot.0).eq(set.iter().rev().copied()));
            sequence.clear();
            check(&sequence, 0..0, slots);
        }
    }
}
