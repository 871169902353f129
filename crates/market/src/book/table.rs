//! The table of live orders: from a reference to the shares that are left and the level.
//!
//! Open addressing in lines of the cache. Four orders stand in a line, each in the line that its reference is hashed to (its home), or,
//! if that is full, in one of the next lines. An order never moves, so its slot is a name for it; nothing marks where one was, so the
//! table does not wear out. A line counts the orders that have it as their home and stand elsewhere, and tells how far away they may be:
//! where there are none, which is nearly everywhere, one line tells that a reference is unknown.
//!
//! ```text
//!  0                   32                  48        51          52        55      56        59     60        63     64
//!  | references 0 to 3 | shares 0 to 3     | level 0 | displaced | level 1 | reach | level 2 |      | level 3 |      |
//!                        0 = a free place
//! ```

use crate::units::OrderReference;
use sidestep_sys::{memory, prefetch};
use std::collections::TryReserveError;

/// Orders in a line: 16 bytes each.
const LINE_ORDERS: usize = 4;
/// Lines that are made for each order of the limit, as a fraction: half of the places stay free. Of lines that are half full on
/// average, one in seventeen is too small for its orders.
const ORDERS_PER_LINE: usize = LINE_ORDERS / 2;
/// Lines that an order may stand in, counted from its home: what a reference costs at most, whoever has chosen it. At the limit two
/// million references, rising or random, use ten of them.
const REACH: usize = 16;
/// Bits of a level's number; the others of its word count displaced orders.
const LEVEL_BITS: u32 = 24;
/// Levels that an order can name.
pub(crate) const LEVEL_NUMBERS: u32 = 1 << LEVEL_BITS;
/// The most orders: slots are numbered in 32 bits, and the last number stands for none.
pub(crate) const ORDERS_MAX: u32 = (1 << 31) - (LINE_ORDERS * REACH) as u32;

/// An order's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// No order.
    pub(crate) const NONE: Self = Self(u32::MAX);

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
pub(crate) struct Order {
    /// The shares that are left, 1 at least.
    pub(crate) shares: u32,
    /// The number of its level.
    pub(crate) level: u32,
}

/// A place for an order that is not there yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy {
    slot: Slot,
    home: usize,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoVacancy {
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
    /// The level of each; above that, in the first word, the number of displaced orders, in the second one how far away they are.
    levels: [u32; LINE_ORDERS],
}

const _: () = assert!(size_of::<Line>() == 64 && LINE_ORDERS * REACH < 256);

impl Line {
    const EMPTY: Self = Self { references: [0; LINE_ORDERS], shares: [0; LINE_ORDERS], levels: [0; LINE_ORDERS] };

