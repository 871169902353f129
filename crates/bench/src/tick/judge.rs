//! The judge: every trigger is answered once, by the order that it asks for.
//!
//! Orders are looked at after their slice, none while it lasts. An order without a trigger, one that comes before it, a
//! second one, and one with another symbol, side, price or quantity is wrong, and fails the run: a fast wrong order is no result. A trigger without an order is
//! missed; an order that comes later than [`LATE_NS`] after its tick is late. Both are counted, and fail nothing.

use std::collections::HashMap;
use std::fmt;

/// An order that comes later than this after its tick is late: long after anybody else has traded, and what trade_sim of Onload gives up after.
pub(crate) const LATE_NS: u64 = 10_000_000;

/// An order, as the tick asks for it and as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The exchange's number of the order that is the tick, which the trader's order carries back.
    pub(crate) reference: u64,
    /// The instrument, filled up with spaces on the right.
    pub(crate) symbol: [u8; 8],
    /// Set if it buys.
    pub(crate) buys: bool,
    /// Price, four decimals.
    pub(crate) price: u32,
    /// Shares.
    pub(crate) quantity: u32,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, symbol) = (if self.buys { "buy" } else { "sell" }, String::from_utf8_lossy(&self.symbol));
        let (whole, fraction) = (self.price / 10_000, self.price % 10_000);
        let (quantity, symbol) = (self.quantity, symbol.trim_end());
        write!(f, "{side} {quantity} {symbol} at {whole}.{fraction:04} for tick {}", self.reference)
    }
}

/// A tick, and what became of it at the exchange, in ns of the slice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tick {
    /// The order that it asks for.
    pub(crate) asks: Order,
    /// When its first datagram that was sent was due; none where none was sent.
    pub(crate) due_ns: Option<u64>,
}

/// The order that came for a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The place of the tick.
    pub(crate) tick: usize,
    /// When the first byte of the order was seen, ns of the slice.
    pub(crate) seen_ns: u64,
}

/// The judgement of a slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    /// The right orders, in the order of their coming.
    pub(crate) answered: Vec<Answered>,
    /// Ticks that were due and not answered.
    pub(crate) missed: u64,
    /// Ticks of which no datagram was sent, as the slice was over.
    pub(crate) unsent: u64,
    /// Right orders that came late; they are among those answered.
    pub(crate) late: u64,
    /// Orders with another symbol, side, price or quantity than the tick asks for.
    pub(crate) wrong: u64,
    /// Further orders for a tick that has one.
    pub(crate) duplicates: u64,
    /// Orders that came before their tick was due.
    pub(crate) early: u64,
    /// Orders for nothing that was sent.
    pub(crate) unknown: u64,
    /// The first fault, for the user.
    pub(crate) fault: Option<String>,
}

impl Judgement {
    /// Orders that may not be.
    pub(crate) fn faults(&self) -> u64 {
        self.wrong + self.duplicates + self.early + self.unknown
    }

    /// Of the ticks that were not sent, so many were due: nobody answered them either.
    pub(crate) fn withhold(&mut self, count: u64) {
        let count = count.min(self.unsent);
        self.unsent -= count;
        self.missed += count;
    }

    fn accuse(&mut self, fault: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(fault);
    }
}

