//! Books of feeds that tell price levels by their number, as CME MDP 3.0 does: level 1 is the best.
//!
//! The feed keeps so many levels a side (the depth, from the instrument's definition). A new level moves those below it down, and what
//! falls below the depth is gone without a message; a deleted one moves those below it up. So nothing is searched: two arrays, and a level's
//! number is its place. Implied levels are a book of their own; an instrument without them has one of depth 0.
//!
//! What does not fit (a level with a gap above it, a change of one that is not there) is refused, changes nothing, is counted, and makes
//! the book suspect until [`Book::clear`]. Prices are not compared: a book is right only at the end of an event, and may be crossed.

use crate::units::{Price, Side};
use std::fmt::{self, Display, Formatter};

/// The most levels a side may have. CME's books have 10 at most.
pub const DEPTH_MAX: u8 = 16;

/// A level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The price, in units of the feed.
    pub price: Price,
    /// The quantity.
    pub quantity: u64,
    /// The number of orders; 0 if the feed does not tell it (implied levels).
    pub orders: u32,
}

/// What is done at a level: MDUpdateAction (FIX tag 279), as CME uses it. 3 and 4 are read as handlers of that feed read them
/// (decision 0045): neither name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// 0, New: the level is inserted.
    New(Level),
    /// 1, Change: quantity and number of orders are others; the price as well, if it is told.
    Change(Level),
    /// 2, Delete: the level is taken out.
    Delete,
    /// 3, Delete thru: the side is emptied, whatever the number is.
    DeleteThru,
    /// 4, Delete from: the levels from the best one down to this one are taken out, and those below move up.
    DeleteFrom,
    /// 5, Overlay: the level is replaced, whatever it was, or is put behind the last one.
    Overlay(Level),
}

/// The reason for which an action was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The number is 0 or above the depth.
    BadNumber,
    /// A level would come with a gap above it.
    Gap,
    /// There is no such level.
    NoLevel,
    /// A level without quantity.
    NoQuantity,
}

impl Display for Refusal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BadNumber => "the level's number is 0 or above the depth",
            Self::Gap => "a level would have none above it",
            Self::NoLevel => "there is no such level",
            Self::NoQuantity => "a level has no quantity",
        })
    }
}

impl std::error::Error for Refusal {}

/// One side.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    levels: [Level; DEPTH_MAX as usize],
    len: usize,
}

impl Half {
    fn apply(&mut self, depth: usize, number: u8, action: Action) -> Result<(), Refusal> {
        // Number 0 is above every depth.
        let at = usize::from(number).wrapping_sub(1);
        match action {
            Action::DeleteThru => self.len = 0,
            _ if at >= depth => return Err(Refusal::BadNumber),
            Action::New(level) | Action::Change(level) | Action::Overlay(level) if level.quantity == 0 => {
                return Err(Refusal::NoQuantity);
            }
            Action::New(_) | Action::Overlay(_) if at > self.len => return Err(Refusal::Gap),
            Action::New(level) => {
                // What is at the last place falls out.
                self.len = (self.len + 1).min(depth);
                self.levels[at..self.len].rotate_right(1);
                self.levels[at] = level;
            }
            Action::Overlay(level) => {
                self.len = self.len.max(at + 1);
                self.levels[at] = level;
            }
            _ if at >= self.len => return Err(Refusal::NoLevel),
            Action::Change(level) => self.levels[at] = level,
            Action::Delete => self.take(at, at + 1),
            Action::DeleteFrom => self.take(0, at + 1),
        }
        Ok(())
    }

    /// Takes the levels from `first` to before `end` out; those below move up.
    fn take(&mut self, first: usize, end: usize) {
        self.levels.copy_within(end..self.len, first);
        self.len -= end - first;
    }
}

/// The book of one instrument.
///
/// The default has depth 0: no level fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Book {
    sides: [Half; 2],
    depth: u8,
    suspect: Option<Refusal>,
    refused: u64,
}

impl Book {
    /// An empty book of so many levels a side; nothing if there are more than [`DEPTH_MAX`].
    pub fn new(depth: u8) -> Option<Self> {
        (depth <= DEPTH_MAX).then(|| Self { depth, ..Self::default() })
    }

    /// Applies an action to the level of this number, from 1.
    ///
    /// # Errors
    /// The reason why it was refused. It has changed nothing, is counted, and the book is suspect.
    #[inline]
    pub fn apply(&mut self, side: Side, number: u8, action: Action) -> Result<(), Refusal> {
        self.sides[side as usize].apply(usize::from(self.depth), number, action).inspect_err(|refusal| {
            self.refused += 1;
            self.suspect = self.suspect.or(Some(*refusal));
        })
    }

    /// Empties the book, before a snapshot or after a reset of the channel; it is live. What was refused stays counted.
    pub fn clear(&mut self) {
        self.sides = [Half::default(); 2];
        self.suspect = None;
    }

    /// The levels of a side, the best first.
    #[inline]
    pub fn levels(&self, side: Side) -> &[Level] {
        let half = &self.sides[side as usize];
        &half.levels[..half.len]
    }

    /// The best level.
    #[inline]
    pub fn best(&self, side: Side) -> Option<Level> {
        self.levels(side).first().copied()
    }

