//! Cancels and replacements of orders that rest.

use super::enter::{Taker, check_terms};
use super::orders::{Handle, Order};
use super::{Answer, CancelReason, Matching, Refused, Sink};
use crate::itch::{self, Header};

/// What an order is replaced by.
#[derive(Debug, Clone, Copy)]
pub struct Replacement {
    /// Whoever hears of it from now on.
    pub owner: u64,
    /// Shares left of the new order, 1 to 999,999.
    pub shares: u32,
    /// The new limit, four decimals.
    pub price: u32,
    /// False: the feed does not show it.
    pub is_displayed: bool,
}

impl Matching {
    /// Reduces an order to `left` shares, 0 for none. It keeps its place. Nothing happens if it has no more than that.
    ///
    /// # Errors
    ///
    /// The order is gone.
    pub fn cancel(
        &mut self,
        time_ns: u64,
        handle: Handle,
        left: u32,
        reason: CancelReason,
        sink: &mut impl Sink,
    ) -> Result<(), Refused> {
        let order = *self.orders.find(handle).ok_or(Refused::Gone)?;
        let Some(shares) = order.shares.checked_sub(left).filter(|shares| *shares > 0) else { return Ok(()) };
        let header = Header { time_ns, locate: order.locate };
        self.reduce(handle.slot(), shares);
        if order.is_displayed && left == 0 {
            sink.publish(&itch::deleted(header, order.reference));
        } else if order.is_displayed {
            sink.publish(&itch::cancelled(header, order.reference, shares));
        }
        self.totals.cancelled += u64::from(left == 0);
        self.totals.shares_cancelled += u64::from(shares);
        sink.answer(order.owner, &Answer::Cancelled { reference: order.reference, shares, left, reason });
        Ok(())
    }

    /// Replaces an order: a new reference, the last place at its price. If it can trade at once, or is shown no longer,
    /// it is deleted (D) first; else the feed shows one message, U.
    ///
    /// # Errors
    ///
    /// The order is gone, or the new terms are wrong; the old order stays as it is.
    pub fn replace(
        &mut self,
        time_ns: u64,
        handle: Handle,
        new: &Replacement,
        sink: &mut impl Sink,
    ) -> Result<Handle, Refused> {
        let old = *self.orders.find(handle).ok_or(Refused::Gone)?;
        self.check_replace(&old, new)?;
        let (slot, reference) = (handle.slot(), self.reference());
        let Order { locate, side, .. } = old;
        let book = &mut self.books[usize::from(locate) - 1];
        book.take_out(&mut self.orders, slot);
        let order = self.orders.at_mut(slot);
        let Replacement { owner, shares, price, is_displayed } = *new;
        *order = Order { reference, owner, shares, price, is_displayed, ..old };
        let is_taker = !book.is_halted && book.meets(side, price).is_some();
        let header = Header { time_ns, locate };
        let is_one_message = old.is_displayed && is_displayed && !is_taker;
        if is_one_message {
            book.add(&mut self.orders, slot);
            sink.publish(&itch::replaced(header, old.reference, reference, shares, price));
        } else if old.is_displayed {
            sink.publish(&itch::deleted(header, old.reference));
        }
        self.totals.shares_accepted += u64::from(shares.saturating_sub(old.shares));
        self.totals.shares_cancelled += u64::from(old.shares.saturating_sub(shares));
        let handle = Handle::new(slot, reference);
        sink.answer(owner, &Answer::Replaced { old: old.reference, handle, shares, price });
        if !is_one_message {
            self.take_and_rest(time_ns, Taker { handle, owner, locate, side, limit: price, left: shares }, sink);
        }
        Ok(handle)
    }

    fn check_replace(&self, old: &Order, new: &Replacement) -> Result<(), Refused> {
        check_terms(new.shares, new.price)?;
        let book = self.book(old.locate).ok_or(Refused::Symbol)?;
        if book.has_room(old.side, new.price, self.limits.levels) { Ok(()) } else { Err(Refused::Full) }
    }
}
