//! The table of live orders: from a reference to the shares that are left and the level.
//!
//! Open addressing in lines of the cache. Four orders stand in a line, each in the line that its reference is hashed to (its home), or,
//! if that is full, in one of the next lines. An order never moves, so its slot is a name for it; nothing marks where one was, so the
//! table does not wear out. A line counts the orders that have it as their home and stand elsewhere: where that is 0, which is nearly
//! everywhere, one line tells that a reference is unknown.
//!
//! ```text
//!  0             8             16            24            32      36      40      44      48             52  ...         64
//!  | reference 0 | reference 1 | reference 2 | reference 3 | shares of 0 to 3: 0 = free | level 0 (3) displaced (1) | levels 1 to 3 |
//! ```

use crate::units::OrderReference;
use sidestep_sys::{memory, prefetch};
use std::collections::TryReserveError;

/// Orders in a line: 16 bytes each.
const LINE_ORDERS: usize = 4;
/// Lines that are made for each order of the limit, as a fraction: half of the places stay free. Of lines that are half full on
/// average, one in twenty is too small for its orders.
const ORDERS_PER_LINE: usize = LINE_ORDERS / 2;
/// Lines that an order may stand in, counted from its home: what a reference costs at most, whoever has chosen it. At the limit a
/// million random references use five of them.
const REACH: usize = 16;
/// Bits of a level's number; the others of its word count displaced orders.
const LEVEL_BITS: u32 = 24;
/// Levels that an order can name.
pub(super) const LEVEL_NUMBERS: u32 = 1 << LEVEL_BITS;
/// The most orders: slots are numbered in 32 bits, and the last number stands for none.
pub(super) const ORDERS_MAX: u32 = (1 << 31) - (LINE_ORDERS * REACH) as u32;

/// An order's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u32);

impl Slot {
    /// No order.
    pub(super) const NONE: Self = Self(u32::MAX);

    #[inline(always)]
    fn of(line: usize, place: usize) -> Self {
        Self((line * LINE_ORDERS + place) as u32)
    }

    #[inline(always)]
    fn line(self) -> usize {
        self.0 as usize / LINE_ORDERS
    }

    #[inline(always)]
    fn place(self) -> usize {
        self.0 as usize % LINE_ORDERS
    }
}

/// What stands in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The shares that are left, 1 at least.
    pub(super) shares: u32,
    /// The number of its level.
    pub(super) level: u32,
}

/// A place for an order that is not there yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacancy {
    slot: Slot,
    home: usize,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoVacancy {
    /// The reference is there.
    Taken,
    /// Every line that it may stand in is full.
    Full,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    references: [u64; LINE_ORDERS],
    shares: [u32; LINE_ORDERS],
    /// The level of each; above that, in the first word, the displaced orders.
    levels: [u32; LINE_ORDERS],
}

const _: () = assert!(size_of::<Line>() == 64 && LINE_ORDERS * REACH < 256);

impl Line {
    const EMPTY: Self = Self { references: [0; LINE_ORDERS], shares: [0; LINE_ORDERS], levels: [0; LINE_ORDERS] };

    #[inline(always)]
    fn find(&self, reference: u64) -> Option<usize> {
        (0..LINE_ORDERS).find(|&place| self.references[place] == reference && self.shares[place] != 0)
    }

    #[inline(always)]
    fn free(&self) -> Option<usize> {
        (0..LINE_ORDERS).find(|&place| self.shares[place] == 0)
    }

    #[inline(always)]
    fn displaced(&self) -> u32 {
        self.levels[0] >> LEVEL_BITS
    }
}

/// The table.
pub(super) struct Table {
    lines: Vec<Line>,
    /// Lines that are a home; behind them are those that only displaced orders stand in.
    homes: u64,
    live: u32,
    limit: u32,
}

fn homes(orders: u32) -> usize {
    (orders as usize).div_ceil(ORDERS_PER_LINE)
}

/// Slots of a table for so many orders.
pub(super) fn slots(orders: u32) -> usize {
    (homes(orders) + REACH - 1) * LINE_ORDERS
}

/// The memory of a table for so many orders.
pub(super) fn bytes(orders: u32) -> usize {
    slots(orders) / LINE_ORDERS * size_of::<Line>()
}

impl Table {
    pub(super) fn new(orders: u32) -> Result<Self, TryReserveError> {
        let lines = memory::filled(Line::EMPTY, slots(orders) / LINE_ORDERS)?;
        Ok(Self { lines, homes: homes(orders) as u64, live: 0, limit: orders })
    }

