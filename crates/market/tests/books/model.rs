//! The naive model: a map of orders, from which everything is computed anew.

use sidestep_market::book::{Ahead, Books, Change, Limits, PriceLevel, Refusal, Touched};
use sidestep_market::itch::Message;
use sidestep_market::units::{Locate, OrderReference, Price, Side};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    locate: Locate,
    side: Side,
    price: Price,
    shares: u32,
    /// When it got its place in time.
    since: u64,
}

pub(crate) struct Model {
    limits: Limits,
    orders: BTreeMap<OrderReference, Order>,
    /// Orders by instrument, side and price, then time: only to be quick.
    places: BTreeMap<(Locate, bool, Price), BTreeSet<(u64, OrderReference)>>,
    clock: u64,
}

type Outcome = Result<Option<Change>, Refusal>;

impl Model {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, orders: BTreeMap::new(), places: BTreeMap::new(), clock: 0 }
    }

    pub(crate) fn apply(&mut self, message: &Message<'_>) -> Outcome {
        self.clock += 1;
        match message {
            Message::AddOrder(add) => {
                self.add(add.locate(), add.order_reference(), add.side(), add.shares(), add.price())
            }
            Message::AddOrderMpid(add) => {
                self.add(add.locate(), add.order_reference(), add.side(), add.shares(), add.price())
            }
            Message::OrderExecuted(less) => self.reduce(less.locate(), less.order_reference(), Some(less.shares())),
            Message::OrderExecutedWithPrice(less) => {
                self.reduce(less.locate(), less.order_reference(), Some(less.shares()))
            }
            Message::OrderCancel(less) => self.reduce(less.locate(), less.order_reference(), Some(less.shares())),
            Message::OrderDelete(delete) => self.reduce(delete.locate(), delete.order_reference(), None),
            Message::OrderReplace(new) => {
                self.replace(new.locate(), new.old_order_reference(), new.order_reference(), new.shares(), new.price())
            }
            _ => Ok(None),
        }
    }

    fn has(&self, locate: Locate) -> Result<(), Refusal> {
        if (1..=self.limits.instruments).contains(&locate.0) { Ok(()) } else { Err(Refusal::UnknownInstrument) }
    }

    fn known(&self, locate: Locate, reference: OrderReference) -> Result<Order, Refusal> {
        self.has(locate)?;
        let order = *self.orders.get(&reference).ok_or(Refusal::UnknownOrder)?;
        if order.locate == locate { Ok(order) } else { Err(Refusal::OtherInstrument) }
    }

    fn level(&self, locate: Locate, side: Side, price: Price) -> PriceLevel {
        let orders = self.places.get(&(locate, side == Side::Buy, price)).into_iter().flatten();
        let shares = orders.clone().map(|(_, reference)| u64::from(self.orders[reference].shares)).sum();
        PriceLevel { price, shares, orders: orders.count() as u32 }
    }

    fn prices(&self, locate: Locate, side: Side) -> Vec<Price> {
        let buy = side == Side::Buy;
        let range = (locate, buy, Price(i64::MIN))..=(locate, buy, Price(i64::MAX));
        let mut prices: Vec<Price> = self.places.range(range).map(|((_, _, price), _)| *price).collect();
        if buy {
            prices.reverse();
        }
        prices
    }

    fn touches(&self, locate: Locate, side: Side, price: Price) -> bool {
        self.prices(locate, side).first() == Some(&price)
    }

    fn room(&self, locate: Locate, side: Side) -> Result<(), Refusal> {
        if self.prices(locate, side).len() == usize::from(self.limits.side_levels) {
            return Err(Refusal::SideFull);
        }
        if self.places.len() == self.limits.levels as usize { Err(Refusal::LevelsFull) } else { Ok(()) }
    }

    fn put(&mut self, reference: OrderReference, order: Order) {
        self.orders.insert(reference, order);
        let place = (order.locate, order.side == Side::Buy, order.price);
        self.places.entry(place).or_default().insert((order.since, reference));
    }

    fn take(&mut self, reference: OrderReference) {
        let order = self.orders.remove(&reference).unwrap();
        let place = (order.locate, order.side == Side::Buy, order.price);
        let queue = self.places.get_mut(&place).unwrap();
        assert!(queue.remove(&(order.since, reference)));
        if queue.is_empty() {
            self.places.remove(&place);
        }
    }

    fn add(
        &mut self,
        locate: Locate,
        reference: OrderReference,
        side: Option<Side>,
        shares: u32,
        price: Price,
    ) -> Outcome {
        self.has(locate)?;
        let side = side.ok_or(Refusal::BadSide)?;
        if price.0 > i64::from(i32::MAX) {
            return Err(Refusal::BadPrice);
        }
        if shares == 0 {
            return Err(Refusal::NoShares);
        }
        if self.orders.contains_key(&reference) {
            return Err(Refusal::DuplicateReference);
        }
        if self.orders.len() == self.limits.orders as usize {
            return Err(Refusal::OrdersFull);
        }
        if self.level(locate, side, price).orders == 0 {
            self.room(locate, side)?;
        }
        self.put(reference, Order { locate, side, price, shares, since: self.clock });
        Ok(Some(self.change(locate, side, price, false)))
    }

    fn change(&self, locate: Locate, side: Side, price: Price, was_top: bool) -> Change {
        let top = was_top || self.touches(locate, side, price);
        let touched = if top { Touched::Top } else { Touched::Deeper };
        Change { locate, side, touched, level: self.level(locate, side, price), left: None }
    }

    /// No shares: all.
    fn reduce(&mut self, locate: Locate, reference: OrderReference, shares: Option<u32>) -> Outcome {
        let order = self.known(locate, reference)?;
        let shares = shares.unwrap_or(order.shares);
        let left = order.shares.checked_sub(shares).ok_or(Refusal::TooManyShares)?;
        if shares == 0 {
            return Ok(None);
        }
        let top = self.touches(locate, order.side, order.price);
        self.take(reference);
        if left > 0 {
            self.put(reference, Order { shares: left, ..order });
        }
        Ok(Some(self.change(locate, order.side, order.price, top)))
    }

    fn replace(
        &mut self,
        locate: Locate,
        old: OrderReference,
        reference: OrderReference,
        shares: u32,
        price: Price,
    ) -> Outcome {
        let order = self.known(locate, old)?;
        if shares == 0 {
            return Err(Refusal::NoShares);
        }
        if price.0 > i64::from(i32::MAX) {
            return Err(Refusal::BadPrice);
        }
        if reference != old && self.orders.contains_key(&reference) {
            return Err(Refusal::DuplicateReference);
        }
        let stays = self.level(locate, order.side, order.price).orders > 1;
        if stays && self.level(locate, order.side, price).orders == 0 {
            self.room(locate, order.side)?;
        }
        let top = self.touches(locate, order.side, order.price);
        self.take(old);
        self.put(reference, Order { shares, price, since: self.clock, ..order });
        let left = (price != order.price).then(|| self.level(locate, order.side, order.price));
        Ok(Some(Change { left, ..self.change(locate, order.side, price, top) }))
    }

    pub(crate) fn forget(&mut self, locate: Locate) {
        let of_it: Vec<_> =
            self.orders.iter().filter(|(_, order)| order.locate == locate).map(|(key, _)| *key).collect();
        of_it.into_iter().for_each(|reference| self.take(reference));
    }

    /// All books, all levels, all orders.
    pub(crate) fn check(&self, books: &Books, with_orders: bool) {
        assert_eq!((books.orders() as usize, books.levels() as usize), (self.orders.len(), self.places.len()));
        for book in books.all() {
            for side in [Side::Buy, Side::Sell] {
                let wanted: Vec<_> = self.prices(book.locate(), side);
                let wanted: Vec<_> = wanted.iter().map(|price| self.level(book.locate(), side, *price)).collect();
                assert!(book.levels(side).eq(wanted.iter().copied()), "{:?} {side:?}", book.locate());
                assert!(book.levels(side).all(|level| level.shares > 0 && level.orders > 0));
                assert_eq!((book.best(side), book.depth(side)), (wanted.first().copied(), wanted.len()));
                for level in &wanted {
                    assert_eq!(book.level(side, level.price), Some(*level));
                    self.check_queue(books, book.locate(), side, level.price, with_orders);
                }
            }
        }
        for (reference, order) in &self.orders {
            let found = books.order(*reference).unwrap();
            let found = (found.locate, found.side, found.price, found.shares);
            assert_eq!(found, (order.locate, order.side, order.price, order.shares));
        }
    }

    fn check_queue(&self, books: &Books, locate: Locate, side: Side, price: Price, with_orders: bool) {
        let queue = &self.places[&(locate, side == Side::Buy, price)];
        let wanted: Vec<_> = queue.iter().map(|(_, reference)| *reference).collect();
        let found: Vec<_> = books.book(locate).unwrap().orders_at(side, price).map(|order| order.reference).collect();
        assert_eq!(found, if with_orders { wanted.clone() } else { Vec::new() });
        let ahead = |place: usize| Ahead {
            orders: place as u32,
            shares: wanted[..place].iter().map(|before| u64::from(self.orders[before].shares)).sum(),
        };
        let last = wanted.len() - 1;
        assert_eq!(books.ahead_of(wanted[last]), with_orders.then(|| ahead(last)));
    }

    pub(crate) fn check_empty(&self, books: &Books) {
        assert_eq!((books.orders(), books.levels()), (0, 0));
        assert!(self.orders.keys().all(|reference| books.order(*reference).is_none()));
        assert!(books.all().all(|book| book.best(Side::Buy).is_none() && book.best(Side::Sell).is_none()));
    }
}
