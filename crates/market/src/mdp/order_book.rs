//! A book by order: the orders of each side, sorted by price and priority.
//!
//! The feed names an order by its id. A hash table ([`Table`], as books of ITCH have it) tells the slot of an id, and an order's values
//! stand in that slot as long as it lives. The orders of a side are a sequence of slots in blocks ([`Sequence`]), so that what a change
//! costs does not grow with the orders of the side, but for the steps of a binary search.

use super::sequence::{self, Sequence};
use crate::book::table::{self, NoVacancy, Order as Entry, Slot, Table};
use crate::units::{OrderReference, Price, Side};
use sidestep_sys::memory;
use std::cmp::Ordering;
use std::collections::TryReserveError;
use std::fmt::{self, Debug, Formatter};

/// The most orders of a side.
pub(super) const ORDERS_MAX: u32 = table::ORDERS_MAX;

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

/// An order without its id, which the table has.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    price: Price,
    priority: u64,
    size: i32,
}

/// The orders of a side by their slots.
#[derive(Clone)]
struct Orders {
    side: Side,
    /// Used for its slots alone.
    table: Table,
    values: Vec<Values>,
}

impl Orders {
    #[inline]
    fn get(&self, slot: Slot) -> Order {
        let Values { price, priority, size } = self.values[slot.0 as usize];
        Order { id: self.table.reference(slot), priority, price, size }
    }

    fn put(&mut self, slot: Slot, order: &Order) {
        let Order { price, priority, size, .. } = *order;
        self.values[slot.0 as usize] = Values { price, priority, size };
    }

    /// Which orders are worse than this one: by price, then by priority. The venue gives no two orders of a price the same priority; if it
    /// does, the greater id is worse.
    #[inline]
    fn worse(&self, than: &Order) -> impl Fn(Slot) -> bool {
        move |slot| {
            let one = &self.values[slot.0 as usize];
            let by_price = one.price.cmp(&than.price);
            let by_price = if self.side == Side::Buy { by_price } else { by_price.reverse() };
            let by_time = by_price.then(than.priority.cmp(&one.priority));
            by_time.then_with(|| than.id.cmp(&self.table.reference(slot))) == Ordering::Less
        }
    }
}

/// The orders of a side, and their sequence.
#[derive(Clone)]
struct Queue {
    orders: Orders,
    sequence: Sequence,
}

impl Queue {
    fn new(side: Side, orders: u32) -> Result<Self, TryReserveError> {
        let values = memory::filled(Values::default(), table::slots(orders))?;
        Ok(Self { orders: Orders { side, table: Table::new(orders)?, values }, sequence: Sequence::new(orders)? })
    }

    fn add(&mut self, order: &Order) -> Result<(), Unplaced> {
        let Self { orders, sequence } = self;
        let vacancy = orders.table.vacancy(order.id).map_err(|no| match no {
            NoVacancy::Taken => Unplaced::Unknown,
            NoVacancy::Full => Unplaced::Full,
        })?;
        if orders.table.is_full() {
            return Err(Unplaced::Full);
        }
        let slot = orders.table.occupy(vacancy, order.id, Entry { shares: 1, level: 0 });
        orders.put(slot, order);
        sequence.insert(slot, orders.worse(order));
        Ok(())
    }

    fn change(&mut self, order: &Order) -> Result<(), Unplaced> {
        let Self { orders, sequence } = self;
        let slot = orders.table.find(order.id).ok_or(Unplaced::Unknown)?;
        let before = orders.get(slot);
        if (before.price, before.priority) == (order.price, order.priority) {
            orders.put(slot, order);
            return Ok(());
        }
        sequence.remove(orders.worse(&before));
        orders.put(slot, order);
        sequence.insert(slot, orders.worse(order));
        Ok(())
    }

    fn delete(&mut self, id: OrderReference) -> Result<(), Unplaced> {
        let Self { orders, sequence } = self;
        let slot = orders.table.find(id).ok_or(Unplaced::Unknown)?;
        sequence.remove(orders.worse(&orders.get(slot)));
        orders.table.remove(slot);
        Ok(())
    }

    /// Takes the orders out one by one: an almost empty table is not written as a whole.
    fn clear(&mut self) {
        let Self { orders, sequence } = self;
        sequence.iter().for_each(|slot| orders.table.remove(slot));
        sequence.clear();
    }
}

/// A book by order of one instrument.
#[derive(Clone)]
pub struct OrderBook {
    /// Nothing if books by order are not kept.
    sides: Option<[Queue; 2]>,
}

