//! Slices put together into the distribution of a row.

use super::estimate::{Estimate, Located, Statistic};
use super::mixture::Mixture;
use super::modes::modes;
use super::slice::Slice;
use hdrhistogram::Histogram;
use sidestep_report::histogram::encode;
use sidestep_report::schema::{Block, Ci95, Distribution, Effective, Mode};

/// The slices of one row in time order. In the rounds of an interleaved run the forward pass is at an even place and the
/// backward pass at the odd one after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    passes: Vec<Option<Slice>>,
}

impl Accumulator {
    /// Adds a slice; an empty one says nothing, and only keeps its place.
    pub(crate) fn push(&mut self, slice: Slice) {
        self.passes.push((!slice.is_empty()).then_some(slice));
    }

    /// Samples in all.
    pub(crate) fn len(&self) -> u64 {
        self.slices().map(Slice::len).sum()
    }

    /// Returns whether there is no sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.slices().next().is_none()
    }

    /// Returns whether the next slice is the first of a round.
    pub(crate) fn begins_round(&self) -> bool {
        self.passes.len().is_multiple_of(2)
    }

    fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.passes.iter().flatten()
    }

    /// The slices as they stand in a row; times are divided by `divisor`.
    pub(crate) fn blocks(&self, divisor: f64) -> Vec<Block> {
        self.slices().map(|slice| slice.block(divisor)).collect()
    }

    /// The modes of the slices' medians, times divided by `divisor`; none where there is one alone.
    pub(crate) fn modes(&self, divisor: f64) -> Vec<Mode> {
        let slices: Vec<&Slice> = self.slices().collect();
        let medians: Vec<f64> = slices.iter().map(|slice| slice.p50()).collect();
        let found = modes(&medians);
        if found.len() < 2 {
            return Vec::new();
        }
        let mode = |places: &Vec<usize>| Mode {
            slices: places.len() as u64,
            share: places.len() as f64 / slices.len() as f64,
            p50: medians[places[(places.len() - 1) / 2]] / divisor,
            one_cpu: one_cpu(places.iter().map(|place| slices[*place])),
        };
        found.iter().map(mode).collect()
    }

    /// All messages over all time: the inverse of the rate, ns; none without samples.
    pub(crate) fn per_message(&self) -> Option<f64> {
        Some(Located::of(&Mixture::of(self.slices().collect())?, Statistic::PerMessage)?.value)
    }

    /// The distribution, times divided by `divisor` (2 for half round trips, else 1), its mean as `mean` says.
    pub(crate) fn distribution(&self, divisor: f64, mean: Statistic) -> Distribution {
        let Some(mixture) = Mixture::of(self.slices().collect()) else { return Distribution::default() };
        let at = |quantile| Located::of(&mixture, Statistic::Quantile(quantile));
        let [p50, p90, p99, p99_9, p99_99] = [0.5, 0.9, 0.99, 0.999, 0.9999].map(at);
        let mean = Located::of(&mixture, mean);
        let value = |located: &Option<Located>| Some(located.as_ref()?.value / divisor);
        let interval = |located: &Option<Located>| Some(located.as_ref()?.ci95?.map(|end| end / divisor));
        Distribution {
            n: self.len(),
            min: self.slices().map(|slice| slice.min).min().map(|min| min as f64 / divisor),
            mean: value(&mean),
            stddev: Some(mixture.stddev() / divisor),
            p50: value(&p50),
            p90: value(&p90),
            p99: value(&p99),
            p99_9: value(&p99_9),
            p99_99: value(&p99_99),
            max: self.slices().map(|slice| slice.max).max().map(|max| max as f64 / divisor),
            ci95: Ci95 { p50: interval(&p50), p99: interval(&p99), p99_9: interval(&p99_9), mean: interval(&mean) },
            effective: Some(effective(&mixture, p50.as_ref().or(mean.as_ref()), p99.as_ref())),
            histogram: encode(&scaled(mixture.weighted(), divisor)).unwrap_or_default(),
        }
    }

    /// The ratio of a statistic to the same of another, over the passes that both have.
    pub(crate) fn ratio(&self, other: &Self, statistic: Statistic) -> Option<Estimate> {
        let passes = || self.passes.iter().zip(&other.passes);
        let pairs: Vec<(&Slice, &Slice)> = passes().filter_map(|(one, two)| one.as_ref().zip(two.as_ref())).collect();
        ratio(pairs.iter().map(|pair| pair.0).collect(), pairs.iter().map(|pair| pair.1).collect(), statistic)
    }

    /// The ratio of a statistic to the same of another that was measured at other times.
    pub(crate) fn ratio_apart(&self, other: &Self, statistic: Statistic) -> Option<Estimate> {
        let located = |slices: Vec<&Slice>| Located::of(&Mixture::of(slices)?, statistic);
        located(self.slices().collect())?.over_apart(&located(other.slices().collect())?)
    }

    /// The ratio of its forward passes to its backward passes.
    pub(crate) fn control(&self, statistic: Statistic) -> Option<Estimate> {
        let rounds = || self.passes.chunks_exact(2).filter_map(|round| round[0].as_ref().zip(round[1].as_ref()));
        ratio(rounds().map(|round| round.0).collect(), rounds().map(|round| round.1).collect(), statistic)
    }
}

fn ratio(of: Vec<&Slice>, against: Vec<&Slice>, statistic: Statistic) -> Option<Estimate> {
    let located = |slices| Located::of(&Mixture::of(slices)?, statistic);
    located(of)?.over(&located(against)?)
}

/// The share of slices that ended with both ends on one CPU; none if no slice knows both.
fn one_cpu<'a>(slices: impl Iterator<Item = &'a Slice>) -> Option<f64> {
    let same: Vec<bool> = slices.filter_map(|slice| Some(slice.cpus?.0 == slice.cpus?.1)).collect();
    (!same.is_empty()).then(|| same.iter().filter(|same| **same).count() as f64 / same.len() as f64)
}

fn effective(mixture: &Mixture<'_>, middle: Option<&Located>, tail: Option<&Located>) -> Effective {
    let samples = |located: Option<&Located>| located.map(|located| located.samples).filter(|samples| *samples > 0.0);
    Effective {
        largest_ten: mixture.largest_ten(),
        correlation: middle.map_or(0.0, |located| located.correlation),
        slices: middle.map_or(0.0, Located::slices),
        p50: samples(middle),
        p99: samples(tail),
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
