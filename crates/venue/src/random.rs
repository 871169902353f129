//! Random numbers by seed, equal on every machine and for every version of this crate's dependencies.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): 64 bits of state, period 2^64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1. The bias is below `end` / 2^64.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// True once in `n` on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Failures before the first success of trials that succeed once in `n`, at most `max`.
    pub(crate) fn geometric(&mut self, n: u64, max: u32) -> u32 {
        (0..max).find(|_| self.one_in(n)).unwrap_or(max)
    }

    /// Exponentially distributed with mean 2^32, by comparisons alone (von Neumann, 1951): no logarithm, whose last bit
    /// differs between libraries.
    pub(crate) fn exponential(&mut self) -> u64 {
        for whole in 0..EXPONENTIAL_MAX {
            let first = self.bits() >> 32;
            let (mut last, mut run) = (first, 1_u32);
            loop {
                let next = self.bits() >> 32;
                if next >= last {
                    break;
                }
                (last, run) = (next, run + 1);
            }
            if run % 2 == 1 {
                return (whole << 32) + first;
            }
        }
        EXPONENTIAL_MAX << 32
    }
}

/// Means at which an interval is cut off: once in e^40.
const EXPONENTIAL_MAX: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_is_the_published_one() {
        // The first outputs for seed 1234567, as the reference implementation (Vigna, splitmix64.c) gives them.
        let mut random = Random::new(1_234_567);
        assert_eq!([random.bits(), random.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn exponential_intervals_have_mean_and_spread_of_one() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..200_000).map(|_| random.exponential() as f64 / 4_294_967_296.0).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let beyond_three = draws.iter().filter(|draw| **draw > 3.0).count() as f64 / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((beyond_three - 0.0498).abs() < 0.003, "{beyond_three}");
    }

    #[test]
    fn every_number_below_the_end_comes_and_none_beyond() {
        let mut random = Random::new(7);
        let mut seen = [0; 5];
        (0..1_000).for_each(|_| seen[random.index(5)] += 1);
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert!((0..1_000).all(|_| random.geometric(4, 9) <= 9));
    }
}