    /// Live orders.
    #[inline]
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// No more orders may be added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.live >= self.limit
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    #[inline(always)]
    fn home(&self, reference: u64) -> usize {
        // Two rounds of multiplication: one leaves references that rise in steps (by 4, by 4096) in few lines.
        let mixed = reference.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * u128::from(self.homes)) >> 64) as usize
    }

    /// Prefetches the line in which an order most likely stands, or will stand.
    #[inline(always)]
    pub(super) fn prefetch(&self, reference: OrderReference) {
        if let Some(line) = self.lines.get(self.home(reference.0)) {
            prefetch::to_write(line);
        }
    }

    /// The slot of a live order.
    #[inline(always)]
    pub(super) fn find(&self, reference: OrderReference) -> Option<Slot> {
        let home = self.home(reference.0);
        let line = &self.lines[home];
        if let Some(place) = line.find(reference.0) {
            return Some(Slot::of(home, place));
        }
        if line.displaced() == 0 { None } else { self.find_displaced(home, reference.0) }
    }

    #[cold]
    fn find_displaced(&self, home: usize, reference: u64) -> Option<Slot> {
        let near = self.lines[home + 1..home + REACH].iter().enumerate();
        near.filter_map(|(at, line)| Some(Slot::of(home + 1 + at, line.find(reference)?))).next()
    }

    /// A place for an order of this reference.
    #[inline(always)]
    pub(super) fn vacancy(&self, reference: OrderReference) -> Result<Vacancy, NoVacancy> {
        let home = self.home(reference.0);
        if self.find(reference).is_some() {
            return Err(NoVacancy::Taken);
        }
        match self.lines[home].free() {
            Some(place) => Ok(Vacancy { slot: Slot::of(home, place), home }),
            None => self.vacancy_elsewhere(home),
        }
    }

    #[cold]
    fn vacancy_elsewhere(&self, home: usize) -> Result<Vacancy, NoVacancy> {
        let near = self.lines[home + 1..home + REACH].iter().enumerate();
        let slot = near.filter_map(|(at, line)| Some(Slot::of(home + 1 + at, line.free()?))).next();
        slot.map(|slot| Vacancy { slot, home }).ok_or(NoVacancy::Full)
    }

    /// Puts an order into its place, which nothing has taken since it was found.
    #[inline(always)]
    pub(super) fn occupy(&mut self, vacancy: Vacancy, reference: OrderReference, order: Order) -> Slot {
        let slot = vacancy.slot;
        if slot.line() != vacancy.home {
            self.lines[vacancy.home].levels[0] += LEVEL_NUMBERS;
        }
        let line = &mut self.lines[slot.line()];
        line.references[slot.place()] = reference.0;
        line.shares[slot.place()] = order.shares;
        line.levels[slot.place()] = line.levels[slot.place()] / LEVEL_NUMBERS * LEVEL_NUMBERS | order.level;
        self.live += 1;
        slot
    }

    /// The order in a slot that [`Self::find`] has told.
    #[inline(always)]
    pub(super) fn order(&self, slot: Slot) -> Order {
        let line = &self.lines[slot.line()];
        Order { shares: line.shares[slot.place()], level: line.levels[slot.place()] % LEVEL_NUMBERS }
    }

    /// The reference of the order in a slot.
    #[inline]
    pub(super) fn reference(&self, slot: Slot) -> OrderReference {
        OrderReference(self.lines[slot.line()].references[slot.place()])
    }

    /// Leaves an order this many shares, 1 at least, at this level.
    #[inline(always)]
    pub(super) fn set(&mut self, slot: Slot, order: Order) {
        let line = &mut self.lines[slot.line()];
        line.shares[slot.place()] = order.shares;
        line.levels[slot.place()] = line.levels[slot.place()] / LEVEL_NUMBERS * LEVEL_NUMBERS | order.level;
    }

    /// Takes an order away.
    #[inline(always)]
    pub(super) fn remove(&mut self, slot: Slot) {
        self.lines[slot.line()].shares[slot.place()] = 0;
        let home = self.home(self.lines[slot.line()].references[slot.place()]);
        if home != slot.line() {
            self.lines[home].levels[0] -= LEVEL_NUMBERS;
        }
        self.live -= 1;
    }

    /// The first slot from this one on in which a live order stands. Slots are numbered from 0.
    pub(super) fn next_order(&self, from: Slot) -> Option<Slot> {
        let mut slots = (from.0..(self.lines.len() * LINE_ORDERS) as u32).map(Slot);
        slots.find(|slot| self.order(*slot).shares != 0)
    }

    /// Takes all orders away.
    pub(super) fn clear(&mut self) {
        self.lines.fill(Line::EMPTY);
        self.live = 0;
    }
}
