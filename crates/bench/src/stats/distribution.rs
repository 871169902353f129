//! Slices put together into the distribution of a row.

use super::slice::{DIGITS, LONGEST_NS, Slice};
use super::{TAIL_SAMPLES, bootstrap, student_t};
use hdrhistogram::Histogram;
use sidestep_report::histogram::encode;
use sidestep_report::schema::{Block, Ci95, Distribution};

/// The percentiles of a row.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Samples needed before `quantile` is said.
pub(crate) fn needed_samples(quantile: f64) -> u64 {
    (TAIL_SAMPLES / (1.0 - quantile)).round() as u64
}

/// Slices of one row, in time order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    slices: Vec<Slice>,
}

impl Accumulator {
    /// Adds a slice; an empty one says nothing and is left out.
    pub(crate) fn push(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.slices.push(slice);
        }
    }

    /// Samples in all.
    pub(crate) fn len(&self) -> u64 {
        self.slices.iter().map(Slice::len).sum()
    }

    /// Returns whether there is no sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The slices as they stand in a row; times are divided by `divisor`.
    pub(crate) fn blocks(&self, divisor: f64) -> Vec<Block> {
        self.slices.iter().map(|slice| slice.block(divisor)).collect()
    }

    /// The distribution, times divided by `divisor` (2 for half round trips, else 1).
    pub(crate) fn distribution(&self, divisor: f64) -> Distribution {
        if self.is_empty() {
            return Distribution::default();
        }
        let merged = self.merged();
        let n = self.len();
        let mean = self.slices.iter().map(|slice| slice.sum).sum::<f64>() / n as f64;
        let squares = self.slices.iter().map(|slice| slice.sum_of_squares).sum::<f64>() / n as f64;
        let percentile = |quantile: f64| {
            (n >= needed_samples(quantile)).then(|| merged.value_at_quantile(quantile) as f64 / divisor)
        };
        let [p50, p90, p99, p99_9, p99_99] = QUANTILES.map(percentile);
        let interval = |quantile: f64| Some(self.interval(&merged, quantile)?.map(|value| value / divisor));
        Distribution {
            n,
            min: self.slices.iter().map(|slice| slice.min).min().map(|min| min as f64 / divisor),
            mean: Some(mean / divisor),
            stddev: Some((squares - mean * mean).max(0.0).sqrt() / divisor),
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max: self.slices.iter().map(|slice| slice.max).max().map(|max| max as f64 / divisor),
            ci95: Ci95 { p50: p50.and(interval(0.5)), p99: p99.and(interval(0.99)), mean: self.mean_interval(divisor) },
            histogram: encode(&scaled(&merged, divisor)).unwrap_or_default(),
        }
    }

    fn merged(&self) -> Histogram<u64> {
        let mut merged = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in order");
        for slice in &self.slices {
            for value in slice.histogram.iter_recorded() {
                merged.saturating_record_n(value.value_iterated_to(), u64::from(value.count_at_value()));
            }
        }
        merged
    }

    fn mean_interval(&self, divisor: f64) -> Option<[f64; 2]> {
        let blocks: Vec<(f64, f64)> = self.slices.iter().map(|slice| (slice.sum, slice.len() as f64)).collect();
        bootstrap::mean_of_blocks(&blocks).map(|estimate| estimate.ci95.map(|value| value / divisor))
    }

    /// 95 % interval of a percentile: ranks around it, as far away as the larger of the binomial spread and the spread
    /// between slices (Woodruff's interval for samples that come in clusters).
    fn interval(&self, merged: &Histogram<u64>, quantile: f64) -> Option<[f64; 2]> {
        let n = merged.len() as f64;
        let binomial = (quantile * (1.0 - quantile) / n).sqrt();
        let value = merged.value_at_quantile(quantile);
        let reach = (1.96 * binomial).max(self.spread_between_slices(value, n)?);
        let at = |rank: f64| merged.value_at_quantile(rank.clamp(0.0, 1.0)) as f64;
        Some([at(quantile - reach), at(quantile + reach)])
    }

    /// Half width of the interval of "share of samples up to `value`", as the slices vary in it.
    fn spread_between_slices(&self, value: u64, n: f64) -> Option<f64> {
        let count = self.slices.len() as f64;
        if count < 2.0 {
            return None;
        }
        let shares = || self.slices.iter().map(|slice| (slice.len() as f64 / n, slice.share_up_to(value)));
        let overall: f64 = shares().map(|(weight, share)| weight * share).sum();
        let squares: f64 = shares().map(|(weight, share)| (weight * (share - overall)).powi(2)).sum();
        Some(student_t(self.slices.len() - 1) * (count / (count - 1.0) * squares).sqrt())
    }
}

