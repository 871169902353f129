//! An instrument: its books, and how far each of them is.

use super::event::{BookKind, Event, StaleReason};
use super::limits::Limits;
use super::order_book::OrderBook;
use crate::book::by_price;
use std::collections::TryReserveError;

/// How far a book is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) is_live: bool,
    /// Packets up to this one are in the book.
    pub(super) included: u32,
    /// The last snapshot loop that had the instrument.
    pub(super) seen_in: u32,
}

impl Progress {
    fn new(is_live: bool) -> Self {
        Self { is_live, included: 0, seen_in: 0 }
    }
}

/// The parts of a book by order, as far as they have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    /// The next part; 0 if the first one has not come.
    pub(super) next: u32,
    /// The packet that all parts name.
    pub(super) sequence: u32,
}

/// How an update's number follows the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbered {
    /// To be applied.
    Next,
    /// In the book, or of a book that waits for a snapshot.
    Old,
    /// Updates are missing.
    Gap(u32),
}

/// An instrument of a channel.
#[derive(Clone, Debug)]
pub struct Instrument {
    security_id: i32,
    pub(super) book: by_price::Book,
    pub(super) implied: by_price::Book,
    pub(super) orders: OrderBook,
    pub(super) prices: Progress,
    pub(super) by_order: Progress,
    pub(super) chunks: Chunks,
    /// The number of the last update; nothing if the next one cannot be judged by it.
    pub(super) rpt_seq: Option<u32>,
    /// Changed since the last end of an event.
    pub(super) is_touched: bool,
}

impl Instrument {
    /// An instrument that has no number yet.
    fn new(orders_per_side: u32) -> Result<Self, TryReserveError> {
        Ok(Self {
            security_id: 0,
            book: by_price::Book::default(),
            implied: by_price::Book::default(),
            orders: OrderBook::new(orders_per_side)?,
            prices: Progress::new(false),
            by_order: Progress::new(orders_per_side == 0),
            chunks: Chunks::default(),
            rpt_seq: None,
            is_touched: false,
        })
    }

    /// The instrument's number.
    pub fn security_id(&self) -> i32 {
        self.security_id
    }

    /// The book by price.
    pub fn book(&self) -> &by_price::Book {
        &self.book
    }

    /// The book of implied prices, which the matching engine derives of spreads.
    pub fn implied(&self) -> &by_price::Book {
        &self.implied
    }

    /// The book by order; empty if [`Limits::orders_per_side`] is 0.
    pub fn orders(&self) -> &OrderBook {
        &self.orders
    }

    /// The book can be relied on.
    pub fn is_live(&self, kind: BookKind) -> bool {
        self.progress(kind).is_live
    }

    pub(super) fn progress(&self, kind: BookKind) -> &Progress {
        match kind {
            BookKind::Prices => &self.prices,
            BookKind::Orders => &self.by_order,
        }
    }

    pub(super) fn progress_mut(&mut self, kind: BookKind) -> &mut Progress {
        match kind {
            BookKind::Prices => &mut self.prices,
            BookKind::Orders => &mut self.by_order,
        }
    }

    pub(super) fn clear(&mut self, kind: BookKind) {
        match kind {
            BookKind::Prices => {
                self.book.clear();
                self.implied.clear();
                self.rpt_seq = None;
            }
            BookKind::Orders => self.orders.clear(),
        }
    }

    /// Makes a book stale, and tells it if it was live.
    pub(super) fn stale(&mut self, kind: BookKind, reason: StaleReason, sink: &mut impl FnMut(Event)) {
        let security_id = self.security_id;
        let progress = self.progress_mut(kind);
        if progress.is_live {
            progress.is_live = false;
            sink(Event::Stale { security_id, kind, reason });
        }
        if kind == BookKind::Orders {
            self.chunks = Chunks::default();
        } else if !matches!(reason, StaleReason::PacketGap { .. }) {
            self.rpt_seq = None;
        }
    }

