//! Estimates and their 95 % intervals: of percentiles and means of a mixture, and of ratios between two.
//!
//! * A percentile: the share of samples up to it varies from slice to slice; its error, with the dependence of slices that follow each
//!   other ([`MeanError`]), gives two ranks, and the values there are the ends (Woodruff 1952). Where the binomial error of
//!   independent samples is larger, it counts. Where a rank is beyond all samples (slices are few or much alike, and differ by more than the
//!   samples in them), the smallest and the largest sample would say nothing: there the ends are no further away than the slices' own
//!   percentiles lie, or the mean of their logarithms may.
//! * A ratio: put together from the intervals of both (the method of variance estimates recovery, Zou and Donner 2008), less
//!   what both had in common: their slices were taken in turn.

use super::mixture::Mixture;
use super::serial::{MeanError, independent};
use super::slice::Slice;

/// The correlation of two rows that is believed at most: it shortens the interval of their ratio.
const COMMON_MAX: f64 = 0.95;
/// Samples beyond a percentile of a slice by which it is known.
const SLICE_TAIL: f64 = 10.0;
/// 97.5 % quantile of the normal distribution.
const NORMAL95: f64 = 1.96;

/// A value and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The value.
    pub value: f64,
    /// `[low, high]`.
    pub ci95: [f64; 2],
}

/// What is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistic {
    /// Value at a quantile of the mixture, each slice counting alike.
    Quantile(f64),
    /// Mean of the mixture.
    Mean,
    /// Time for each message: all time over all messages, the inverse of the rate.
    PerMessage,
}

/// An estimate with what its ratio to another needs.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    /// Value and interval; none of fewer than six slices.
    pub(crate) value: f64,
    pub(crate) ci95: Option<[f64; 2]>,
    /// What each slice adds to the logarithm of the value.
    influence: Vec<f64>,
    /// Half the width of the interval, of the logarithm.
    reach: f64,
    /// Correlation of what a slice says with what the next says.
    pub(crate) correlation: f64,
    /// Independent samples that would give the same interval, of a quantile.
    pub(crate) samples: f64,
}

impl Located {
    /// Estimates; none where samples are too few to say it.
    pub(crate) fn of(mixture: &Mixture<'_>, statistic: Statistic) -> Option<Self> {
        match statistic {
            Statistic::Quantile(quantile) => mixture.tells(quantile).then(|| Self::quantile(mixture, quantile)),
            Statistic::Mean => Some(Self::mean(mixture.mean(), mixture.slices().iter().map(|slice| slice.mean()))),
            Statistic::PerMessage => Some(Self::per_message(mixture.slices())),
        }
    }

    fn quantile(mixture: &Mixture<'_>, quantile: f64) -> Self {
        let value = mixture.value(quantile);
        let shares: Vec<f64> = mixture.slices().iter().map(|slice| slice.share_up_to(value as u64)).collect();
        let binomial = NORMAL95 * (quantile * (1.0 - quantile) / mixture.samples()).sqrt();
        let error = MeanError::of(&shares);
        let reach = error.map_or(binomial, |error| error.reach95().max(binomial));
        let mut ends = [quantile - reach, quantile + reach].map(|rank| mixture.value(rank));
        if reach >= quantile.min(1.0 - quantile) {
            ends = within(ends, between_slices(mixture, quantile, value));
        }
        let [low, high] = ends;
        let width = (high / low).ln() / 2.0;
        let slope = if width.is_finite() { width / reach } else { 0.0 };
        Self {
            value,
            ci95: error.map(|_| ends),
            influence: shares.iter().map(|share| -slope * share).collect(),
            reach: width,
            correlation: error.map_or(0.0, |error| error.correlation),
            samples: quantile * (1.0 - quantile) / (reach / NORMAL95).powi(2),
        }
    }

    /// The mean of `of` each slice, whose influence is its share of the mean. The interval is of the logarithm, so that it is above
    /// zero however much slices differ.
    fn mean(value: f64, of: impl Iterator<Item = f64>) -> Self {
        let influence: Vec<f64> = of.map(|of| of / value).collect();
        let error = MeanError::of(&influence);
        let reach = error.map_or(0.0, |error| error.reach95());
        Self {
            value,
            ci95: error.map(|_| [value * (-reach).exp(), value * reach.exp()]),
            influence,
            reach,
            correlation: error.map_or(0.0, |error| error.correlation),
            samples: 0.0,
        }
    }

    fn per_message(slices: &[&Slice]) -> Self {
        let (sum, count) =
            slices.iter().fold((0.0, 0.0), |(sum, count), slice| (sum + slice.sum, count + slice.len() as f64));
        let (value, average) = (sum / count, count / slices.len() as f64);
        // Linearised: by how much a slice moves the ratio of sums.
        Self::mean(value, slices.iter().map(|slice| value + (slice.sum - value * slice.len() as f64) / average))
    }

    /// Returns how many independent slices say as much as there are.
    pub(crate) fn slices(&self) -> f64 {
        independent(self.influence.len(), self.correlation)
    }

