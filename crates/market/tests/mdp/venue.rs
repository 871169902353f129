//! A venue that publishes updates and snapshot loops, and remembers how its instruments were.

use crate::packets::{encoded, packet, reset, update};
use crate::{DEPTH, END};
use fastrand::Rng;
use sidestep_market::mdp::schema::types::{Action, EntryType, MatchEvent};
use sidestep_market::mdp::schema::{OrderSnapshotEncoder, OrderUpdateEncoder, SnapshotEncoder};
use sidestep_market::mdp::{BookKind, Order};
use sidestep_market::units::{OrderReference, Price};
use std::collections::BTreeMap;

/// An order: side, price, priority, size.
pub(crate) type Placed = (usize, i64, u64, i32);

/// A venue's instrument: its visible levels and its orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) sides: [Vec<(i64, i32)>; 2],
    pub(crate) orders: BTreeMap<u64, Placed>,
    rpt_seq: u32,
}

/// The venue: what it has published, and how its instruments were after each packet.
pub(crate) struct Venue {
    random: Rng,
    listed: BTreeMap<i32, Listed>,
    pub(crate) history: Vec<BTreeMap<i32, Listed>>,
    next_order: u64,
    resets: bool,
}

const TYPES: [EntryType; 2] = [EntryType::BID, EntryType::OFFER];

impl Venue {
    pub(crate) fn new(seed: u64, resets: bool) -> Self {
        let listed: BTreeMap<i32, Listed> = [(7, Listed::default()), (8, Listed::default())].into();
        Self { random: Rng::with_seed(seed), history: vec![listed.clone()], listed, next_order: 1, resets }
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.history.len() as u32 - 1
    }

    /// The next packet: one to three messages.
    pub(crate) fn packet(&mut self) -> Vec<u8> {
        let count = self.random.usize(1..4);
        let messages: Vec<Vec<u8>> = (0..count).map(|_| self.message()).collect();
        self.history.push(self.listed.clone());
        packet(self.sequence(), &messages)
    }

    fn message(&mut self) -> Vec<u8> {
        let id = if self.random.bool() { 7 } else { 8 };
        let event = if self.random.u8(0..10) < 7 { END } else { MatchEvent(0) };
        match self.random.u8(0..20) {
            0 if self.resets && self.random.u8(0..4) == 0 => {
                self.listed.values_mut().for_each(|one| *one = Listed::default());
                reset(event)
            }
            1..=6 => self.order_update(id, event),
            _ => self.level_update(id, event),
        }
    }

    fn level_update(&mut self, id: i32, event: MatchEvent) -> Vec<u8> {
        let one = self.listed.get_mut(&id).expect("it is listed");
        let side = self.random.usize(0..2);
        let (levels, price) = (&mut one.sides[side], self.random.i64(0..50));
        let at = self.random.usize(0..=levels.len().min(DEPTH - 1));
        let action = match self.random.u8(0..4) {
            0 if at < levels.len() => {
                levels[at] = (price, 7);
                Action::CHANGE
            }
            1 if at < levels.len() => {
                levels.remove(at);
                Action::DELETE
            }
            _ => {
                levels.insert(at, (price, 7));
                levels.truncate(DEPTH);
                Action::NEW
            }
        };
        one.rpt_seq += 1;
        let order = (self.random.u8(0..4) == 0).then(|| {
            let order = self.next_order;
            self.next_order += 1;
            one.orders.insert(order, (side, price, order, 7));
            (order, Action::NEW)
        });
        update(id, one.rpt_seq, (action, TYPES[side], at as u8 + 1, price), order, event)
    }