    /// The levels that a side may have.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// The first refusal since the book was live; nothing if it is.
    pub fn suspect(&self) -> Option<Refusal> {
        self.suspect
    }

    /// Actions that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(price: i64) -> Level {
        Level { price: Price(price), quantity: 10, orders: 1 }
    }

    fn book(prices: &[i64]) -> Book {
        let mut book = Book::new(5).unwrap();
        for (at, price) in prices.iter().enumerate() {
            book.apply(Side::Buy, at as u8 + 1, Action::New(level(*price))).unwrap();
        }
        book
    }

    fn prices(book: &Book) -> Vec<i64> {
        book.levels(Side::Buy).iter().map(|level| level.price.0).collect()
    }

    #[test]
    fn a_new_level_moves_others_down_and_the_last_one_out() {
        let mut book = book(&[50, 40, 30, 20, 10]);
        book.apply(Side::Buy, 2, Action::New(level(45))).unwrap();
        assert_eq!(prices(&book), [50, 45, 40, 30, 20]);
        // One that has fallen out does not come back by itself.
        book.apply(Side::Buy, 1, Action::Delete).unwrap();
        assert_eq!(prices(&book), [45, 40, 30, 20]);
        assert_eq!(book.best(Side::Sell), None);
    }

    #[test]
    fn deletes_take_one_level_all_down_to_it_or_the_whole_side() {
        let after = |action| {
            let mut book = book(&[50, 40, 30, 20]);
            book.apply(Side::Buy, 3, action).unwrap();
            prices(&book)
        };
        assert_eq!(after(Action::Delete), [50, 40, 20]);
        assert_eq!(after(Action::DeleteThru), [0; 0]);
        assert_eq!(after(Action::DeleteFrom), [20]);
        assert_eq!(after(Action::Overlay(level(33))), [50, 40, 33, 20]);
        assert_eq!(after(Action::Change(level(31))), [50, 40, 31, 20]);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_makes_the_book_suspect() {
        let mut book = book(&[50]);
        let empty = Level { quantity: 0, ..level(50) };
        for (number, action, why) in [
            (0, Action::Delete, Refusal::BadNumber),
            (6, Action::New(level(1)), Refusal::BadNumber),
            (3, Action::New(level(1)), Refusal::Gap),
            (3, Action::Overlay(level(1)), Refusal::Gap),
            (2, Action::Change(level(1)), Refusal::NoLevel),
            (2, Action::DeleteFrom, Refusal::NoLevel),
            (1, Action::New(empty), Refusal::NoQuantity),
        ] {
            assert_eq!(book.apply(Side::Buy, number, action), Err(why));
            assert_eq!(prices(&book), [50]);
        }
        assert_eq!((book.suspect(), book.refused()), (Some(Refusal::BadNumber), 7));
        book.clear();
        assert_eq!((book.suspect(), book.refused(), book.best(Side::Buy)), (None, 7, None));
    }

    #[test]
    fn a_book_of_depth_0_takes_no_level_and_one_too_deep_cannot_be_made() {
        let mut none = Book::new(0).unwrap();
        assert_eq!(none.apply(Side::Buy, 1, Action::New(level(1))), Err(Refusal::BadNumber));
        assert_eq!(none.apply(Side::Buy, 1, Action::DeleteThru), Ok(()));
        assert_eq!((none.best(Side::Buy), none.depth()), (None, Book::default().depth()));
        assert!(Book::new(DEPTH_MAX).is_some() && Book::new(DEPTH_MAX + 1).is_none());
    }

    /// The same by inserting into and removing from a vector.
    fn naive(levels: &mut Vec<Level>, depth: usize, number: usize, action: Action) {
        match action {
            Action::DeleteThru => levels.clear(),
            _ if number == 0 || number > depth => {}
            Action::New(level) if number <= levels.len() + 1 => {
                levels.insert(number - 1, level);
                levels.truncate(depth);
            }
            Action::Overlay(level) if number == levels.len() + 1 => levels.push(level),
            Action::Change(level) | Action::Overlay(level) if number <= levels.len() => levels[number - 1] = level,
            Action::Delete if number <= levels.len() => _ = levels.remove(number - 1),
            Action::DeleteFrom if number <= levels.len() => _ = levels.drain(..number),
            _ => {}
        }
    }

    fn actions() -> impl Strategy<Value = Action> {
        let level = || (1..100_i64).prop_map(level);
        prop_oneof![
            4 => level().prop_map(Action::New),
            1 => level().prop_map(Action::Change),
            1 => level().prop_map(Action::Overlay),
            2 => Just(Action::Delete),
            1 => Just(Action::DeleteThru),
            1 => Just(Action::DeleteFrom),
        ]
    }

    proptest! {
        #[test]
        fn any_actions_leave_what_they_leave_in_a_list(
            depth in 0..=DEPTH_MAX,
            steps in prop::collection::vec((0..=DEPTH_MAX + 1, actions()), 1..200),
        ) {
            let mut book = Book::new(depth).unwrap();
            let mut list = Vec::new();
            for (number, action) in steps {
                let _ = book.apply(Side::Sell, number, action);
                naive(&mut list, usize::from(depth), usize::from(number), action);
                prop_assert_eq!(book.levels(Side::Sell), &list[..]);
            }
        }
    }
}
