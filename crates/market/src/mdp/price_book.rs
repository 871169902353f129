//! A book by price: a fixed number of levels on each side, addressed by their position.
//!
//! "New" at a position moves what was there down, and what falls below the depth is gone without a message; "delete" moves up. There is
//! nothing to be searched.

use super::schema::types::Action;
use crate::units::{Price, Side};

/// Levels of one side: the deepest book that such feeds have.
pub const DEPTH_MAX: usize = 10;

/// A level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceLevel {
    /// Its price, nine decimals.
    pub price: Price,
    /// The quantity of all of its orders.
    pub size: i32,
    /// Orders; 0 if the feed does not tell.
    pub orders: i32,
}

/// A change that does not fit the book: an earlier one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inconsistent;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ladder {
    levels: [PriceLevel; DEPTH_MAX],
    count: usize,
}

impl Ladder {
    fn insert(&mut self, at: usize, level: PriceLevel, depth: usize) -> Result<(), Inconsistent> {
        if at > self.count || at >= depth {
            return Err(Inconsistent);
        }
        self.count = (self.count + 1).min(depth);
        self.levels.copy_within(at..self.count - 1, at + 1);
        self.levels[at] = level;
        Ok(())
    }

    fn change(&mut self, at: usize, level: PriceLevel) -> Result<(), Inconsistent> {
        *self.levels[..self.count].get_mut(at).ok_or(Inconsistent)? = level;
        Ok(())
    }

    /// Removes the levels from `from` up to `to`, which is not among them.
    fn remove(&mut self, from: usize, to: usize) -> Result<(), Inconsistent> {
        if to > self.count {
            return Err(Inconsistent);
        }
        self.levels.copy_within(to..self.count, from);
        self.count -= to - from;
        Ok(())
    }
}

/// A book by price of one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceBook {
    sides: [Ladder; 2],
    depth: usize,
}

impl PriceBook {
    /// An empty book of so many levels; [`DEPTH_MAX`] at most.
    pub fn new(depth: u8) -> Self {
        Self { sides: [Ladder::default(); 2], depth: usize::from(depth).min(DEPTH_MAX) }
    }

    /// The levels of a side, the best first.
    #[inline]
    pub fn levels(&self, side: Side) -> &[PriceLevel] {
        let ladder = &self.sides[side as usize];
        &ladder.levels[..ladder.count]
    }

    /// The best level of a side.
    #[inline]
    pub fn best(&self, side: Side) -> Option<&PriceLevel> {
        self.levels(side).first()
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.sides.iter_mut().for_each(|side| side.count = 0);
    }

    /// Changes a level. `position` 1 is the best one.
    ///
    /// # Errors
    /// Fails, and changes nothing, if there is no such position, or the action is unknown.
    #[inline]
    pub fn apply(&mut self, side: Side, action: Action, position: u8, level: PriceLevel) -> Result<(), Inconsistent> {
        let at = usize::from(position).checked_sub(1).ok_or(Inconsistent)?;
        let ladder = &mut self.sides[side as usize];
        match action {
            Action::NEW => ladder.insert(at, level, self.depth),
            Action::CHANGE | Action::OVERLAY => ladder.change(at, level),
            Action::DELETE => ladder.remove(at, at + 1),
            Action::DELETE_THRU => ladder.remove(0, ladder.count),
            Action::DELETE_FROM => ladder.remove(0, at + 1),
            _ => Err(Inconsistent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(price: i64) -> PriceLevel {
        PriceLevel { price: Price(price), size: 1, orders: 1 }
    }

    fn prices(book: &PriceBook) -> Vec<i64> {
        book.levels(Side::Buy).iter().map(|level| level.price.0).collect()
    }

    #[test]
    fn a_new_level_moves_the_rest_down_and_the_last_one_out() {
        let mut book = PriceBook::new(3);
        for (position, price) in [(1, 10), (2, 8), (3, 7), (1, 11), (2, 9)] {
            book.apply(Side::Buy, Action::NEW, position, level(price)).unwrap();
        }
        assert_eq!(prices(&book), [11, 9, 10]);
        assert_eq!(book.best(Side::Sell), None);
    }

    #[test]
    fn deleting_moves_the_rest_up() {
        let mut book = PriceBook::new(4);
        for price in [4, 3, 2, 1] {
            let position = book.levels(Side::Buy).len() as u8 + 1;
            book.apply(Side::Buy, Action::NEW, position, level(price)).unwrap();
        }
        book.apply(Side::Buy, Action::DELETE, 2, level(0)).unwrap();
        assert_eq!(prices(&book), [4, 2, 1]);
        book.apply(Side::Buy, Action::CHANGE, 1, level(5)).unwrap();
        book.apply(Side::Buy, Action::DELETE_FROM, 2, level(0)).unwrap();
        assert_eq!(prices(&book), [1]);
        book.apply(Side::Buy, Action::DELETE_THRU, 1, level(0)).unwrap();
        assert_eq!(prices(&book), [0; 0]);
    }

    #[test]
    fn positions_that_are_not_there_are_refused() {
        let mut book = PriceBook::new(2);
        let refused =
            [(Action::NEW, 0), (Action::NEW, 2), (Action::NEW, 255), (Action::CHANGE, 1), (Action::DELETE, 1)];
        for (action, position) in refused.into_iter().chain([(Action::DELETE_FROM, 1), (Action(9), 1)]) {
            assert_eq!(book.apply(Side::Sell, action, position, level(1)), Err(Inconsistent), "{action:?} {position}");
        }
        assert_eq!(book, PriceBook::new(2));
        assert_eq!(PriceBook::new(0).apply(Side::Buy, Action::NEW, 1, level(1)), Err(Inconsistent));
    }

    proptest! {
        #[test]
        fn the_book_is_a_list_that_is_cut(depth in 0u8..12, changes in prop::collection::vec((0u8..7, 0u8..13, any::<i64>()), 0..99)) {
            let (mut book, mut model) = (PriceBook::new(depth), Vec::<PriceLevel>::new());
            let depth = usize::from(depth).min(DEPTH_MAX);
            for (action, position, price) in changes {
                let at = usize::from(position).wrapping_sub(1);
                let done = match action {
                    0 if at <= model.len() && at < depth => {
                        model.insert(at, level(price));
                        model.truncate(depth);
                        true
                    }
                    1 | 5 if at < model.len() => {
                        model[at] = level(price);
                        true
                    }
                    2 if at < model.len() => {
                        model.remove(at);
                        true
                    }
                    3 if position > 0 => {
                        model.clear();
                        true
                    }
                    4 if at < model.len() => {
                        model.drain(..=at);
                        true
                    }
                    _ => false,
                };
                prop_assert_eq!(book.apply(Side::Buy, Action(action), position, level(price)).is_ok(), done);
                prop_assert_eq!(book.levels(Side::Buy), model.as_slice());
            }
        }
    }
}
