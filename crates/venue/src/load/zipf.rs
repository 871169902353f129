//! Instruments by Zipf's law: the k-th is chosen with a probability proportional to 1/k, in constant time.

use crate::random::Random;

/// An alias table (Walker 1977, by the method of Vose 1991), in integers.
#[derive(Debug)]
pub(super) struct Zipf {
    /// For each instrument: below this of 2^32 it is chosen itself, else its alias.
    slots: Vec<(u64, u32)>,
}

const ONE: u64 = 1 << 32;

/// Weights of `n` instruments, of which the sum is about `n` times 2^32.
fn weights(n: usize) -> Vec<u64> {
    let raw = |k: usize| (1_u64 << 40) / (k as u64 + 1);
    let sum: u64 = (0..n).map(raw).sum();
    (0..n).map(|k| (u128::from(raw(k)) * n as u128 * u128::from(ONE) / u128::from(sum)) as u64).collect()
}

impl Zipf {
    pub(super) fn new(n: usize) -> Self {
        let mut rest = weights(n);
        let mut slots: Vec<(u64, u32)> = (0..n).map(|k| (ONE, k as u32)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|k| rest[*k] < ONE);
        while let (Some(low), Some(high)) = (small.pop(), large.pop()) {
            slots[low] = (rest[low], high as u32);
            rest[high] -= ONE - rest[low];
            if rest[high] < ONE { small.push(high) } else { large.push(high) }
        }
        Self { slots }
    }

    /// The share of instrument `k` of `total`.
    pub(super) fn share(n: usize, total: usize) -> Vec<usize> {
        let weights = weights(n);
        weights
            .iter()
            .map(|weight| (u128::from(*weight) * total as u128 / (n as u128 * u128::from(ONE))) as usize)
            .collect()
    }

    pub(super) fn pick(&self, random: &mut Random) -> usize {
        let bits = random.bits();
        let k = ((u128::from(bits >> 32) * self.slots.len() as u128) >> 32) as usize;
        let (below, alias) = self.slots[k];
        if bits & (ONE - 1) < below { k } else { alias as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruments_come_as_often_as_zipf_says() {
        let zipf = Zipf::new(100);
        let mut random = Random::new(3);
        let mut counts = [0_u32; 100];
        let draws = 400_000;
        (0..draws).for_each(|_| counts[zipf.pick(&mut random)] += 1);
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for k in [1_u32, 2, 10, 100] {
            let expected = f64::from(draws) / f64::from(k) / harmonic;
            let found = f64::from(counts[k as usize - 1]);
            assert!((found / expected - 1.0).abs() < 0.1, "{k}: {found} of {expected}");
        }
    }

    #[test]
    fn one_instrument_is_always_chosen() {
        let zipf = Zipf::new(1);
        let mut random = Random::new(3);
        assert!((0..100).all(|_| zipf.pick(&mut random) == 0));
        assert_eq!(Zipf::share(1, 10), [10]);
    }
}