impl OrderBook {
    /// An empty book of at most so many orders on each side, whose memory ([`Self::bytes_for`]) is taken now. Without orders it takes none,
    /// and refuses every order.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(orders_per_side: u32) -> Result<Self, TryReserveError> {
        let queue = |side| Queue::new(side, orders_per_side);
        let sides = if orders_per_side == 0 { None } else { Some([queue(Side::Buy)?, queue(Side::Sell)?]) };
        Ok(Self { sides })
    }

    /// The memory of a book of so many orders on each side, bytes: 97 for each order, and some 3 KB.
    pub fn bytes_for(orders_per_side: u32) -> usize {
        if orders_per_side == 0 {
            return 0;
        }
        let values = table::slots(orders_per_side) * size_of::<Values>();
        2 * (table::bytes(orders_per_side) + values + sequence::bytes(orders_per_side))
    }

    fn queue(&self, side: Side) -> Option<&Queue> {
        self.sides.as_ref().map(|sides| &sides[side as usize])
    }

    fn queue_mut(&mut self, side: Side) -> Option<&mut Queue> {
        self.sides.as_mut().map(|sides| &mut sides[side as usize])
    }

    /// The orders of a side, the best and earliest first.
    pub fn orders(&self, side: Side) -> impl DoubleEndedIterator<Item = Order> {
        let queue = self.queue(side).into_iter();
        queue.flat_map(|queue| queue.sequence.iter().rev().map(|slot| queue.orders.get(slot)))
    }

    /// The number of orders of a side.
    #[inline]
    pub fn len(&self, side: Side) -> usize {
        self.queue(side).map_or(0, |queue| queue.sequence.len())
    }

    /// The best and earliest order of a side.
    #[inline]
    pub fn best(&self, side: Side) -> Option<Order> {
        self.orders(side).next()
    }

    /// It can have no orders: books by order are not kept.
    pub(super) fn is_off(&self) -> bool {
        self.sides.is_none()
    }

    /// Empties both sides.
    pub fn clear(&mut self) {
        self.sides.iter_mut().flatten().for_each(Queue::clear);
    }

    /// Adds an order.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the side is full or has the order already. A side is full, too, if ids were chosen so that 64 of
    /// them want the same place in the table.
    pub fn add(&mut self, side: Side, order: Order) -> Result<(), Unplaced> {
        self.queue_mut(side).ok_or(Unplaced::Full)?.add(&order)
    }

    /// Gives an order of this id other values.
    ///
    /// # Errors
    /// Fails, and changes nothing, if there is none.
    pub fn change(&mut self, side: Side, order: Order) -> Result<(), Unplaced> {
        self.queue_mut(side).ok_or(Unplaced::Unknown)?.change(&order)
    }

    /// Removes an order.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn delete(&mut self, side: Side, id: OrderReference) -> Result<(), Unplaced> {
        self.queue_mut(side).ok_or(Unplaced::Unknown)?.delete(id)
    }
}

