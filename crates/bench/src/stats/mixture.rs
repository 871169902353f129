//! The mixture of the slices of a row, in which each slice counts alike.
//!
//! Slices last equally long, and a fast one brings ten times the samples of a slow one. Were all samples put together, the percentiles
//! of a path with two modes would be those of its fast mode. In the mixture a percentile is that of a message picked at
//! random from a slice picked at random.

use super::TAIL_SAMPLES;
use super::slice::{DIGITS, LONGEST_NS, Slice};
use hdrhistogram::Histogram;

/// Weight of a sample in a slice of average length: leaves room for the samples of longer slices, which count less.
const WEIGHT: f64 = 64.0;

/// Samples beyond the end of a curve.
const LARGEST: usize = 10;

/// Slices, and their mixture.
#[derive(Debug)]
pub(crate) struct Mixture<'a> {
    slices: Vec<&'a Slice>,
    /// Counts are weights, [`WEIGHT`] for an average sample.
    weighted: Histogram<u64>,
}

/// Returns the samples needed before `quantile` is said: [`TAIL_SAMPLES`] beyond it.
pub(crate) fn needed_samples(quantile: f64) -> f64 {
    (TAIL_SAMPLES / (1.0 - quantile)).round()
}

impl<'a> Mixture<'a> {
    /// Of slices that have samples; none of none.
    pub(crate) fn of(slices: Vec<&'a Slice>) -> Option<Self> {
        let samples: u64 = slices.iter().map(|slice| slice.len()).sum();
        let average = samples as f64 / slices.len().max(1) as f64;
        if samples == 0 {
            return None;
        }
        let mut weighted =
            Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in order");
        for slice in &slices {
            let weight = WEIGHT * average / slice.len() as f64;
            for bucket in slice.histogram.iter_recorded() {
                let count = (f64::from(bucket.count_at_value()) * weight).round().max(1.0);
                weighted.saturating_record_n(bucket.value_iterated_to(), count as u64);
            }
        }
        Some(Self { slices, weighted })
    }

    /// The slices.
    pub(crate) fn slices(&self) -> &[&'a Slice] {
        &self.slices
    }

    /// The histogram; its counts are weights.
    pub(crate) fn weighted(&self) -> &Histogram<u64> {
        &self.weighted
    }

    /// Value at a quantile, ns.
    pub(crate) fn value(&self, quantile: f64) -> f64 {
        self.weighted.value_at_quantile(quantile.clamp(0.0, 1.0)) as f64
    }

    /// Returns the number of samples of one slice that would say as much: fewer than there are, where slices differ in length
    /// (Kish 1965).
    pub(crate) fn samples(&self) -> f64 {
        let inverses: f64 = self.slices.iter().map(|slice| 1.0 / slice.len() as f64).sum();
        (self.slices.len() as f64).powi(2) / inverses
    }

    /// Returns whether there are enough samples beyond `quantile` to say it: in all, and where it lies. The tail may be that of one
    /// slice that was held up, and has few.
    pub(crate) fn tells(&self, quantile: f64) -> bool {
        let all: u64 = self.slices.iter().map(|slice| slice.len()).sum();
        all as f64 >= needed_samples(quantile) && self.samples_from(self.value(quantile)) as f64 >= TAIL_SAMPLES
    }

    /// Samples in the bucket of a value, or beyond.
    fn samples_from(&self, value: f64) -> u64 {
        self.slices.iter().map(|slice| slice.count_from(value as u64)).sum()
    }

    /// The share of the mixture that its ten largest samples hold: what lies beyond is too random to be drawn.
    pub(crate) fn largest_ten(&self) -> f64 {
        let of = |slice: &&Slice| {
            let share = 1.0 / (self.slices.len() as f64 * slice.len() as f64);
            slice.largest(LARGEST).into_iter().map(move |value| (value, share))
        };
        let mut largest: Vec<(u64, f64)> = self.slices.iter().flat_map(of).collect();
        largest.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
        largest.iter().take(LARGEST).map(|(_, share)| share).sum()
    }

    /// Mean, ns.
    pub(crate) fn mean(&self) -> f64 {
        self.average(Slice::mean)
    }

    /// Standard deviation, ns.
    pub(crate) fn stddev(&self) -> f64 {
        let mean = self.mean();
        (self.average(|slice| slice.sum_of_squares / slice.len() as f64) - mean * mean).max(0.0).sqrt()
    }

    fn average(&self, of: impl Fn(&Slice) -> f64) -> f64 {
        self.slices.iter().map(|slice| of(slice)).sum::<f64>() / self.slices.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(of: &[(u64, u64)]) -> Vec<Slice> {
        of.iter().map(|(count, value)| Slice::of((0..*count).map(|_| *value))).collect()
    }

    fn mixture(slices: &[Slice]) -> Mixture<'_> {
        Mixture::of(slices.iter().collect()).expect("samples")
    }

    #[test]
    fn a_slice_with_ten_times_the_samples_counts_once() {
        // 10 us in 4 slices of 10, 80 us in the others: the samples of the fast ones are more than four in five of all.
        let of: Vec<(u64, u64)> = (0..10).map(|i| if i < 4 { (5_000, 10_000) } else { (600, 80_000) }).collect();
        let slices = slices(&of);
        let mixture = mixture(&slices);
        assert!((mixture.value(0.5) / 80_000.0 - 1.0).abs() < 0.001, "{}", mixture.value(0.5));
        assert!((mixture.value(0.39) / 10_000.0 - 1.0).abs() < 0.001);
        assert!((mixture.mean() - 52_000.0).abs() < 100.0, "{}", mixture.mean());
        assert!((mixture.stddev() - 34_293.0).abs() < 100.0, "{}", mixture.stddev());
        assert!(mixture.samples() < 10_000.0, "the short slices decide: {}", mixture.samples());
        assert!(mixture.tells(0.9) && mixture.tells(0.99) && !mixture.tells(0.999));
    }

    #[test]
    fn slices_of_one_length_are_their_samples() {
        let slices = slices(&[(1_000, 5), (1_000, 7)]);
        let mixture = mixture(&slices);
        assert!((mixture.samples() - 2_000.0).abs() < 1e-6);
        assert!(mixture.tells(0.95) && !mixture.tells(0.96));
    }

    #[test]
    fn a_tail_that_is_one_slice_with_few_samples_is_not_said() {
        let mut of: Vec<(u64, u64)> = vec![(2_000, 5_000); 39];
        of.push((20, 400_000));
        let slices = slices(&of);
        let mixture = mixture(&slices);
        assert!(mixture.tells(0.5) && mixture.tells(0.9), "39 slices of 40 have all that these need");
        assert!(!mixture.tells(0.99), "it lies in the slice of 20 samples");
        assert!(mixture.largest_ten() > 0.01, "{}", mixture.largest_ten());
    }

    #[test]
    fn a_slice_of_a_million_samples_beside_short_ones_keeps_its_weight() {
        let slices = slices(&[(1_000_000, 100), (1, 900), (1, 900)]);
        let mixture = mixture(&slices);
        assert_eq!((mixture.value(0.3), mixture.value(0.4)), (100.0, 900.0));
    }

    #[test]
    fn nothing_has_no_mixture() {
        assert!(Mixture::of(Vec::new()).is_none());
        let empty = Slice::default();
        assert!(Mixture::of(vec![&empty]).is_none());
    }
}
