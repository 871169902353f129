//! The records of price levels: a pool. A level's number does not change while it lives.

use super::table::Slot;
use crate::units::{Locate, Price, Side};
use sidestep_sys::{memory, prefetch};
use std::collections::TryReserveError;

/// A price as its side ranks it: the greater, the better. Buy: the price; sell: its complement. So one order of integers serves both
/// sides, and the sign tells the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) i32);

impl Key {
    /// Nothing for a price below 0 or above 2^31 - 1, which is above any price of ITCH (200,000.0000).
    #[inline(always)]
    pub(super) fn new(side: Side, price: Price) -> Option<Self> {
        let price = i32::try_from(price.0).ok().filter(|price| *price >= 0)?;
        Some(Self(if side == Side::Buy { price } else { !price }))
    }

    #[inline(always)]
    pub(super) fn side(self) -> Side {
        if self.0 >= 0 { Side::Buy } else { Side::Sell }
    }

    #[inline(always)]
    pub(super) fn price(self) -> Price {
        Price(i64::from(if self.0 >= 0 { self.0 } else { !self.0 }))
    }
}

/// A price level. Two stand in a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Level {
    /// The sum of its orders' shares.
    pub(super) shares: u64,
    /// Its price.
    pub(super) key: Key,
    /// Its orders; 0 in a free record.
    pub(super) orders: u32,
    /// The first order in time, if orders are kept; in a free record the number of the next one.
    pub(super) first: Slot,
    /// The last order in time.
    pub(super) last: Slot,
    /// Its instrument.
    pub(super) locate: Locate,
}

const _: () = assert!(size_of::<Level>() == 32);

/// The pool.
pub(super) struct Levels {
    levels: Vec<Level>,
    /// The first free record.
    free: u32,
    live: u32,
}

/// The memory of a pool.
pub(super) fn bytes(levels: u32) -> usize {
    levels as usize * size_of::<Level>()
}

const FREE: Level = Level { shares: 0, key: Key(0), orders: 0, first: Slot::NONE, last: Slot::NONE, locate: Locate(0) };

impl Levels {
    pub(super) fn new(levels: u32) -> Result<Self, TryReserveError> {
        let mut pool = Self { levels: memory::filled(FREE, levels as usize)?, free: 0, live: 0 };
        pool.clear();
        Ok(pool)
    }

    pub(super) fn bytes(&self) -> usize {
        self.levels.capacity() * size_of::<Level>()
    }

    /// Live levels.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// A level without orders; nothing if all are taken.
    #[inline]
    pub(super) fn create(&mut self, locate: Locate, key: Key) -> Option<u32> {
        let number = self.free;
        let level = self.levels.get_mut(number as usize)?;
        self.free = level.first.0;
        *level = Level { locate, key, ..FREE };
        self.live += 1;
        Some(number)
    }

    /// Gives a level back.
    #[inline]
    pub(super) fn release(&mut self, number: u32) {
        self.levels[number as usize] = Level { first: Slot(self.free), ..FREE };
        self.free = number;
        self.live -= 1;
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> &Level {
        &self.levels[number as usize]
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Level {
        &mut self.levels[number as usize]
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        if let Some(level) = self.levels.get(number as usize) {
            prefetch::to_write(level);
        }
    }

    /// Gives all levels back.
    pub(super) fn clear(&mut self) {
        for (number, level) in self.levels.iter_mut().enumerate() {
            *level = Level { first: Slot(number as u32 + 1), ..FREE };
        }
        (self.free, self.live) = (0, 0);
    }
}