    fn order_update(&mut self, id: i32, event: MatchEvent) -> Vec<u8> {
        let one = self.listed.get_mut(&id).expect("it is listed");
        let known: Vec<u64> = one.orders.keys().copied().collect();
        let (order, action, (side, price, priority, size)) = match known.len() {
            0..4 => {
                self.next_order += 1;
                (
                    self.next_order - 1,
                    Action::NEW,
                    (self.random.usize(0..2), self.random.i64(0..9), self.next_order - 1, 5),
                )
            }
            count => {
                let order = known[self.random.usize(0..count)];
                let (side, _, priority, _) = one.orders[&order];
                let action = if count > 9 || self.random.bool() { Action::DELETE } else { Action::CHANGE };
                (order, action, (side, self.random.i64(0..9), priority, self.random.i32(1..9)))
            }
        };
        if action == Action::DELETE {
            one.orders.remove(&order)
        } else {
            one.orders.insert(order, (side, price, priority, size))
        };
        encoded(|buffer| {
            let mut message = OrderUpdateEncoder::new(buffer)?;
            message.fields().match_event(event);
            let mut orders = message.orders()?;
            let mut entry = orders.entry()?;
            entry.order_id(Some(order)).priority(Some(priority)).size(Some(size)).security_id(id).action(action);
            entry.entry_type(TYPES[side]).price().mantissa(Some(price));
            Ok(orders.end())
        })
    }

    /// The loops as they are now, one message in a packet. Instruments that were never active are not in them.
    pub(crate) fn loops(&self) -> Vec<(BookKind, Vec<u8>)> {
        let active: Vec<(&i32, &Listed)> = self.listed.iter().filter(|(_, one)| **one != Listed::default()).collect();
        let prices = active.iter().map(|(id, one)| self.price_snapshot(**id, one, active.len() as u32));
        let orders = active.iter().flat_map(|(id, one)| self.order_snapshot(**id, one, active.len() as u32));
        let number = |kind, messages: Vec<Vec<u8>>| {
            let packets = messages.into_iter().enumerate().map(|(at, message)| packet(at as u32 + 1, &[message]));
            packets.map(|packet| (kind, packet)).collect::<Vec<_>>()
        };
        [number(BookKind::Prices, prices.collect()), number(BookKind::Orders, orders.collect())].concat()
    }

    fn price_snapshot(&self, id: i32, one: &Listed, reports: u32) -> Vec<u8> {
        encoded(|buffer| {
            let mut message = SnapshotEncoder::new(buffer)?;
            message.fields().last_sequence(self.sequence()).reports(reports).security_id(id).rpt_seq(one.rpt_seq);
            let mut levels = message.levels()?;
            for (side, of) in TYPES.into_iter().enumerate() {
                for (at, (price, size)) in one.sides[side].iter().enumerate() {
                    let mut entry = levels.entry()?;
                    entry.size(Some(*size)).orders(Some(1)).level(Some(at as i8 + 1)).entry_type(of);
                    entry.price().mantissa(Some(*price));
                }
            }
            Ok(levels.end())
        })
    }

    fn order_snapshot(&self, id: i32, one: &Listed, reports: u32) -> Vec<Vec<u8>> {
        let orders: Vec<_> = one.orders.iter().collect();
        let chunks: Vec<_> = if orders.is_empty() { vec![&orders[..]] } else { orders.chunks(3).collect() };
        let write = |(at, chunk): (usize, &&[(&u64, &Placed)])| {
            encoded(|buffer| {
                let mut message = OrderSnapshotEncoder::new(buffer)?;
                let mut fields = message.fields();
                fields.last_sequence(self.sequence()).reports(reports).security_id(id);
                fields.chunks(chunks.len() as u32).chunk(at as u32 + 1);
                let mut group = message.orders()?;
                for (order, (side, price, priority, size)) in *chunk {
                    let mut entry = group.entry()?;
                    entry.order_id(**order).priority(Some(*priority)).size(*size).entry_type(TYPES[*side]);
                    entry.price().mantissa(Some(*price));
                }
                Ok(group.end())
            })
        };
        chunks.iter().enumerate().map(write).collect()
    }
}

/// The orders of a side as a book has them.
pub(crate) fn sorted(state: &Listed, side: usize) -> Vec<Order> {
    let own = state.orders.iter().filter(|(_, order)| order.0 == side);
    let mut orders: Vec<Order> = own
        .map(|(id, (_, price, priority, size))| Order {
            id: OrderReference(*id),
            priority: *priority,
            price: Price(*price),
            size: *size,
        })
        .collect();
    orders.sort_by_key(|order| (if side == 0 { -order.price.0 } else { order.price.0 }, order.priority));
    orders
}