    /// Judges the number of an update in a packet. A stale book whose next update this is has missed none, and is live.
    pub(super) fn number(&mut self, sequence: u32, rpt_seq: u32, sink: &mut impl FnMut(Event)) -> Numbered {
        if sequence <= self.prices.included {
            return Numbered::Old;
        }
        let next = match self.rpt_seq {
            Some(last) if rpt_seq <= last => return Numbered::Old,
            // `last` is less than `rpt_seq` here.
            Some(last) if rpt_seq > last + 1 => return Numbered::Gap(last + 1),
            Some(_) => true,
            None if self.prices.is_live => true,
            // Nothing came before the first update of all; after a channel reset that was lost, nothing is left of it.
            None => rpt_seq == 1,
        };
        if !next {
            return Numbered::Old;
        }
        if !self.prices.is_live {
            if self.rpt_seq.is_none() {
                self.clear(BookKind::Prices);
            }
            self.prices.is_live = true;
            sink(Event::Live { security_id: self.security_id, kind: BookKind::Prices });
        }
        self.rpt_seq = Some(rpt_seq);
        Numbered::Next
    }
}

/// Why an instrument was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// There are [`Limits::instruments`] already.
    Full,
    /// A book of it would be deeper than [`by_price::DEPTH_MAX`].
    TooDeep,
}

impl std::fmt::Display for NotAdded {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => out.write_str("the channel has as many instruments as it may have"),
            Self::TooDeep => write!(out, "a book by price has {} levels a side at most", by_price::DEPTH_MAX),
        }
    }
}

impl std::error::Error for NotAdded {}

/// All instruments, found by their numbers.
#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) list: Vec<Instrument>,
    /// Instruments to come, with their memory.
    spare: Vec<Instrument>,
    /// Places of those that have changed since the last end of an event.
    touched: Vec<u32>,
    /// Places in `list` by the hash of the number, one more than the place; 0 is free. Twice as many as instruments at least.
    slots: Box<[u32]>,
    limits: Limits,
}

impl Instruments {
    /// No instruments; the limits were checked.
    pub(super) fn new(limits: Limits) -> Result<Self, TryReserveError> {
        let slots = vec![0; (2 * limits.instruments).next_power_of_two().max(2)].into_boxed_slice();
        let spare: Result<_, _> = (0..limits.instruments).map(|_| Instrument::new(limits.orders_per_side)).collect();
        let (list, touched) = (Vec::with_capacity(limits.instruments), Vec::with_capacity(limits.instruments));
        Ok(Self { list, spare: spare?, touched, slots, limits })
    }