impl Debug for OrderBook {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let [bids, offers] = [Side::Buy, Side::Sell].map(|side| self.len(side));
        out.debug_struct("OrderBook").field("bids", &bids).field("offers", &offers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    fn order(id: u64, price: i64, priority: u64) -> Order {
        Order { id: OrderReference(id), priority, price: Price(price), size: 1 }
    }

    fn ids(book: &OrderBook, side: Side) -> Vec<u64> {
        book.orders(side).map(|order| order.id.0).collect()
    }

    #[test]
    fn orders_stand_by_price_and_priority() {
        let mut book = OrderBook::new(4).unwrap();
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
        let mut book = OrderBook::new(1).unwrap();
        book.add(Side::Buy, order(1, 1, 1)).unwrap();
        assert_eq!(book.add(Side::Buy, order(2, 1, 1)), Err(Unplaced::Full));
        assert_eq!(book.add(Side::Buy, order(1, 1, 1)), Err(Unplaced::Unknown));
        assert_eq!(book.change(Side::Sell, order(1, 1, 1)), Err(Unplaced::Unknown));
        assert_eq!(book.delete(Side::Buy, OrderReference(9)), Err(Unplaced::Unknown));
        book.change(Side::Buy, order(1, 2, 1)).unwrap();
        assert_eq!(book.orders(Side::Buy).collect::<Vec<_>>(), [order(1, 2, 1)]);
        assert_eq!((book.best(Side::Buy), book.best(Side::Sell)), (Some(order(1, 2, 1)), None));
    }

    #[test]
    fn a_book_without_orders_takes_no_memory_and_none_of_them() {
        let mut book = OrderBook::new(0).unwrap();
        assert_eq!(book.add(Side::Buy, order(1, 1, 1)), Err(Unplaced::Full));
        assert_eq!(book.change(Side::Buy, order(1, 1, 1)), Err(Unplaced::Unknown));
        assert_eq!((book.len(Side::Sell), OrderBook::bytes_for(0)), (0, 0));
        assert_eq!(OrderBook::bytes_for(100_000).div_ceil(200_000), 97);
    }

    #[test]
    fn orders_at_the_ends_of_all_ranges_are_orders_like_others() {
        let mut book = OrderBook::new(8).unwrap();
        let ends = [(0, i64::MIN, u64::MAX), (u64::MAX, i64::MAX, 0), (1, i64::MAX, u64::MAX), (2, i64::MIN, 0)];
        for side in [Side::Buy, Side::Sell] {
            ends.iter().for_each(|(id, price, priority)| book.add(side, order(*id, *price, *priority)).unwrap());
        }
        assert_eq!((ids(&book, Side::Buy), ids(&book, Side::Sell)), (vec![u64::MAX, 1, 2, 0], vec![2, 0, u64::MAX, 1]));
    }

    /// Sorted maps, of ids and of ranks.
    #[derive(Default)]
    struct Naive {
        known: BTreeMap<u64, Order>,
        sorted: BTreeMap<(i64, u64, u64), Order>,
    }

    impl Naive {
        fn key(order: &Order) -> (i64, u64, u64) {
            (order.price.0, order.priority, order.id.0)
        }

        fn remove(&mut self, id: u64) -> bool {
            let order = self.known.remove(&id);
            order.is_some_and(|order| self.sorted.remove(&Self::key(&order)).is_some())
        }

        fn put(&mut self, order: Order) {
            self.known.insert(order.id.0, order);
            self.sorted.insert(Self::key(&order), order);
        }
    }

    #[test]
    fn fifty_thousand_orders_stand_as_in_sorted_maps() {
        const ORDERS: u64 = 50_000;
        let (mut book, mut naive, mut random) =
            (OrderBook::new(ORDERS as u32).unwrap(), Naive::default(), fastrand::Rng::with_seed(11));
        for step in 0..8 * ORDERS {
            // Ids come again, and adds are so many more than deletes that the side fills up.
            let id = random.u64(0..ORDERS * 5 / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut one = order(id, random.i64(-300..300), random.u64(..));
            let (known, is_full) = (naive.known.get(&id).copied(), naive.known.len() as u64 == ORDERS);
            let result = match random.u8(0..8) {
                0 => book.delete(Side::Sell, one.id).map(|()| naive.remove(id)),
                1..3 => {
                    // Half of the changes keep the place.
                    if let Some(known) = known.filter(|_| random.bool()) {
                        one = Order { size: random.i32(..), ..known };
                    }
                    book.change(Side::Sell, one).map(|()| naive.remove(id)).inspect(|_| naive.put(one))
                }
                _ if known.is_none() && is_full => {
                    assert_eq!(book.add(Side::Sell, one), Err(Unplaced::Full));
                    continue;
                }
                _ => book.add(Side::Sell, one).map(|()| known.is_none()).inspect(|_| naive.put(one)),
            };
            assert!(result.is_ok_and(|done| done) || naive.known.get(&id).copied() == known, "step {step}");
            assert_eq!(book.best(Side::Sell), naive.sorted.values().next().copied());
            if step % ORDERS == 0 || step == 8 * ORDERS - 1 {
                assert!(book.orders(Side::Sell).eq(naive.sorted.values().copied()), "step {step}");
            }
        }
        assert!(naive.known.len() as u64 > ORDERS * 9 / 10, "{}", naive.known.len());
        book.clear();
        assert_eq!(book.len(Side::Sell), 0);
        naive.known.values().for_each(|one| book.add(Side::Sell, *one).unwrap());
        assert!(book.orders(Side::Sell).eq(naive.sorted.values().copied()));
    }

    proptest! {
        #[test]
        fn the_book_is_a_sorted_list(changes in prop::collection::vec((0u8..3, 0u64..9, 0i64..5, 0u64..5), 0..99)) {
            let (mut book, mut model) = (OrderBook::new(6).unwrap(), Vec::<Order>::new());
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
                model.sort_by_key(|order| (Reverse(order.price), order.priority, order.id.0));
                prop_assert_eq!(book.orders(Side::Buy).collect::<Vec<_>>(), &model[..]);
            }
        }
    }
}
