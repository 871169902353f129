//! An order replaced by another one.

use super::books::Books;
use super::change::{Change, PriceLevel};
use super::level::Key;
use super::refusal::Refusal;
use super::table::Order;
use crate::units::{Locate, OrderReference, Price};

impl Books {
    /// Everything that can be refused is found before anything changes.
    pub(super) fn try_replace(
        &mut self,
        locate: Locate,
        old: OrderReference,
        reference: OrderReference,
        shares: u32,
        price: Price,
    ) -> Result<Change, Refusal> {
        let (slot, order) = self.order_of(locate, old)?;
        let from = *self.levels.get(order.level);
        if shares == 0 {
            return Err(Refusal::NoShares);
        }
        let key = Key::new(from.key.side(), price).ok_or(Refusal::BadPrice)?;
        // At most one order more than the limit, until the old one is gone.
        let vacancy = if reference == old { None } else { Some(self.vacancy(reference)?) };
        let touched = self.place(locate, from.key);
        let level = if from.orders == 1 { self.level_moved(locate, order.level, from.key, key) } else { None };
        let level = level.map_or_else(|| self.level_at(locate, key), Ok)?;
        self.leave(slot, order);
        let new = Order { shares, level };
        match vacancy {
            Some(vacancy) => {
                self.table.remove(slot);
                self.enter(vacancy, reference, new);
            }
            None => {
                self.table.set(slot, new);
                self.join(slot, new);
            }
        }
        let mut change = self.changed(level, touched.max(self.place(locate, key)));
        if from.key != key {
            let moved = PriceLevel { price: from.key.price(), shares: 0, orders: 0 };
            change.left = Some(if level == order.level { moved } else { self.price_level(order.level) });
        }
        if level != order.level {
            self.drop_if_empty(order.level);
        }
        Ok(change)
    }

    /// The level of the only order, moved to another price that has none: it needs no room. Nothing if that price has a level.
    fn level_moved(&mut self, locate: Locate, level: u32, from: Key, to: Key) -> Option<u32> {
        if from == to {
            return Some(level);
        }
        if self.ladders.find(locate, to).is_some() {
            return None;
        }
        self.ladders.remove(locate, from);
        self.ladders.insert(locate, to, level);
        self.levels.get_mut(level).key = to;
        Some(level)
    }
}