    /// The first place of which this is true. All are asked: which one it is, no branch predictor guesses.
    #[inline(always)]
    fn first(is: impl Fn(usize) -> bool) -> Option<usize> {
        let places = (0..LINE_ORDERS).fold(0, |places, place| places | (u32::from(is(place)) << place));
        (places != 0).then_some(places.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn find(&self, reference: u64) -> Option<usize> {
        Self::first(|place| (self.references[place] == reference) & (self.shares[place] != 0))
    }

    #[inline(always)]
    fn free(&self) -> Option<usize> {
        Self::first(|place| self.shares[place] == 0)
    }

    #[inline(always)]
    fn displaced(&self) -> u32 {
        self.levels[0] >> LEVEL_BITS
    }

    /// The farthest line of its displaced orders, counted from this one; since there were none.
    fn reach(&self) -> usize {
        (self.levels[1] >> LEVEL_BITS) as usize
    }

    fn displace(&mut self, distance: usize) {
        let reach = self.reach().max(distance) as u32;
        self.levels[0] += LEVEL_NUMBERS;
        self.levels[1] = (self.levels[1] % LEVEL_NUMBERS) | (reach << LEVEL_BITS);
    }

    fn displaced_gone(&mut self) {
        self.levels[0] -= LEVEL_NUMBERS;
        if self.displaced() == 0 {
            self.levels[1] %= LEVEL_NUMBERS;
        }
    }

    #[inline(always)]
    fn set(&mut self, place: usize, order: Order) {
        self.shares[place] = order.shares;
        self.levels[place] = (self.levels[place] & !(LEVEL_NUMBERS - 1)) | order.level;
    }
}

/// The table.
#[derive(Clone)]
pub(crate) struct Table {
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
pub(crate) fn slots(orders: u32) -> usize {
    (homes(orders) + REACH - 1) * LINE_ORDERS
}

/// The memory of a table for so many orders.
pub(crate) fn bytes(orders: u32) -> usize {
    slots(orders) / LINE_ORDERS * size_of::<Line>()
}

impl Table {
    pub(crate) fn new(orders: u32) -> Result<Self, TryReserveError> {
        let lines = memory::filled(Line::EMPTY, slots(orders) / LINE_ORDERS)?;
        Ok(Self { lines, homes: homes(orders) as u64, live: 0, limit: orders })
    }

    /// Live orders.
    #[inline]
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// No more orders may be added.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.live >= self.limit
    }

    pub(crate) fn bytes(&self) -> usize {
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
    pub(crate) fn prefetch(&self, reference: OrderReference) {
        if let Some(line) = self.lines.get(self.home(reference.0)) {
            prefetch::to_write(line);
        }
    }

    /// The slot of a live order.
    #[inline(always)]
    pub(crate) fn find(&self, reference: OrderReference) -> Option<Slot> {
        let home = self.home(reference.0);
        let line = &self.lines[home];
        if let Some(place) = line.find(reference.0) {
            return Some(Slot::of(home, place));
        }
        if line.displaced() == 0 { None } else { self.find_displaced(home, reference.0) }
    }

    #[cold]
    fn find_displaced(&self, home: usize, reference: u64) -> Option<Slot> {
        let reach = self.lines[home].reach();
        let near = self.lines[home + 1..][..reach].iter().enumerate();
        near.filter_map(|(at, line)| Some(Slot::of(home + 1 + at, line.find(reference)?))).next()
    }

    /// A place for an order of this reference.
    #[inline(always)]
    pub(crate) fn vacancy(&self, reference: OrderReference) -> Result<Vacancy, NoVacancy> {
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
    pub(crate) fn occupy(&mut self, vacancy: Vacancy, reference: OrderReference, order: Order) -> Slot {
        let slot = vacancy.slot;
        if slot.line() != vacancy.home {
            self.lines[vacancy.home].displace(slot.line() - vacancy.home);
        }
        let line = &mut self.lines[slot.line()];
        line.references[slot.place()] = reference.0;
        line.set(slot.place(), order);
        self.live += 1;
        slot
    }

    /// The order in a slot that [`Self::find`] has told.
    #[inline(always)]
    pub(crate) fn order(&self, slot: Slot) -> Order {
        let line = &self.lines[slot.line()];
        Order { shares: line.shares[slot.place()], level: line.levels[slot.place()] % LEVEL_NUMBERS }
    }

    /// The reference of the order in a slot.
    #[inline]
    pub(crate) fn reference(&self, slot: Slot) -> OrderReference {
        OrderReference(self.lines[slot.line()].references[slot.place()])
    }

    /// Leaves an order this many shares, 1 at least, at this level.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: Slot, order: Order) {
        self.lines[slot.line()].set(slot.place(), order);
    }

    /// Takes an order away.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.lines[slot.line()].shares[slot.place()] = 0;
        let home = self.home(self.lines[slot.line()].references[slot.place()]);
        if home != slot.line() {
            self.lines[home].displaced_gone();
        }
        self.live -= 1;
    }

    /// The first slot from this one on in which a live order stands. Slots are numbered from 0.
    pub(crate) fn next_order(&self, from: Slot) -> Option<Slot> {
        let mut slots = (from.0..(self.lines.len() * LINE_ORDERS) as u32).map(Slot);
        slots.find(|slot| self.order(*slot).shares != 0)
    }

    /// Takes all orders away.
    pub(crate) fn clear(&mut self) {
        self.lines.fill(Line::EMPTY);
        self.live = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(table: &mut Table, reference: u64) -> Result<Slot, NoVacancy> {
        let reference = OrderReference(reference);
        let order = Order { shares: 1, level: LEVEL_NUMBERS - 1 };
        table.vacancy(reference).map(|vacancy| table.occupy(vacancy, reference, order))
    }

    /// References with one home.
    fn neighbours(table: &Table) -> impl Iterator<Item = u64> {
        let home = table.home(0);
        (0..u64::MAX).filter(move |reference| table.home(*reference) == home)
    }

    #[test]
    fn references_of_one_home_cost_a_bounded_number_of_lines_and_are_then_refused() {
        let mut table = Table::new(1_000).unwrap();
        let chosen: Vec<u64> = neighbours(&table).take(LINE_ORDERS * REACH + 1).collect();
        let (last, fitting) = chosen.split_last().unwrap();
        let slots: Vec<Slot> = fitting.iter().map(|reference| put(&mut table, *reference).unwrap()).collect();
        assert_eq!(put(&mut table, *last), Err(NoVacancy::Full));
        for (reference, slot) in fitting.iter().zip(&slots) {
            assert_eq!(table.find(OrderReference(*reference)), Some(*slot));
            assert_eq!(table.order(*slot), Order { shares: 1, level: LEVEL_NUMBERS - 1 });
            assert_eq!(put(&mut table, *reference), Err(NoVacancy::Taken));
        }
    }

    #[test]
    fn what_was_displaced_is_found_until_it_is_removed_and_leaves_no_trace() {
        let mut table = Table::new(1_000).unwrap();
        let chosen: Vec<u64> = neighbours(&table).take(12).collect();
        let slots: Vec<Slot> = chosen.iter().map(|reference| put(&mut table, *reference).unwrap()).collect();
        let home = table.home(chosen[0]);
        assert_eq!((table.lines[home].displaced(), table.lines[home].reach()), (8, 2));
        for at in [0, 11, 5, 1, 2, 3, 4, 6, 7, 8, 9, 10] {
            table.remove(slots[at]);
            assert_eq!(table.find(OrderReference(chosen[at])), None);
        }
        assert_eq!((table.lines[home].displaced(), table.lines[home].reach(), table.live()), (0, 0, 0));
    }

    #[test]
    fn at_the_limit_one_line_in_seventeen_has_displaced_orders_and_none_is_far_away() {
        let mut random = fastrand::Rng::with_seed(1);
        for rising in [true, false] {
            let mut table = Table::new(200_000).unwrap();
            for number in 0..200_000 {
                put(&mut table, if rising { number } else { random.u64(..) }).unwrap();
            }
            let displaced = table.lines.iter().filter(|line| line.displaced() > 0).count();
            assert!((5_500..6_200).contains(&displaced), "{displaced} of 100,000 lines");
            assert!(table.lines.iter().all(|line| line.reach() < 10));
        }
    }

    #[test]
    fn references_at_the_ends_of_their_range_are_references_like_others() {
        let mut table = Table::new(8).unwrap();
        for reference in [0, 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(table.find(OrderReference(reference)), None);
            let slot = put(&mut table, reference).unwrap();
            assert_eq!(table.find(OrderReference(reference)), Some(slot));
            assert_eq!(table.reference(slot), OrderReference(reference));
        }
        table.clear();
        assert_eq!((table.find(OrderReference(0)), table.next_order(Slot(0))), (None, None));
    }
}
