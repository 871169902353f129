//! The cache misses of a datagram's messages, overlapped.
//!
//! A message needs three or four lines of memory that are rarely in a near cache: the order's, its level's, the headers of its instrument,
//! the best entries of the ladder. Applied one by one, each message waits for its own. Gone through before, the CPU fetches those of
//! many messages at a time.

use super::books::Books;
use super::level::Key;
use crate::itch::Message;
use crate::mold64::Packet;
use crate::units::{Locate, OrderReference, Sequence};

impl Books {
    /// Prefetches what these messages, which are to be applied next, will need. It changes nothing.
    ///
    /// They are gone through twice: where a level is, is known only when the order is there. A datagram is a good number: 10 to 40
    /// messages. Several hundred would push each other out of the nearest cache.
    #[inline]
    pub fn prefetch<'a>(&self, messages: impl Iterator<Item = Message<'a>> + Clone) {
        messages.clone().for_each(|message| self.prefetch_orders(&message));
        messages.for_each(|message| self.prefetch_levels(&message));
    }

    /// The same for what a packet has from message `next` on; nothing for what is no packet, or has nothing new.
    #[inline]
    pub fn prefetch_packet(&self, datagram: &[u8], next: Sequence) {
        let Ok(packet) = Packet::parse(datagram) else { return };
        let messages = packet.messages();
        if packet.first().0.saturating_add(messages.len() as u64) > next.0 {
            self.prefetch(messages.filter_map(|bytes| Message::parse(bytes).ok()));
        }
    }

    /// The lines of the table, and the headers of the instrument.
    #[inline(always)]
    fn prefetch_orders(&self, message: &Message<'_>) {
        let new = match message {
            Message::AddOrder(add) => Some(add.order_reference()),
            Message::AddOrderMpid(add) => Some(add.order_reference()),
            Message::OrderReplace(new) => Some(new.order_reference()),
            _ => None,
        };
        let old = changed_order(message);
        if old.is_some() || new.is_some() {
            self.ladders.prefetch(message.locate());
        }
        old.into_iter().chain(new).for_each(|reference| self.table.prefetch(reference));
    }

    /// The level of an order that is there; where a new order will look for its level.
    #[inline(always)]
    fn prefetch_levels(&self, message: &Message<'_>) {
        if let Some(slot) = changed_order(message).and_then(|reference| self.table.find(reference)) {
            self.levels.prefetch(self.table.order(slot).level);
            self.queues.prefetch(slot);
        }
        if let Some((locate, key)) = added_level(message).filter(|(locate, _)| self.ladders.has(*locate)) {
            self.ladders.prefetch_best(locate, key.side());
            if let Some((_, level)) = self.ladders.best(locate, key.side()).filter(|(best, _)| *best == key) {
                self.levels.prefetch(level);
            }
        }
    }
}

/// The order that a message changes.
#[inline(always)]
fn changed_order(message: &Message<'_>) -> Option<OrderReference> {
    match message {
        Message::OrderExecuted(less) => Some(less.order_reference()),
        Message::OrderExecutedWithPrice(less) => Some(less.order_reference()),
        Message::OrderCancel(less) => Some(less.order_reference()),
        Message::OrderDelete(delete) => Some(delete.order_reference()),
        Message::OrderReplace(new) => Some(new.old_order_reference()),
        _ => None,
    }
}

/// The level to which a message adds an order.
#[inline(always)]
fn added_level(message: &Message<'_>) -> Option<(Locate, Key)> {
    match message {
        Message::AddOrder(add) => Some((add.locate(), Key::new(add.side()?, add.price())?)),
        Message::AddOrderMpid(add) => Some((add.locate(), Key::new(add.side()?, add.price())?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Depth, Limits};
    use super::*;

    #[test]
    fn messages_of_any_content_can_be_prefetched() {
        let limits = Limits { instruments: 2, orders: 8, levels: 8, side_levels: 8 };
        let books = Books::new(limits, Depth::Orders).unwrap();
        for kind in 0..=u8::MAX {
            for rest in [0, 1, u8::MAX] {
                let bytes = [&[kind][..], &[rest; 60][..]].concat();
                books.prefetch(Message::parse(&bytes).into_iter());
            }
        }
        assert_eq!(books.orders(), 0);
    }
}