/// The histogram with every value divided.
fn scaled(histogram: &Histogram<u64>, divisor: f64) -> Histogram<u64> {
    if divisor == 1.0 {
        return histogram.clone();
    }
    let mut result = Histogram::new_from(histogram);
    for value in histogram.iter_recorded() {
        let scaled = (value.value_iterated_to() as f64 / divisor).round() as u64;
        result.saturating_record_n(scaled, value.count_at_value());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slices: usize, samples: u64, value: impl Fn(usize, u64) -> u64) -> Accumulator {
        let mut accumulator = Accumulator::default();
        for slice in 0..slices {
            accumulator.push(Slice::of((0..samples).map(|sample| value(slice, sample))));
        }
        accumulator
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        assert_eq!(QUANTILES.map(needed_samples), [200, 1_000, 10_000, 100_000, 1_000_000]);
        let few = of(10, 19, |_, sample| sample + 1).distribution(1.0);
        assert_eq!((few.p50, few.p90, few.ci95.p50), (None, None, None));
        let some = of(10, 1_000, |_, sample| sample + 1).distribution(1.0);
        assert!(some.p50.is_some() && some.p99.is_some() && some.p99_9.is_none());
    }

    #[test]
    fn independent_samples_get_the_interval_of_order_statistics() {
        let mut random = fastrand::Rng::with_seed(7);
        let values: Vec<u64> = (0..20_000).map(|_| random.u64(1..=2_000)).collect();
        let all = of(20, 1_000, |slice, sample| values[slice * 1_000 + sample as usize]).distribution(1.0);
        let [low, high] = all.ci95.p50.expect("20 slices");
        assert!(low < 1_000.0 && 1_000.0 < high, "[{low}, {high}]");
        assert!(high - low < 120.0, "1.96 sqrt(n)/2 ranks are 28 of 2000 to either side: [{low}, {high}]");
    }

    #[test]
    fn slices_that_differ_widen_the_interval() {
        let shifted = of(20, 1_000, |slice, sample| 10_000 + 1_000 * slice as u64 + sample).distribution(1.0);
        let [low, high] = shifted.ci95.p50.expect("20 slices");
        assert!(high - low > 3_000.0, "the spread between slices counts, not only within: [{low}, {high}]");
    }

    #[test]
    fn halves_are_halves() {
        let rtt = of(4, 2_000, |_, sample| 1_000 + sample);
        let (whole, half) = (rtt.distribution(1.0), rtt.distribution(2.0));
        for (whole, half) in [(whole.min, half.min), (whole.p50, half.p50), (whole.mean, half.mean)] {
            assert_eq!(whole.map(|value| value / 2.0), half);
        }
        let decoded = sidestep_report::histogram::decode(&half.histogram).expect("it was encoded here");
        assert!((decoded.value_at_quantile(0.5) as f64 / half.p50.expect("8000 samples") - 1.0).abs() < 0.002);
    }

    #[test]
    fn nothing_measured_is_null() {
        assert_eq!(Accumulator::default().distribution(1.0), Distribution::default());
    }
}
