//! Orders by number: open addressing with linear probing, at most half full, in memory that does not grow.

use super::{Order, UserRefNum};

#[derive(Debug)]
pub(super) struct Table {
    /// As many as a power of two.
    slots: Box<[Option<Order>]>,
    orders: usize,
    orders_max: usize,
}

impl Table {
    pub(super) fn new(orders_max: usize) -> Self {
        Self { slots: vec![None; (2 * orders_max).next_power_of_two()].into(), orders: 0, orders_max }
    }

    pub(super) fn len(&self) -> usize {
        self.orders
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(None);
        self.orders = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Order> {
        self.slots.iter().flatten()
    }

    #[inline]
    pub(super) fn find(&self, number: UserRefNum) -> Option<&Order> {
        self.slots[self.place(number)].as_ref()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, number: UserRefNum) -> Option<&mut Order> {
        let at = self.place(number);
        self.slots[at].as_mut()
    }

    /// Puts an order into the table, in the place of one with the same number; nothing if it is full.
    #[inline]
    pub(super) fn insert(&mut self, order: Order) -> Option<()> {
        let at = self.place(order.user_ref_num);
        if self.slots[at].is_none() {
            self.orders = self.orders.checked_add(1).filter(|orders| *orders <= self.orders_max)?;
        }
        self.slots[at] = Some(order);
        Some(())
    }

    pub(super) fn remove(&mut self, number: UserRefNum) -> Option<Order> {
        let mut hole = self.place(number);
        let order = self.slots[hole].take()?;
        self.orders -= 1;
        // Those behind move up, unless that would put them before their home.
        let mut at = self.behind(hole);
        while let Some(next) = self.slots[at] {
            let home = self.home(next.user_ref_num);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.slots[hole] = self.slots[at].take();
                hole = at;
            }
            at = self.behind(at);
        }
        Some(order)
    }

    /// The slot of a number, or the free one where it belongs. There always is one: half of them are free.
    #[inline]
    fn place(&self, number: UserRefNum) -> usize {
        let mut at = self.home(number);
        while self.slots[at].is_some_and(|order| order.user_ref_num != number) {
            at = self.behind(at);
        }
        at
    }

    /// Multiplication by 2^32 divided by the golden ratio: numbers that rise by one are spread, so that orders that stay for long are
    /// no wall of neighbours for later ones.
    #[inline]
    fn home(&self, number: UserRefNum) -> usize {
        let bits = self.slots.len().trailing_zeros();
        (number.0.wrapping_mul(0x9E37_79B1) >> (u32::BITS - bits)) as usize
    }

    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Price, Symbol};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn order(number: u32, quantity: u32) -> Order {
        Order::new(UserRefNum(number), Symbol::default(), None, Price(0), quantity)
    }

    proptest! {
            #[test]
        fn the_table_is_a_map_of_bounded_size(
            steps in prop::collection::vec((any::<bool>(), 0_u32..40, any::<u32>()), 0..200),
        ) {
            let (mut table, mut model) = (Table::new(8), BTreeMap::new());
            for (is_insert, number, quantity) in steps {
                if is_insert {
                    let fits = model.len() < 8 || model.contains_key(&number);
                    prop_assert_eq!(table.insert(order(number, quantity)).is_some(), fits);
                    if fits { model.insert(number, quantity); }
                } else {
                    let removed = table.remove(UserRefNum(number)).map(|order| order.quantity);
                    prop_assert_eq!(removed, model.remove(&number));
                }
                prop_assert_eq!(table.len(), model.len());
                for number in 0..40 {
                    let found = table.find(UserRefNum(number)).map(|order| order.quantity);
                    prop_assert_eq!(found, model.get(&number).copied());
                }
            }
        }
    }
}
