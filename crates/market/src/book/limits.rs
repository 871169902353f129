//! What books may hold.

use super::blocks::BLOCK_ENTRIES_MIN;
use super::table::LEVEL_NUMBERS;
use super::{blocks, ladder, level, queue, refusal, table};
use sidestep_sys::Problem;

/// The depth to which books are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// L2: the shares and the number of orders of each price level.
    Levels,
    /// L3: the orders of each level in time order, too; 8 bytes more per order.
    Orders,
}

/// What books may hold at most. All of the memory is taken when books are made ([`Limits::bytes`]); what does not fit is refused
/// and makes the book of its instrument suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The highest stock locate.
    pub instruments: u16,
    /// Live orders of all instruments.
    pub orders: u32,
    /// Price levels of all instruments, at most [`Limits::LEVELS_MAX`].
    pub levels: u32,
    /// Price levels of one side of one instrument, at most [`Limits::SIDE_LEVELS_MAX`]: the longest array in which a new level has to
    /// find its place.
    pub side_levels: u16,
}

impl Default for Limits {
    /// Twice a busy day of Nasdaq, rounded up (30 January 2017: 1,647,972 live orders, 8,371 instruments, 2,422 levels in the deepest
    /// book): 300 MB.
    fn default() -> Self {
        Self { instruments: 16_384, orders: 4 << 20, levels: 2 << 20, side_levels: 8_192 }
    }
}

impl Limits {
    /// The most levels of all instruments: an order keeps the number of its level in three bytes.
    pub const LEVELS_MAX: u32 = LEVEL_NUMBERS;
    /// The most levels of a side.
    pub const SIDE_LEVELS_MAX: u16 = 1 << 15;

    /// The memory that books of these limits take, bytes.
    pub fn bytes(&self, depth: Depth) -> usize {
        table::bytes(self.orders)
            + level::bytes(self.levels)
            + blocks::bytes(self.blocks_entries())
            + ladder::bytes(self.instruments)
            + refusal::bytes(usize::from(self.instruments) + 1)
            + if depth == Depth::Orders { queue::bytes(self.orders) } else { 0 }
    }

    /// Entries of the pool from which the arrays of levels come. A block is at least a quarter full, or the smallest: the pool is large
    /// enough for every book, unless large blocks lie between small ones so that no larger one is left; then a level is refused.
    pub(super) fn blocks_entries(&self) -> usize {
        let sides = 2 * usize::from(self.instruments);
        let largest = usize::from(self.side_levels).next_power_of_two().max(BLOCK_ENTRIES_MIN);
        let entries = 4 * self.levels as usize + BLOCK_ENTRIES_MIN * sides.min(self.levels as usize);
        entries.next_multiple_of(largest)
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let refuse = |why: String, next: &str| Err(Problem::usage("cannot make order books", why).next(next));
        if self.instruments == 0 || self.orders == 0 || self.levels == 0 || self.side_levels == 0 {
            return refuse(
                "a limit is 0".to_owned(),
                "give each limit a value of 1 or more, or take Limits::default()",
            );
        }
        if self.orders > table::ORDERS_MAX {
            return refuse(
                format!("{} live orders are more than {}", self.orders, table::ORDERS_MAX),
                "keep the instruments in several Books",
            );
        }
        if self.levels > Self::LEVELS_MAX || self.side_levels > Self::SIDE_LEVELS_MAX {
            return refuse(
                format!("there may be {} levels, and {} on a side", Self::LEVELS_MAX, Self::SIDE_LEVELS_MAX),
                "lower Limits::levels or Limits::side_levels",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_day_are_what_the_documentation_says() {
        let megabytes = |depth| Limits::default().bytes(depth) / 1_000_000;
        assert_eq!((megabytes(Depth::Levels), megabytes(Depth::Orders)), (270, 337));
        assert!(Limits::default().check().is_ok());
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused_with_a_next_step() {
        let small = Limits { instruments: 1, orders: 1, levels: 1, side_levels: 1 };
        assert!(small.check().is_ok());
        for wrong in [
            Limits { orders: 0, ..small },
            Limits { orders: u32::MAX, ..small },
            Limits { levels: Limits::LEVELS_MAX + 1, ..small },
            Limits { side_levels: Limits::SIDE_LEVELS_MAX + 1, ..small },
        ] {
            assert!(!wrong.check().unwrap_err().next_step().is_empty());
        }
    }
}
