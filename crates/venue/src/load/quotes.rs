//! Prices and sizes of synthetic orders.

use crate::random::Random;
use crate::units::{Side, TICK};

/// The value of an instrument, which wanders and returns; in ticks.
#[derive(Debug)]
pub(super) struct Quotes {
    base: u32,
    value: u32,
}

/// Ticks that the value may be away from where it began.
const WANDER_MAX: u32 = 200;

/// Ticks between an order and the value, at most; base prices are above it.
const DISTANCE_MAX: u32 = 300;

/// Ticks that an order keeps from the best price of the other side.
const SPREAD_MIN: u32 = 2;

impl Quotes {
    /// A value between 10 and 500 dollars.
    pub(super) fn new(random: &mut Random) -> Self {
        let base = 1_000 + random.below(49_000) as u32;
        Self { base, value: base }
    }

    /// The price of a new order: near the value, at least two ticks from the best of the other side. Four decimals.
    pub(super) fn price(&mut self, side: Side, opposite: Option<u32>, random: &mut Random) -> u32 {
        if random.one_in(16) {
            self.wander(random);
        }
        let distance = if random.one_in(32) {
            random.below(u64::from(DISTANCE_MAX)) as u32
        } else {
            random.geometric(5, DISTANCE_MAX)
        };
        let opposite = opposite.map(|price| price / TICK);
        let ticks = match side {
            Side::Buy => {
                let wanted = self.value - 1 - distance;
                opposite.map_or(wanted, |offer| wanted.min(offer.saturating_sub(SPREAD_MIN)))
            }
            Side::Sell => {
                let wanted = self.value + 1 + distance;
                opposite.map_or(wanted, |bid| wanted.max(bid + SPREAD_MIN))
            }
        };
        ticks.max(1) * TICK
    }

    /// One tick, the more likely towards the base the farther it is away.
    fn wander(&mut self, random: &mut Random) {
        let away = i64::from(self.value) - i64::from(self.base);
        let up = random.below(2 * u64::from(WANDER_MAX)) as i64 - i64::from(WANDER_MAX) >= away;
        if up { self.value += 1 } else { self.value -= 1 }
    }
}

/// Shares of an order: mostly a round lot, some odd lots, a few large ones.
pub(super) fn shares(random: &mut Random) -> u32 {
    match random.below(16) {
        0..9 => 100,
        9..12 => 100 * (2 + random.below(9) as u32),
        12..15 => 1 + random.below(99) as u32,
        _ => 100 * (10 + random.below(90) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_keeps_two_ticks_from_the_other_side() {
        let mut random = Random::new(2);
        let mut quotes = Quotes::new(&mut random);
        for step in 0..10_000 {
            let other = (quotes.value + step % 7) * TICK;
            assert!(quotes.price(Side::Buy, Some(other), &mut random) + 2 * TICK <= other);
            assert!(quotes.price(Side::Sell, Some(other), &mut random) >= other + 2 * TICK);
        }
        assert_eq!(quotes.price(Side::Buy, Some(1), &mut random), TICK);
    }

    #[test]
    fn the_value_stays_near_its_base() {
        let mut random = Random::new(4);
        let mut quotes = Quotes::new(&mut random);
        let mut farthest = 0;
        for _ in 0..1_000_000 {
            quotes.wander(&mut random);
            farthest = farthest.max(quotes.value.abs_diff(quotes.base));
        }
        assert!((10..=WANDER_MAX).contains(&farthest), "{farthest}");
    }
}
