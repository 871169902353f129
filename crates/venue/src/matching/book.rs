//! The book of one instrument: price levels of two sides.

use super::orders::{NONE, Order, Orders, Queue};
use crate::units::{Side, Symbol};

/// Orders of one price. Displayed orders trade before those that are not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    rank: u32,
    pub(super) displayed: Queue,
    pub(super) hidden: Queue,
}

impl Level {
    fn queue_mut(&mut self, is_displayed: bool) -> &mut Queue {
        if is_displayed { &mut self.displayed } else { &mut self.hidden }
    }

    /// The order that trades first.
    pub(super) fn front(&self) -> u32 {
        if self.displayed.is_empty() { self.hidden.head } else { self.displayed.head }
    }
}

/// Levels of a side by rank: the best one stands last, where adding and removing moves least.
#[derive(Debug, Default)]
pub(super) struct Levels {
    levels: Vec<Level>,
}

impl Levels {
    /// From the best to the worst.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().rev()
    }

    pub(super) fn best(&self) -> Option<&Level> {
        self.levels.last()
    }

    fn find(&self, rank: u32) -> Result<usize, usize> {
        self.levels.binary_search_by_key(&rank, |level| level.rank)
    }
}

/// One instrument.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) symbol: Symbol,
    pub(super) is_halted: bool,
    sides: [Levels; 2],
}

impl Book {
    pub(super) fn new(symbol: Symbol) -> Self {
        Self { symbol, is_halted: false, sides: Default::default() }
    }

    pub(super) fn levels(&self, side: Side) -> &Levels {
        &self.sides[side as usize]
    }

    /// The best price of a side, orders that are not displayed included.
    pub(super) fn best(&self, side: Side) -> Option<u32> {
        self.levels(side).best().map(|level| side.price(level.rank))
    }

    /// The best price of a side that the feed shows.
    pub(super) fn best_displayed(&self, side: Side) -> Option<u32> {
        let shown = self.levels(side).iter().find(|level| !level.displayed.is_empty());
        shown.map(|level| side.price(level.rank))
    }

    /// True if the price has a level, or may get one.
    pub(super) fn has_room(&self, side: Side, price: u32, levels_max: usize) -> bool {
        let levels = self.levels(side);
        levels.levels.len() < levels_max || levels.find(side.rank(price)).is_ok()
    }

    /// Puts an order behind those of its price.
    pub(super) fn add(&mut self, orders: &mut Orders, slot: u32) {
        let Order { side, price, is_displayed, .. } = *orders.at(slot);
        let levels = &mut self.sides[side as usize];
        let rank = side.rank(price);
        let at = levels.find(rank).unwrap_or_else(|at| {
            levels.levels.insert(at, Level { rank, displayed: Queue::EMPTY, hidden: Queue::EMPTY });
            at
        });
        orders.push_back(levels.levels[at].queue_mut(is_displayed), slot);
    }

    /// Takes an order out of its level, and the level out of its side if it was the last one.
    pub(super) fn take_out(&mut self, orders: &mut Orders, slot: u32) {
        let Order { side, price, is_displayed, .. } = *orders.at(slot);
        let levels = &mut self.sides[side as usize];
        let Ok(at) = levels.find(side.rank(price)) else { return };
        let level = &mut levels.levels[at];
        orders.unlink(level.queue_mut(is_displayed), slot);
        if level.front() == NONE {
            levels.levels.remove(at);
        }
    }

    /// The order that an incoming one with this limit meets first.
    pub(super) fn meets(&self, side: Side, limit: u32) -> Option<u32> {
        let level = self.levels(side.opposite()).best()?;
        side.takes(limit, side.opposite().price(level.rank)).then(|| level.front())
    }

    /// Shares of one level, by its place from the best (0): price, displayed shares, hidden shares.
    pub(super) fn depth(&self, orders: &Orders, side: Side, place: usize) -> Option<(u32, u64, u64)> {
        let level = self.levels(side).iter().nth(place)?;
        let sum = |queue| orders.queue(queue).map(|(_, order)| u64::from(order.shares)).sum();
        Some((side.price(level.rank), sum(level.displayed), sum(level.hidden)))
    }
}
