//! One book, to read.

use super::books::Books;
use super::change::PriceLevel;
use super::level::Key;
use super::refusal::Suspect;
use super::table::Slot;
use crate::units::{Locate, OrderReference, Price, Side};

/// A live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The instrument.
    pub locate: Locate,
    /// The reference.
    pub reference: OrderReference,
    /// The side.
    pub side: Side,
    /// The price.
    pub price: Price,
    /// The shares that are left.
    pub shares: u32,
}

/// What stands before an order at its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Orders.
    pub orders: u32,
    /// The sum of their shares.
    pub shares: u64,
}

/// The book of one instrument.
#[derive(Clone, Copy)]
pub struct Book<'a> {
    books: &'a Books,
    locate: Locate,
}

impl Books {
    /// The book of an instrument; nothing for 0 and above [`super::Limits::instruments`].
    #[inline]
    pub fn book(&self, locate: Locate) -> Option<Book<'_>> {
        self.ladders.has(locate).then_some(Book { books: self, locate })
    }

    /// All books, by stock locate.
    pub fn all(&self) -> impl Iterator<Item = Book<'_>> {
        (1..=self.ladders.instruments()).map(|locate| Book { books: self, locate: Locate(locate) })
    }

    /// A live order.
    #[inline]
    pub fn order(&self, reference: OrderReference) -> Option<Order> {
        self.table.find(reference).map(|slot| self.order_in(slot))
    }

    fn order_in(&self, slot: Slot) -> Order {
        let order = self.table.order(slot);
        let level = self.levels.get(order.level);
        let (side, price) = (level.key.side(), level.key.price());
        Order { locate: level.locate, reference: self.table.reference(slot), side, price, shares: order.shares }
    }

    /// What stands before an order at its price; nothing if it is unknown or if orders are not kept ([`super::Depth::Levels`]). Each
    /// order before it is read.
    pub fn ahead_of(&self, reference: OrderReference) -> Option<Ahead> {
        let slot = self.table.find(reference).filter(|_| self.queues.are_kept())?;
        let mut ahead = Ahead::default();
        let mut at = self.queues.before(slot);
        while at != Slot::NONE {
            ahead.orders += 1;
            ahead.shares += u64::from(self.table.order(at).shares);
            at = self.queues.before(at);
        }
        Some(ahead)
    }
}

impl<'a> Book<'a> {
    /// The instrument.
    pub fn locate(&self) -> Locate {
        self.locate
    }

    /// The reason for which the book is not the exchange's any more; nothing if it is live.
    #[inline]
    pub fn suspect(&self) -> Option<Suspect> {
        self.books.suspect(self.locate)
    }

    /// The best level: the highest price of buy, the lowest of sell.
    #[inline]
    pub fn best(&self, side: Side) -> Option<PriceLevel> {
        self.books.ladders.best(self.locate, side).map(|(_, level)| self.books.price_level(level))
    }

    /// The number of levels.
    #[inline]
    pub fn depth(&self, side: Side) -> usize {
        self.books.ladders.len(self.locate, side)
    }

    /// The levels, the best first.
    pub fn levels(&self, side: Side) -> impl DoubleEndedIterator<Item = PriceLevel> + ExactSizeIterator + use<'a> {
        let books = self.books;
        books.ladders.levels(self.locate, side).rev().map(|level| books.price_level(level))
    }

    /// The level at a price.
    pub fn level(&self, side: Side, price: Price) -> Option<PriceLevel> {
        let level = self.books.ladders.find(self.locate, Key::new(side, price)?)?;
        Some(self.books.price_level(level))
    }

    /// The orders at a price, the first in time first; none if orders are not kept ([`super::Depth::Levels`]).
    pub fn orders_at(&self, side: Side, price: Price) -> impl Iterator<Item = Order> + use<'a> {
        let books = self.books;
        let level = Key::new(side, price).and_then(|key| books.ladders.find(self.locate, key));
        let first = level.map_or(Slot::NONE, |level| books.levels.get(level).first);
        let slots = std::iter::successors(Some(first), |slot| Some(books.queues.behind(*slot)));
        slots.take_while(|slot| *slot != Slot::NONE).map(|slot| books.order_in(slot))
    }
}