/// Judges the orders of a slice, each with the time its first byte was seen.
pub(crate) fn judge(ticks: &[Tick], orders: &[(Order, u64)]) -> Judgement {
    let places: HashMap<u64, usize> = ticks.iter().enumerate().map(|(at, tick)| (tick.asks.reference, at)).collect();
    let mut has_order = vec![false; ticks.len()];
    let mut judgement = Judgement::default();
    for (order, seen_ns) in orders {
        let sent = places.get(&order.reference).and_then(|at| Some((*at, ticks[*at].due_ns?)));
        let Some((at, due_ns)) = sent else {
            judgement.unknown += 1;
            judgement.accuse(|| format!("{order}, which no tick asks for"));
            continue;
        };
        if std::mem::replace(&mut has_order[at], true) {
            judgement.duplicates += 1;
            judgement.accuse(|| format!("{order}, which was ordered before"));
        } else if *order != ticks[at].asks {
            judgement.wrong += 1;
            judgement.accuse(|| format!("{order}; right is: {}", ticks[at].asks));
        } else if *seen_ns < due_ns {
            // Who orders before the tick knows it from elsewhere: its time would be none.
            judgement.early += 1;
            judgement.accuse(|| format!("{order}, which came {} ns before its tick was due", due_ns - seen_ns));
        } else {
            judgement.late += u64::from(seen_ns.saturating_sub(due_ns) > LATE_NS);
            judgement.answered.push(Answered { tick: at, seen_ns: *seen_ns });
        }
    }
    let silent = ticks.iter().zip(&has_order).filter(|(_, has_order)| !**has_order);
    for (tick, _) in silent {
        *(if tick.due_ns.is_some() { &mut judgement.missed } else { &mut judgement.unsent }) += 1;
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(reference: u64) -> Order {
        Order { reference, symbol: *b"SIDE    ", buys: true, price: 1_000_500, quantity: 100 }
    }

    fn ticks(count: u64) -> Vec<Tick> {
        (1..=count).map(|number| Tick { asks: order(number), due_ns: Some(1_000 * number) }).collect()
    }

    #[test]
    fn an_order_for_each_tick_is_right() {
        let orders: Vec<_> = (1..=3).map(|number| (order(number), 1_000 * number + 500)).collect();
        let judgement = judge(&ticks(3), &orders);
        assert_eq!((judgement.answered.len(), judgement.missed, judgement.faults()), (3, 0, 0));
        assert_eq!(judgement.answered[2], Answered { tick: 2, seen_ns: 3_500 });
        assert!(judgement.fault.is_none());
    }

    #[test]
    fn an_order_with_one_other_field_is_wrong_and_is_no_sample() {
        let right = order(1);
        let others = [
            Order { symbol: *b"OTHER   ", ..right },
            Order { buys: false, ..right },
            Order { price: right.price + 1, ..right },
            Order { quantity: 101, ..right },
        ];
        for other in others {
            let judgement = judge(&ticks(1), &[(other, 1_500)]);
            assert_eq!((judgement.wrong, judgement.answered.len(), judgement.missed), (1, 0, 0), "{other}");
            assert!(judgement.fault.expect("it is told").contains("right is: buy 100 SIDE at 100.0500 for tick 1"));
        }
    }

    #[test]
    fn a_second_order_for_a_tick_is_a_fault_whatever_it_says() {
        let judgement = judge(&ticks(2), &[(order(1), 1_100), (order(1), 1_200)]);
        assert_eq!((judgement.duplicates, judgement.answered.len(), judgement.missed), (1, 1, 1));
        let wrong_first = judge(&ticks(1), &[(Order { price: 1, ..order(1) }, 1_100), (order(1), 1_200)]);
        assert_eq!((wrong_first.wrong, wrong_first.duplicates, wrong_first.answered.len()), (1, 1, 0));
    }

    #[test]
    fn an_order_that_no_tick_asks_for_is_a_fault() {
        let mut some = ticks(2);
        some[1].due_ns = None;
        let judgement = judge(&some, &[(order(7), 1), (order(2), 1), (Order::default(), 1)]);
        assert_eq!((judgement.unknown, judgement.missed, judgement.unsent), (3, 1, 1), "tick 2 was never sent");
        assert!(judgement.fault.expect("it is told").contains("for tick 7, which no tick asks for"));
    }

    #[test]
    fn a_late_order_is_counted_and_stays_a_sample() {
        let at = |late_by: u64| 1_000 + LATE_NS + late_by;
        let judgement = judge(&ticks(1), &[(order(1), at(1))]);
        assert_eq!((judgement.late, judgement.answered.len(), judgement.faults()), (1, 1, 0));
        assert_eq!(judge(&ticks(1), &[(order(1), at(0))]).late, 0);
    }

    /// A trader is told before the slice which ticks ask for orders: one that does not wait for them would be the fastest of all.
    #[test]
    fn an_order_that_comes_before_its_tick_is_a_fault_and_no_sample() {
        let judgement = judge(&ticks(2), &[(order(1), 999), (order(2), 2_000)]);
        assert_eq!((judgement.early, judgement.faults(), judgement.answered.len(), judgement.late), (1, 1, 1, 0));
        assert!(judgement.fault.expect("it is told").contains("came 1 ns before its tick was due"));
    }

    #[test]
    fn ticks_that_were_due_and_not_sent_are_missed() {
        let mut some = ticks(3);
        some.iter_mut().for_each(|tick| tick.due_ns = None);
        let mut judgement = judge(&some, &[]);
        judgement.withhold(2);
        assert_eq!((judgement.missed, judgement.unsent), (2, 1));
        judgement.withhold(9);
        assert_eq!((judgement.missed, judgement.unsent), (3, 0), "no more than there were");
    }

    #[test]
    fn a_slice_without_orders_has_missed_all_and_one_without_ticks_nothing() {
        assert_eq!(judge(&ticks(5), &[]).missed, 5);
        assert_eq!(judge(&[], &[]).missed, 0);
    }

    proptest! {
        /// Each tick has one fate, each order one.
        #[test]
        fn counts_add_up(count in 0_u64..20, orders in prop::collection::vec((0_u64..25, any::<bool>()), 0..60)) {
            let orders: Vec<_> = orders
                .into_iter()
                .map(|(number, right)| (Order { quantity: if right { 100 } else { 1 }, ..order(number) }, 10_000))
                .collect();
            let ticks = ticks(count);
            let judgement = judge(&ticks, &orders);
            let answered = judgement.answered.len() as u64;
            prop_assert_eq!(answered + judgement.faults(), orders.len() as u64);
            prop_assert_eq!(answered + judgement.wrong + judgement.early + judgement.missed + judgement.unsent, count);
            prop_assert_eq!(judgement.faults() > 0, judgement.fault.is_some());
        }
    }
}
