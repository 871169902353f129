//! For tests: books built from the feed alone, as slowly and as plainly as possible. Offsets are typed once more here.

use crate::matching::{Matching, Sink};
use crate::units::Side;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NaiveOrder {
    pub(crate) locate: u16,
    pub(crate) side: Side,
    pub(crate) shares: u32,
    pub(crate) price: u32,
}

/// What a subscriber knows after some messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Naive {
    pub(crate) orders: BTreeMap<u64, NaiveOrder>,
    pub(crate) levels: BTreeMap<(u16, u8), BTreeMap<u32, u64>>,
    pub(crate) counts: BTreeMap<u8, u64>,
}

fn number(message: &[u8], at: usize, length: usize) -> u64 {
    message[at..at + length].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

impl Naive {
    pub(crate) fn apply(&mut self, message: &[u8]) {
        *self.counts.entry(message[0]).or_default() += 1;
        let reference = || number(message, 11, 8);
        match message[0] {
            b'A' | b'F' => {
                assert_eq!(message.len(), if message[0] == b'A' { 36 } else { 40 });
                let side = if message[19] == b'B' { Side::Buy } else { Side::Sell };
                let shares = number(message, 20, 4) as u32;
                let price = number(message, 32, 4) as u32;
                self.add(reference(), NaiveOrder { locate: number(message, 1, 2) as u16, side, shares, price });
            }
            b'E' | b'C' | b'X' => self.reduce(reference(), number(message, 19, 4) as u32),
            b'D' => {
                let shares = self.orders[&reference()].shares;
                self.reduce(reference(), shares);
            }
            b'U' => {
                let old = self.orders[&reference()];
                self.reduce(reference(), old.shares);
                let (shares, price) = (number(message, 27, 4) as u32, number(message, 31, 4) as u32);
                self.add(number(message, 19, 8), NaiveOrder { shares, price, ..old });
            }
            b'S' | b'R' | b'H' | b'P' | b'Q' => {}
            kind => panic!("{} is no type that the venue sends", kind as char),
        }
    }

    fn add(&mut self, reference: u64, order: NaiveOrder) {
        assert!(order.shares > 0 && self.orders.insert(reference, order).is_none());
        let levels = self.levels.entry((order.locate, order.side.letter())).or_default();
        *levels.entry(order.price).or_default() += u64::from(order.shares);
    }

    fn reduce(&mut self, reference: u64, shares: u32) {
        let order = self.orders.get_mut(&reference).expect("a live order");
        order.shares = order.shares.checked_sub(shares).expect("no more than it has");
        let order = *order;
        if order.shares == 0 {
            self.orders.remove(&reference);
        }
        let levels = self.levels.get_mut(&(order.locate, order.side.letter())).expect("a side");
        let level = levels.get_mut(&order.price).expect("a level");
        *level -= u64::from(shares);
        if *level == 0 {
            levels.remove(&order.price);
        }
    }

    pub(crate) fn best(&self, locate: u16, side: Side) -> Option<u32> {
        let levels = self.levels.get(&(locate, side.letter()))?;
        match side {
            Side::Buy => levels.keys().next_back().copied(),
            Side::Sell => levels.keys().next().copied(),
        }
    }

    /// Fails unless the engine shows the same displayed levels of an instrument.
    pub(crate) fn assert_equal(&self, matching: &Matching, locate: u16) {
        for side in [Side::Buy, Side::Sell] {
            let places = (0..).map_while(|place| matching.depth(locate, side, place));
            let theirs: BTreeMap<u32, u64> =
                places.filter(|(_, shown, _)| *shown > 0).map(|(price, shown, _)| (price, shown)).collect();
            let ours = self.levels.get(&(locate, side.letter())).cloned().unwrap_or_default();
            assert_eq!(theirs, ours, "{locate} {side:?}");
        }
    }
}

/// Keeps the whole feed, applies it, and keeps the answers.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) naive: Naive,
    pub(crate) answers: HashMap<u64, Vec<crate::matching::Answer>>,
}

impl Sink for Kept {
    fn publish(&mut self, message: &[u8]) {
        self.naive.apply(message);
        self.messages.push(message.to_vec());
    }

    fn answer(&mut self, owner: u64, answer: &crate::matching::Answer) {
        self.answers.entry(owner).or_default().push(*answer);
    }
}
