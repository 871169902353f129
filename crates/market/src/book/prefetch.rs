//! The misses of a datagram's messages, overlapped.
//!
//! A message needs three lines of memory that are rarely in a near cache: the order's, its level's, the headers of its instrument. Each
//! is a wait of its own if messages are applied one by one. Read over the datagram once before, and the CPU waits for many of them at a
//! time.

use super::books::Books;
use crate::itch::Message;
use crate::units::OrderReference;

impl Books {
    /// Prefetches what these messages, which are to be applied next, will need. It changes nothing.
    ///
    /// They are gone through twice: the levels' places are known only when the orders are there. A datagram is a good number: 10 to 40
    /// messages. Several hundred would push each other out of the nearest cache.
    #[inline]
    pub fn prefetch<'a>(&self, messages: impl Iterator<Item = Message<'a>> + Clone) {
        messages.clone().for_each(|message| self.prefetch_order(&message));
        messages.for_each(|message| self.prefetch_level(&message));
    }

    /// The order's line, and the headers of the instrument.
    #[inline(always)]
    fn prefetch_order(&self, message: &Message<'_>) {
        match message {
            Message::AddOrder(add) => {
                self.table.prefetch(add.order_reference());
                self.ladders.prefetch(add.locate());
            }
            Message::AddOrderMpid(add) => {
                self.table.prefetch(add.order_reference());
                self.ladders.prefetch(add.locate());
            }
            Message::OrderReplace(new) => {
                self.table.prefetch(new.old_order_reference());
                self.table.prefetch(new.order_reference());
                self.ladders.prefetch(new.locate());
            }
            _ => {
                if let Some(reference) = existing(message) {
                    self.table.prefetch(reference);
                    self.ladders.prefetch(message.locate());
                }
            }
        }
    }

    /// The level of an order that is there.
    #[inline(always)]
    fn prefetch_level(&self, message: &Message<'_>) {
        let slot = existing(message).and_then(|reference| self.table.find(reference));
        if let Some(slot) = slot {
            self.levels.prefetch(self.table.order(slot).level);
        }
    }
}

/// The order that a message changes.
#[inline(always)]
fn existing(message: &Message<'_>) -> Option<OrderReference> {
    match message {
        Message::OrderExecuted(less) => Some(less.order_reference()),
        Message::OrderExecutedWithPrice(less) => Some(less.order_reference()),
        Message::OrderCancel(less) => Some(less.order_reference()),
        Message::OrderDelete(delete) => Some(delete.order_reference()),
        Message::OrderReplace(new) => Some(new.old_order_reference()),
        _ => None,
    }
}
