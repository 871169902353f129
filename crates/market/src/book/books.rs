//! The books, and what a message does to them.

use super::change::{Change, PriceLevel, Touched};
use super::ladder::{Ladders, NoRoom};
use super::level::{Key, Levels};
use super::limits::{Depth, Limits};
use super::queue::Queues;
use super::refusal::{Refusal, Suspect, Trust};
use super::table::{NoVacancy, Order, Slot, Table, Vacancy};
use crate::itch::Message;
use crate::units::{Locate, OrderReference, Price, Side};
use sidestep_sys::Problem;
use std::collections::TryReserveError;

/// The books of all instruments of a channel.
///
/// A book is empty and live at first. [`Book`](super::Book) shows one of them.
pub struct Books {
    pub(super) table: Table,
    pub(super) levels: Levels,
    pub(super) ladders: Ladders,
    pub(super) queues: Queues,
    trust: Trust,
}

impl Books {
    /// Empty books. Takes all the memory that they will ever use, on huge pages where the kernel has free ones, and writes it once.
    ///
    /// # Errors
    /// A limit is 0 or too large, or there is not enough memory.
    pub fn new(limits: Limits, depth: Depth) -> Result<Self, Problem> {
        limits.check()?;
        Self::take(limits, depth).map_err(|error| {
            let what = format!("cannot make order books of {} bytes", limits.bytes(depth));
            Problem::failed(what, error).next("lower Limits::orders and Limits::levels")
        })
    }

    fn take(limits: Limits, depth: Depth) -> Result<Self, TryReserveError> {
        Ok(Self {
            table: Table::new(limits.orders)?,
            levels: Levels::new(limits.levels)?,
            ladders: Ladders::new(limits.instruments, limits.blocks_entries(), limits.side_levels)?,
            queues: Queues::new(if depth == Depth::Orders { limits.orders } else { 0 })?,
            trust: Trust::new(usize::from(limits.instruments) + 1),
        })
    }

    /// The memory of the books, bytes. It never changes.
    pub fn bytes(&self) -> usize {
        let books = self.table.bytes() + self.levels.bytes() + self.ladders.bytes();
        books + self.queues.bytes() + self.trust.bytes()
    }

    /// Live orders of all books.
    pub fn orders(&self) -> u32 {
        self.table.live()
    }

    /// Price levels of all books.
    pub fn levels(&self) -> u32 {
        self.levels.live()
    }