    fn slot(&self, security_id: i32) -> usize {
        let mut at = (security_id as u32).wrapping_mul(0x9e37_79b1) as usize >> 7 & (self.slots.len() - 1);
        while let Some(place) = (self.slots[at] as usize).checked_sub(1) {
            if self.list[place].security_id == security_id {
                break;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline]
    pub(super) fn find(&self, security_id: i32) -> Option<usize> {
        (self.slots[self.slot(security_id)] as usize).checked_sub(1)
    }

    /// Adds an instrument with stale books. One that is there keeps its books.
    pub(super) fn add(&mut self, security_id: i32, depth: u8, implied_depth: u8) -> Result<usize, NotAdded> {
        let slot = self.slot(security_id);
        if let Some(place) = (self.slots[slot] as usize).checked_sub(1) {
            return Ok(place);
        }
        let book = |depth| by_price::Book::new(depth).ok_or(NotAdded::TooDeep);
        let (book, implied) = (book(depth)?, book(implied_depth)?);
        let mut instrument = self.spare.pop().ok_or(NotAdded::Full)?;
        (instrument.security_id, instrument.book, instrument.implied) = (security_id, book, implied);
        self.list.push(instrument);
        self.slots[slot] = self.list.len() as u32;
        Ok(self.list.len() - 1)
    }

    /// Makes all books stale.
    pub(super) fn stale_all(&mut self, reason: StaleReason, sink: &mut impl FnMut(Event)) {
        for instrument in &mut self.list {
            instrument.stale(BookKind::Prices, reason, sink);
            if !self.limits.trusts_numbers {
                instrument.rpt_seq = None;
            }
            if self.limits.orders_per_side > 0 {
                instrument.stale(BookKind::Orders, reason, sink);
            }
        }
    }

    /// Numbers of packets and updates begin anew: none of before says anything about those to come. All books are stale.
    pub(super) fn forget_numbers(&mut self) {
        for instrument in &mut self.list {
            instrument.rpt_seq = None;
            (instrument.prices.included, instrument.by_order.included) = (0, 0);
        }
    }

    /// Makes all books by order stale.
    pub(super) fn stale_all_orders(&mut self, reason: StaleReason, sink: &mut impl FnMut(Event)) {
        if self.limits.orders_per_side > 0 {
            self.list.iter_mut().for_each(|one| one.stale(BookKind::Orders, reason, sink));
        }
    }

    /// Notes that an instrument has changed.
    #[inline]
    pub(super) fn touch(&mut self, place: usize) {
        if !std::mem::replace(&mut self.list[place].is_touched, true) {
            self.touched.push(place as u32);
        }
    }

    /// Hands out the instruments that have changed and have a live book.
    pub(super) fn take_touched(&mut self, mut touched: impl FnMut(i32)) {
        for place in self.touched.drain(..) {
            let one = &mut self.list[place as usize];
            one.is_touched = false;
            if one.prices.is_live || !one.orders.is_off() && one.by_order.is_live {
                touched(one.security_id);
            }
        }
    }

    /// Returns whether a book of any instrument is stale.
    pub(super) fn has_stale(&self) -> bool {
        self.list.iter().any(|one| !one.prices.is_live || !one.by_order.is_live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignore(_: Event) {}

    #[test]
    fn every_instrument_is_found_and_no_other() {
        let limits = Limits { instruments: 500, orders_per_side: 0, packets_held: 0, trusts_numbers: false };
        let mut all = Instruments::new(limits).unwrap();
        for id in 0..500 {
            assert_eq!(all.add(id * 1_000_003, 10, 2), Ok(id as usize));
        }
        assert_eq!((all.add(0, 10, 2), all.add(1, 10, 2)), (Ok(0), Err(NotAdded::Full)));
        for id in 0..500 {
            assert_eq!((all.find(id * 1_000_003), all.find(id * 1_000_003 + 7)), (Some(id as usize), None));
        }
        let none = Instruments::new(Limits { instruments: 0, ..limits }).unwrap();
        assert_eq!(none.find(5), None);
    }

    #[test]
    fn an_instrument_whose_book_is_too_deep_is_not_added_and_takes_no_place() {
        let limits = Limits { instruments: 1, orders_per_side: 0, packets_held: 0, trusts_numbers: false };
        let mut all = Instruments::new(limits).unwrap();
        let deep = by_price::DEPTH_MAX + 1;
        assert_eq!((all.add(1, deep, 0), all.add(1, 1, deep)), (Err(NotAdded::TooDeep), Err(NotAdded::TooDeep)));
        assert_eq!((all.find(1), all.add(1, deep - 1, 0), all.find(1)), (None, Ok(0), Some(0)));
    }

    #[test]
    fn updates_are_applied_once_and_in_order() {
        let mut one = Instrument::new(0).unwrap();
        assert_eq!(one.number(1, 7, &mut ignore), Numbered::Old, "a stale book waits for a snapshot");
        assert_eq!(one.number(1, 1, &mut ignore), Numbered::Next, "the first update of all");
        assert_eq!((one.number(1, 2, &mut ignore), one.number(2, 2, &mut ignore)), (Numbered::Next, Numbered::Old));
        assert_eq!(one.number(2, 4, &mut ignore), Numbered::Gap(3));
        one.prices.included = 9;
        assert_eq!((one.number(9, 3, &mut ignore), one.number(10, 3, &mut ignore)), (Numbered::Old, Numbered::Next));
        one.rpt_seq = Some(u32::MAX - 1);
        assert_eq!(one.number(11, u32::MAX, &mut ignore), Numbered::Next);
        assert_eq!(one.number(12, u32::MAX, &mut ignore), Numbered::Old);
    }

    #[test]
    fn the_next_number_after_a_packet_gap_is_trusted_if_it_was_kept() {
        let mut one = Instrument::new(0).unwrap();
        one.number(1, 1, &mut ignore);
        let mut told = Vec::new();
        one.stale(BookKind::Prices, StaleReason::PacketGap { expected: 2, found: 3 }, &mut |event| told.push(event));
        assert_eq!(one.number(3, 2, &mut |event| told.push(event)), Numbered::Next);
        assert!(matches!(told[..], [Event::Stale { .. }, Event::Live { .. }]), "{told:?}");
        one.stale(BookKind::Prices, StaleReason::Inconsistent, &mut ignore);
        assert_eq!(one.number(4, 3, &mut ignore), Numbered::Old);
    }
}
