//! A book by order: the orders of each side, sorted by price and priority.
//!
//! The feed names an order by its id. Ids stand apart from the rest, so that the search of one reads eight bytes for each order.

use crate::units::{OrderReference, Price, Side};
use std::cmp::Ordering;

/// An order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The exchange's number of it.
    pub id: OrderReference,
    /// Lower is earlier at the same price.
    pub priority: u64,
    /// Its price, nine decimals.
    pub price: Price,
    /// The displayed quantity.
    pub size: i32,
}

/// An order that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// The side has as many orders as it may have.
    Full,
    /// There is no order of this id, or there is one already.
    Unknown,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    ids: Vec<u64>,
    /// In the order of `ids`: the best first.
    orders: Vec<Order>,
}

impl Queue {
    fn find(&self, id: OrderReference) -> Option<usize> {
        self.ids.iter().position(|one| *one == id.0)
    }

    fn insert(&mut self, side: Side, order: Order, max: usize) -> Result<(), Unplaced> {
        if self.orders.len() >= max {
            return Err(Unplaced::Full);
        }
        let before = |one: &Order| ranks(side, one, &order) != Ordering::Greater;
        let at = self.orders.partition_point(before);
        self.ids.insert(at, order.id.0);
        self.orders.insert(at, order);
        Ok(())
    }

    fn remove(&mut self, at: usize) {
        self.ids.remove(at);
        self.orders.remove(at);
    }
}

fn ranks(side: Side, one: &Order, other: &Order) -> Ordering {
    let by_price = match side {
        Side::Buy => other.price.cmp(&one.price),
        Side::Sell => one.price.cmp(&other.price),
    };
    by_price.then(one.priority.cmp(&other.priority))
}

/// A book by order of one instrument.
#[derive(Clone, Debug)]
pub struct OrderBook {
    sides: [Queue; 2],
    max: usize,
}

impl OrderBook {
    /// An empty book of at most so many orders on each side, whose memory is taken now.
    pub fn new(orders_per_side: usize) -> Self {
        let queue = || Queue { ids: Vec::with_capacity(orders_per_side), orders: Vec::with_capacity(orders_per_side) };
        Self { sides: [queue(), queue()], max: orders_per_side }
    }

    /// The orders of a side, the best and earliest first.
    pub fn orders(&self, side: Side) -> &[Order] {
        &self.sides[side as usize].orders
    }

    /// It can have no orders: books by order are not kept.
    pub(super) fn is_off(&self) -> bool {
        self.max == 0
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        for side in &mut self.sides {
            side.ids.clear();
            side.orders.clear();
        }
    }

    /// Adds an order.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the side is full or has the order already.
    pub fn add(&mut self, side: Side, order: Order) -> Result<(), Unplaced> {
        let queue = &mut self.sides[side as usize];
        if queue.find(order.id).is_some() {
            return Err(Unplaced::Unknown);
        }
        queue.insert(side, order, self.max)
    }

    /// Gives an order of this id other values.
    ///
    /// # Errors
    /// Fails, and changes nothing, if there is none.
    pub fn change(&mut self, side: Side, order: Order) -> Result<(), Unplaced> {
        let queue = &mut self.sides[side as usize];
        let at = queue.find(order.id).ok_or(Unplaced::Unknown)?;
        if ranks(side, &queue.orders[at], &order) == Ordering::Equal {
            queue.orders[at] = order;
            return Ok(());
        }
        queue.remove(at);
        queue.insert(side, order, self.max)
    }

    /// Removes an order.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn delete(&mut self, side: Side, id: OrderReference) -> Result<(), Unplaced> {
        let queue = &mut self.sides[side as usize];
        let at = queue.find(id).ok_or(Unplaced::Unknown)?;
        queue.remove(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(id: u64, price: i64, priority: u64) -> Order {
        Order { id: OrderReference(id), priority, price: Price(price), size: 1 }
    }

    fn ids(book: &OrderBook, side: Side) -> Vec<u64> {
        book.orders(side).iter().map(|order| order.id.0).collect()
    }

    #[test]
    fn orders_stand_by_price_and_priority() {
        let mut book = OrderBook::new(4);
        for one in [order(1, 10, 5), order(2, 11, 6), order(3, 10, 4), order(4, 12, 9)] {
            book.add(Side::Buy, one).unwrap();
            book.add(Side::Sell, one).unwrap();
        }
        assert_eq!((ids(&book, Side::Buy), ids(&book, Side::Sell)), (vec![4, 2, 3, 1], vec![3, 1, 2, 4]));
        book.change(Side::Sell, order(1, 10, 3)).unwrap();
        book.delete(Side::Sell, OrderReference(2)).unwrap();
        assert_eq!(ids(&book, Side::Sell), [1, 3, 4]);
        book.clear();
        assert_eq!((ids(&book, Side::Buy), ids(&book, Side::Sell)), (vec![], vec![]));
    }

    #[test]
    fn a_full_side_and_an_unknown_order_are_told() {
        let mut book = OrderBook::new(1);
        book.add(Side::Buy, order(1, 1, 1)).unwrap();
        assert_eq!(book.add(Side::Buy, order(2, 1, 1)), Err(Unplaced::Full));
        assert_eq!(book.add(Side::Buy, order(1, 1, 1)), Err(Unplaced::Unknown));
        assert_eq!(book.change(Side::Sell, order(1, 1, 1)), Err(Unplaced::Unknown));
        assert_eq!(book.delete(Side::Buy, OrderReference(9)), Err(Unplaced::Unknown));
        book.change(Side::Buy, order(1, 2, 1)).unwrap();
        assert_eq!(book.orders(Side::Buy), [order(1, 2, 1)]);
    }

    proptest! {
        #[test]
        fn the_book_is_a_sorted_list(changes in prop::collection::vec((0u8..3, 0u64..9, 0i64..5, 0u64..5), 0..99)) {
            let (mut book, mut model) = (OrderBook::new(6), Vec::<Order>::new());
            for (action, id, price, priority) in changes {
                let (one, known) = (order(id, price, priority), model.iter().position(|order| order.id.0 == id));
                let done = match action {
                    0 => known.is_none() && model.len() < 6,
                    _ => known.is_some(),
                };
                let result = match action {
                    0 => book.add(Side::Buy, one),
                    1 => book.change(Side::Buy, one),
                    _ => book.delete(Side::Buy, OrderReference(id)),
                };
                prop_assert_eq!(result.is_ok(), done);
                if done {
                    known.map(|at| model.remove(at));
                    model.extend((action < 2).then_some(one));
                }
                let mut sorted: Vec<_> = model.iter().map(|order| (-order.price.0, order.priority)).collect();
                sorted.sort_unstable();
                let found: Vec<_> = book.orders(Side::Buy).iter().map(|order| (-order.price.0, order.priority)).collect();
                prop_assert_eq!(found, sorted);
            }
        }
    }
}