    /// The ratio to what was measured in the same passes, slice by slice; none without intervals.
    pub(crate) fn over(&self, other: &Self) -> Option<Estimate> {
        self.ratio(other, self.common(other)?)
    }

    /// The ratio to what was measured at other times.
    pub(crate) fn over_apart(&self, other: &Self) -> Option<Estimate> {
        self.ratio(other, 0.0)
    }

    fn ratio(&self, other: &Self, common: f64) -> Option<Estimate> {
        let ends = |of: &Self| of.ci95.map(|ends| ends.map(|end| (end / of.value).ln()));
        let ([low, high], [low_other, high_other]) = (ends(self)?, ends(other)?);
        let combined = |one: f64, two: f64| (one * one + two * two - 2.0 * common * one * two).max(0.0).sqrt();
        let value = self.value / other.value;
        let below = combined(low.abs(), high_other.abs());
        let above = combined(high.abs(), low_other.abs());
        let ci95 = [value * (-below).exp(), value * above.exp()];
        let is_usable = value > 0.0 && value.is_finite() && ci95.iter().all(|end| end.is_finite());
        is_usable.then_some(Estimate { value, ci95 })
    }

    /// The correlation of the two: how much narrower their difference is than if they had nothing in common.
    fn common(&self, other: &Self) -> Option<f64> {
        if self.influence.len() != other.influence.len() {
            return Some(0.0);
        }
        let difference: Vec<f64> = self.influence.iter().zip(&other.influence).map(|(one, two)| one - two).collect();
        let reach = MeanError::of(&difference)?.reach95();
        let both = 2.0 * self.reach * other.reach;
        let common = (self.reach.powi(2) + other.reach.powi(2) - reach * reach) / both;
        Some(if both > 0.0 { common.clamp(0.0, COMMON_MAX) } else { 0.0 })
    }
}

/// The furthest ends that the slices' own quantiles allow, of which each must be known by itself: those of the mean of their logarithms,
/// or the least and the greatest of them, whichever is further.
fn between_slices(mixture: &Mixture<'_>, quantile: f64, value: f64) -> Option<[f64; 2]> {
    let slices = mixture.slices();
    let is_known = |slice: &&Slice| slice.len() as f64 * quantile.min(1.0 - quantile) >= SLICE_TAIL;
    let logs: Vec<f64> = slices.iter().map(|slice| slice.quantile(quantile).max(1.0).ln()).collect();
    let reach = MeanError::of(&logs).filter(|_| slices.iter().all(is_known))?.reach95();
    let (below, above) = (value.ln() - reach, value.ln() + reach);
    Some([logs.iter().copied().fold(below, f64::min).exp(), logs.iter().copied().fold(above, f64::max).exp()])
}

/// The ends, no further out than the limits.
fn within([low, high]: [f64; 2], limits: Option<[f64; 2]>) -> [f64; 2] {
    limits.map_or([low, high], |[least, most]| [low.max(least), high.min(most)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::slice::Slice;

    fn slices(values: [u64; 12]) -> Vec<Slice> {
        values.map(|value| Slice::of(std::iter::repeat_n(value, 50))).into()
    }

    fn located(slices: &[Slice], statistic: Statistic) -> Located {
        let mixture = Mixture::of(slices.iter().collect()).expect("slices");
        Located::of(&mixture, statistic).expect("enough samples")
    }

    /// Slices whose level drifts by a third, far more than samples of one slice differ; in each is one that took a thousand times as
    /// long.
    #[test]
    fn an_outlier_is_no_end_of_an_interval() {
        let level = |at: u64| if (6..14).contains(&at) { 6000 } else { 8000 };
        let slice = |at: u64| Slice::of((0..2000).map(move |n| level(at) + n % 50).chain([9_000_000, 9]));
        let drifting: Vec<Slice> = (0..20).map(slice).collect();
        let median = located(&drifting, Statistic::Quantile(0.5));
        let [low, high] = median.ci95.expect("twenty slices");
        assert!(low > 1000.0 && low <= 6050.0 && (8000.0..50_000.0).contains(&high), "{low} to {high}");
        let tail = located(&drifting, Statistic::Quantile(0.99)).ci95.expect("twenty slices");
        assert!(tail[1] < 100_000.0, "{tail:?}");
    }

    #[test]
    fn a_mean_of_slices_that_hardly_agree_keeps_a_ratio() {
        let apart = slices([1, 1, 2000, 1, 1, 1, 1, 4000, 1, 1, 1, 1]);
        let steady = slices([10, 11, 10, 11, 10, 11, 10, 11, 10, 11, 10, 11]);
        for statistic in [Statistic::Mean, Statistic::PerMessage] {
            let (one, other) = (located(&apart, statistic), located(&steady, statistic));
            let [low, high] = one.ci95.expect("twelve slices");
            assert!(low > 0.0 && high > one.value, "{statistic:?}: {low} to {high}");
            let skew = (one.value / low) / (high / one.value);
            assert!((skew - 1.0).abs() < 1e-9, "as wide below as above: {skew}");
            let ratio = one.over_apart(&other).expect("it has a ratio");
            assert!(ratio.ci95[0] > 0.0 && ratio.ci95[1].is_finite(), "{ratio:?}");
        }
    }
}