    /// The messages that were refused for this reason.
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.trust.refused(refusal)
    }

    /// Applies a message. Nothing is returned for one that does not change a book.
    ///
    /// Executions and cancels take shares from the order at its own price; one without shares left is gone, and its reference may come
    /// again. A replaced order keeps side and instrument, and is last at its price.
    ///
    /// # Errors
    /// The reason why the message was refused. It has changed nothing, it is counted, and the book is suspect.
    #[inline]
    pub fn apply(&mut self, message: &Message<'_>) -> Result<Option<Change>, Refusal> {
        match message {
            Message::AddOrder(add) => {
                self.add(add.locate(), add.order_reference(), add.side(), add.shares(), add.price()).map(Some)
            }
            Message::AddOrderMpid(add) => {
                self.add(add.locate(), add.order_reference(), add.side(), add.shares(), add.price()).map(Some)
            }
            Message::OrderExecuted(less) => self.reduce(less.locate(), less.order_reference(), less.shares()),
            Message::OrderExecutedWithPrice(less) => self.reduce(less.locate(), less.order_reference(), less.shares()),
            Message::OrderCancel(less) => self.reduce(less.locate(), less.order_reference(), less.shares()),
            Message::OrderDelete(delete) => self.delete(delete.locate(), delete.order_reference()).map(Some),
            Message::OrderReplace(new) => {
                let (old, reference) = (new.old_order_reference(), new.order_reference());
                self.replace(new.locate(), old, reference, new.shares(), new.price()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Adds an order, last at its price. No side is a side that the message does not tell.
    ///
    /// # Errors
    /// As [`Books::apply`].
    #[inline]
    pub fn add(
        &mut self,
        locate: Locate,
        reference: OrderReference,
        side: Option<Side>,
        shares: u32,
        price: Price,
    ) -> Result<Change, Refusal> {
        self.try_add(locate, reference, side, shares, price).map_err(|refusal| self.refuse(locate, refusal))
    }

    /// Takes shares from an order. Nothing is returned for 0 shares, which change nothing.
    ///
    /// # Errors
    /// As [`Books::apply`].
    #[inline]
    pub fn reduce(
        &mut self,
        locate: Locate,
        reference: OrderReference,
        shares: u32,
    ) -> Result<Option<Change>, Refusal> {
        self.try_reduce(locate, reference, shares).map_err(|refusal| self.refuse(locate, refusal))
    }

    /// Takes an order away.
    ///
    /// # Errors
    /// As [`Books::apply`].
    #[inline]
    pub fn delete(&mut self, locate: Locate, reference: OrderReference) -> Result<Change, Refusal> {
        self.try_delete(locate, reference).map_err(|refusal| self.refuse(locate, refusal))
    }

    /// Replaces an order by another one of the same side, last at its price. The reference may stay the same.
    ///
    /// # Errors
    /// As [`Books::apply`].
    #[inline]
    pub fn replace(
        &mut self,
        locate: Locate,
        old: OrderReference,
        reference: OrderReference,
        shares: u32,
        price: Price,
    ) -> Result<Change, Refusal> {
        self.try_replace(locate, old, reference, shares, price).map_err(|refusal| self.refuse(locate, refusal))
    }

    fn try_add(
        &mut self,
        locate: Locate,
        reference: OrderReference,
        side: Option<Side>,
        shares: u32,
        price: Price,
    ) -> Result<Change, Refusal> {
        if !self.ladders.has(locate) {
            return Err(Refusal::UnknownInstrument);
        }
        let key = Key::new(side.ok_or(Refusal::BadSide)?, price).ok_or(Refusal::BadPrice)?;
        if shares == 0 {
            return Err(Refusal::NoShares);
        }
        let vacancy = self.vacancy(reference)?;
        if self.table.is_full() {
            return Err(Refusal::OrdersFull);
        }
        let level = self.level_at(locate, key)?;
        self.enter(vacancy, reference, Order { shares, level });
        Ok(self.changed(level, self.place(locate, key)))
    }

    fn try_reduce(
        &mut self,
        locate: Locate,
        reference: OrderReference,
        shares: u32,
    ) -> Result<Option<Change>, Refusal> {
        let (slot, order) = self.order_of(locate, reference)?;
        if shares > order.shares {
            return Err(Refusal::TooManyShares);
        }
        if shares == order.shares {
            return Ok(Some(self.take_out(locate, slot, order)));
        }
        if shares == 0 {
            return Ok(None);
        }
        self.table.set(slot, Order { shares: order.shares - shares, ..order });
        let level = self.levels.get_mut(order.level);
        level.shares -= u64::from(shares);
        let key = level.key;
        Ok(Some(self.changed(order.level, self.place(locate, key))))
    }

    fn try_delete(&mut self, locate: Locate, reference: OrderReference) -> Result<Change, Refusal> {
        let (slot, order) = self.order_of(locate, reference)?;
        Ok(self.take_out(locate, slot, order))
    }

    /// Takes an order, and its level with the last one, out of the book.
    #[inline(always)]
    fn take_out(&mut self, locate: Locate, slot: Slot, order: Order) -> Change {
        let touched = self.place(locate, self.levels.get(order.level).key);
        self.leave(slot, order);
        self.table.remove(slot);
        let change = self.changed(order.level, touched);
        self.drop_if_empty(order.level);
        change
    }

    /// A live order; refused if it is not of this instrument.
    #[inline(always)]
    pub(super) fn order_of(&mut self, locate: Locate, reference: OrderReference) -> Result<(Slot, Order), Refusal> {
        if !self.ladders.has(locate) {
            return Err(Refusal::UnknownInstrument);
        }
        let slot = self.table.find(reference).ok_or(Refusal::UnknownOrder)?;
        let order = self.table.order(slot);
        let own = self.levels.get(order.level).locate;
        if own == locate { Ok((slot, order)) } else { Err(self.other_instrument(own)) }
    }

    #[cold]
    fn other_instrument(&mut self, own: Locate) -> Refusal {
        self.trust.suspect(usize::from(own.0), Suspect::Refused(Refusal::OtherInstrument));
        Refusal::OtherInstrument
    }

    #[inline(always)]
    pub(super) fn vacancy(&self, reference: OrderReference) -> Result<Vacancy, Refusal> {
        self.table.vacancy(reference).map_err(|why| match why {
            NoVacancy::Taken => Refusal::DuplicateReference,
            NoVacancy::Full => Refusal::OrdersFull,
        })
    }

    /// The level at a price; a new one if there is none.
    #[inline(always)]
    pub(super) fn level_at(&mut self, locate: Locate, key: Key) -> Result<u32, Refusal> {
        self.ladders.find(locate, key).map_or_else(|| self.new_level(locate, key), Ok)
    }

    fn new_level(&mut self, locate: Locate, key: Key) -> Result<u32, Refusal> {
        self.ladders.reserve(locate, key.side()).map_err(|why| match why {
            NoRoom::Side => Refusal::SideFull,
            NoRoom::Pool => Refusal::LevelsFull,
        })?;
        let Some(level) = self.levels.create(locate, key) else {
            self.ladders.shrink(locate, key.side());
            return Err(Refusal::LevelsFull);
        };
        self.ladders.insert(locate, key, level);
        Ok(level)
    }

    /// Puts an order into its place in the table, and last at its level.
    #[inline(always)]
    pub(super) fn enter(&mut self, vacancy: Vacancy, reference: OrderReference, order: Order) {
        let slot = self.table.occupy(vacancy, reference, order);
        self.join(slot, order);
    }

    /// Makes an order the last one of its level.
    #[inline(always)]
    pub(super) fn join(&mut self, slot: Slot, order: Order) {
        let level = self.levels.get_mut(order.level);
        level.shares += u64::from(order.shares);
        level.orders += 1;
        if self.queues.are_kept() {
            self.queues.push(level, slot);
        }
    }

    /// Takes an order out of its level.
    #[inline(always)]
    pub(super) fn leave(&mut self, slot: Slot, order: Order) {
        let level = self.levels.get_mut(order.level);
        level.shares -= u64::from(order.shares);
        level.orders -= 1;
        if self.queues.are_kept() {
            self.queues.unlink(level, slot);
        }
    }

    /// Takes a level without orders out of the book.
    #[inline(always)]
    pub(super) fn drop_if_empty(&mut self, level: u32) {
        let empty = *self.levels.get(level);
        if empty.orders == 0 {
            self.ladders.remove(empty.locate, empty.key);
            self.ladders.shrink(empty.locate, empty.key.side());
            self.levels.release(level);
        }
    }

    /// The place of a level that is in the book.
    #[inline(always)]
    pub(super) fn place(&self, locate: Locate, key: Key) -> Touched {
        let top = self.ladders.best(locate, key.side()).is_some_and(|(best, _)| best <= key);
        if top { Touched::Top } else { Touched::Deeper }
    }

    #[inline(always)]
    pub(super) fn changed(&self, level: u32, touched: Touched) -> Change {
        let at = self.levels.get(level);
        Change { locate: at.locate, side: at.key.side(), touched, level: self.price_level(level), left: None }
    }

    #[inline(always)]
    pub(super) fn price_level(&self, level: u32) -> PriceLevel {
        let level = self.levels.get(level);
        PriceLevel { price: level.key.price(), shares: level.shares, orders: level.orders }
    }

    #[cold]
    fn refuse(&mut self, locate: Locate, refusal: Refusal) -> Refusal {
        self.trust.count(refusal);
        self.trust.suspect(usize::from(locate.0), Suspect::Refused(refusal));
        refusal
    }

    /// The reason for which a book is suspect; nothing if it is live.
    pub fn suspect(&self, locate: Locate) -> Option<Suspect> {
        self.trust.why(usize::from(locate.0))
    }

    /// Makes all books suspect: messages of the channel were lost.
    pub fn suspect_all(&mut self) {
        self.trust.all(Suspect::Lost);
    }

    /// Empties all books, before a snapshot or after a reset of the channel; they are live. It writes all of the memory. What was
    /// refused stays counted.
    pub fn clear(&mut self) {
        self.table.clear();
        self.levels.clear();
        self.ladders.clear();
        self.trust.all_live();
    }

    /// Empties the book of one instrument; it is live. It reads the whole table of orders: some ms per million of them.
    pub fn clear_instrument(&mut self, locate: Locate) {
        let mut from = Slot(0);
        while let Some(slot) = self.table.next_order(from) {
            let order = self.table.order(slot);
            if self.levels.get(order.level).locate == locate {
                self.take_out(locate, slot, order);
            }
            from = Slot(slot.0 + 1);
        }
        self.trust.live(usize::from(locate.0));
    }
}
