//! A new order: what it takes, and what rests.

use super::orders::{Handle, NONE, Order};
use super::{Answer, CancelReason, Execution, Liquidity, Matching, Refused, Sink, shown};
use crate::itch::{self, Header};
use crate::units::{PRICE_MAX, PRICE_ONE, SHARES_END, Side, TICK};

/// How long an order rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeInForce {
    /// Until it is filled or cancelled.
    Day,
    /// Not at all: what cannot be filled at once is cancelled.
    Immediate,
}

/// An order to be entered.
#[derive(Debug, Clone, Copy)]
pub struct Enter {
    /// Whoever enters it: answers come with this.
    pub owner: u64,
    /// The instrument, counted from 1.
    pub locate: u16,
    /// Buy or sell.
    pub side: Side,
    /// 1 to 999,999.
    pub shares: u32,
    /// The limit, four decimals.
    pub price: u32,
    /// How long it rests.
    pub time_in_force: TimeInForce,
    /// False: the feed does not show it.
    pub is_displayed: bool,
    /// The market participant to be published, or [`itch::ANONYMOUS`].
    pub attribution: [u8; 4],
}

/// An order on its way through the book.
pub(super) struct Taker {
    pub(super) handle: Handle,
    pub(super) owner: u64,
    pub(super) locate: u16,
    pub(super) side: Side,
    pub(super) limit: u32,
    pub(super) left: u32,
}

impl Matching {
    /// Enters an order. Its owner hears of acceptance, executions and cancellation by `sink`.
    ///
    /// # Errors
    ///
    /// The order is refused; nothing has changed.
    pub fn enter(&mut self, time_ns: u64, order: &Enter, sink: &mut impl Sink) -> Result<Handle, Refused> {
        if let Err(refused) = self.check_enter(order) {
            self.totals.refused += 1;
            return Err(refused);
        }
        let reference = self.reference();
        self.totals.accepted += 1;
        self.totals.shares_accepted += u64::from(order.shares);
        let rests = order.time_in_force == TimeInForce::Day;
        let slot = if rests { self.orders.insert(resting(order, reference)) } else { NONE };
        let handle = Handle::new(slot, reference);
        sink.answer(order.owner, &Answer::Accepted { handle });
        let Enter { owner, locate, side, shares, price, .. } = *order;
        let taker = Taker { handle, owner, locate, side, limit: price, left: shares };
        if rests {
            self.take_and_rest(time_ns, taker, sink);
        } else {
            self.take_at_once(time_ns, taker, sink);
        }
        Ok(handle)
    }

    fn check_enter(&self, order: &Enter) -> Result<(), Refused> {
        let book = self.book(order.locate).ok_or(Refused::Symbol)?;
        check_terms(order.shares, order.price)?;
        if order.time_in_force == TimeInForce::Immediate {
            return if book.is_halted { Err(Refused::Halted) } else { Ok(()) };
        }
        let has_room = !self.orders.is_full() && book.has_room(order.side, order.price, self.limits.levels);
        if has_room { Ok(()) } else { Err(Refused::Full) }
    }

    /// Trades what can be traded; the order, which has a slot, rests with what is left.
    pub(super) fn take_and_rest(&mut self, time_ns: u64, mut taker: Taker, sink: &mut impl Sink) {
        let slot = taker.handle.slot();
        if !self.book_mut(taker.locate).is_halted {
            self.take(time_ns, &mut taker, sink);
        }
        if taker.left == 0 {
            return self.orders.remove(slot);
        }
        self.orders.at_mut(slot).shares = taker.left;
        let book = &mut self.books[usize::from(taker.locate) - 1];
        book.add(&mut self.orders, slot);
        let order = self.orders.at(slot);
        if order.is_displayed {
            let header = Header { time_ns, locate: taker.locate };
            itch::add(header, &shown(order, book.symbol), |message| sink.publish(message));
        }
    }

    fn take_at_once(&mut self, time_ns: u64, mut taker: Taker, sink: &mut impl Sink) {
        self.take(time_ns, &mut taker, sink);
        if taker.left > 0 {
            self.totals.cancelled += 1;
            self.totals.shares_cancelled += u64::from(taker.left);
            let (reference, reason) = (taker.handle.reference, CancelReason::Immediate);
            sink.answer(taker.owner, &Answer::Cancelled { reference, shares: taker.left, left: 0, reason });
        }
    }

    /// Trades with the other side, best price first, until nothing is left or nothing matches.
    fn take(&mut self, time_ns: u64, taker: &mut Taker, sink: &mut impl Sink) {
        while taker.left > 0 {
            let Some(slot) = self.book_mut(taker.locate).meets(taker.side, taker.limit) else { return };
            self.trade(time_ns, taker, slot, sink);
        }
    }

    /// One trade with the order in `slot`, at its price.
    fn trade(&mut self, time_ns: u64, taker: &mut Taker, slot: u32, sink: &mut impl Sink) {
        let header = Header { time_ns, locate: taker.locate };
        let match_number = self.match_number();
        let Order { reference, owner, price, is_displayed, .. } = *self.orders.at(slot);
        let shares = taker.left.min(self.orders.at(slot).shares);
        taker.left -= shares;
        let left = self.reduce(slot, shares);
        if is_displayed {
            sink.publish(&itch::executed(header, reference, shares, match_number));
        } else {
            let symbol = self.book_mut(taker.locate).symbol;
            sink.publish(&itch::trade(header, shares, symbol, price, match_number));
        }
        self.totals.trades += 1;
        self.count_fill(shares, left);
        self.count_fill(shares, taker.left);
        let added = Execution { reference, shares, left, price, match_number, liquidity: Liquidity::Added };
        sink.answer(owner, &Answer::Executed(added));
        let liquidity = Liquidity::Removed;
        let removed = Execution { reference: taker.handle.reference, left: taker.left, liquidity, ..added };
        sink.answer(taker.owner, &Answer::Executed(removed));
    }

    pub(super) fn count_fill(&mut self, shares: u32, left: u32) {
        self.totals.shares_filled += u64::from(shares);
        self.totals.filled += u64::from(left == 0);
    }

    /// Takes shares from an order that rests; the order goes with the last one. Answers how many are left.
    pub(super) fn reduce(&mut self, slot: u32, shares: u32) -> u32 {
        let order = self.orders.at_mut(slot);
        order.shares -= shares;
        let (left, locate) = (order.shares, order.locate);
        if left == 0 {
            self.books[usize::from(locate) - 1].take_out(&mut self.orders, slot);
            self.orders.remove(slot);
        }
        left
    }
}

fn resting(order: &Enter, reference: u64) -> Order {
    Order {
        reference,
        owner: order.owner,
        shares: order.shares,
        price: order.price,
        next: NONE,
        previous: NONE,
        attribution: order.attribution,
        locate: order.locate,
        side: order.side,
        is_displayed: order.is_displayed,
    }
}

/// Checks the size and the limit of an order.
pub(super) fn check_terms(shares: u32, price: u32) -> Result<(), Refused> {
    if shares == 0 || shares >= SHARES_END {
        return Err(Refused::Quantity);
    }
    let is_whole = price < PRICE_ONE || price.is_multiple_of(TICK);
    if price == 0 || price > PRICE_MAX || !is_whole { Err(Refused::Price) } else { Ok(()) }
}
