//! Samples some of which are missing: what was lost counts as larger than everything that was seen.
//!
//! A latency that was not measured, because its message was lost, not answered, or not even sent before the slice ended, is not absent
//! at random: it is missing because it was long. Leaving it out would make an overloaded path look fast. Here it is a censored
//! sample, of which is known only that it is larger than what was seen.

use super::slice::{LONGEST_NS, Slice};
use super::{Accumulator, Statistic};
use sidestep_report::schema::{Block, Ci95, Distribution};

/// Slices of one row, in time order, with what is missing in each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Censored {
    /// The samples that were seen.
    seen: Accumulator,
    /// The same, and for each that is missing the longest time there is.
    all: Accumulator,
    blocks: Vec<Block>,
    missing: u64,
}

impl Censored {
    /// Adds a slice in which so many samples are missing.
    pub(crate) fn push(&mut self, seen: Slice, missing: u64) {
        let mut seen = seen;
        seen.lose(missing);
        let mut all = seen.clone();
        all.censor(missing);
        if !all.is_empty() {
            self.blocks.push(Block { n: seen.len(), mean: seen.mean(), ..all.block(1.0) });
        }
        self.missing += missing;
        self.all.push(all);
        self.seen.push(seen);
    }

    /// The share of the samples that is missing, 0..1.
    pub(crate) fn missing_share(&self) -> f64 {
        let all = self.seen.len() + self.missing;
        if all == 0 { 0.0 } else { self.missing as f64 / all as f64 }
    }

    /// The distribution. Its count, extremes and histogram are of the samples that were seen. A percentile is withheld where it may lie
    /// among those that are missing; mean and standard deviation are withheld where one is missing: they may be anything.
    pub(crate) fn distribution(&self) -> Distribution {
        let seen = self.seen.distribution(1.0, Statistic::Mean);
        if self.missing == 0 {
            return seen;
        }
        let all = self.all.distribution(1.0, Statistic::Mean);
        let said = |quantile: f64, value: Option<f64>| value.filter(|value| self.reaches(quantile) && is_known(*value));
        let interval = |value: Option<f64>, ends: Option<[f64; 2]>| value.and(ends).filter(|[_, high]| is_known(*high));
        let (p50, p99, p99_9) = (said(0.5, all.p50), said(0.99, all.p99), said(0.999, all.p99_9));
        Distribution {
            p50,
            p90: said(0.9, all.p90),
            p99,
            p99_9,
            p99_99: said(0.9999, all.p99_99),
            mean: None,
            stddev: None,
            ci95: Ci95 {
                p50: interval(p50, all.ci95.p50),
                p99: interval(p99, all.ci95.p99),
                p99_9: interval(p99_9, all.ci95.p99_9),
                mean: None,
            },
            ..seen
        }
    }

    /// Returns whether `quantile` lies among the samples that were seen.
    fn reaches(&self, quantile: f64) -> bool {
        self.missing_share() < 1.0 - quantile - f64::EPSILON
    }

    /// The slices as they stand in a row; none where a percentile of one of them is not known.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let is_whole = |block: &Block| block.n > 0 && is_known(block.p50) && is_known(block.p99);
        if self.blocks.iter().all(is_whole) { self.blocks.clone() } else { Vec::new() }
    }
}

/// Returns whether a time is that of a sample that was seen.
fn is_known(ns: f64) -> bool {
    ns < LONGEST_NS as f64 * 0.99
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four slices of 5,000 messages in which the slowest are missing, as an overloaded path loses them.
    fn with_missing(share: f64) -> Censored {
        let mut censored = Censored::default();
        for _ in 0..4 {
            let missing = (5_000.0 * share).round() as u64;
            censored.push(Slice::of(1..=5_000 - missing), missing);
        }
        censored
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value / expected - 1.0).abs() < 0.003)
    }

    #[test]
    fn what_is_missing_counts_as_longer_than_what_was_seen() {
        let some = with_missing(0.009).distribution();
        assert!(near(some.p50, 2_500.0) && near(some.p90, 4_500.0) && near(some.p99, 4_950.0), "{some:?}");
        assert_eq!((some.n, some.mean, some.stddev), (4 * 4_955, None, None));
        assert!(near(some.max, 4_955.0), "the largest that was seen");
    }

    #[test]
    fn a_percentile_is_withheld_where_as_large_a_share_is_missing_as_lies_beyond_it() {
        for (share, p50, p90, p99) in [(0.01, true, true, false), (0.013, true, true, false), (0.1, true, false, false)]
        {
            let found = with_missing(share).distribution();
            let said = (found.p50.is_some(), found.p90.is_some(), found.p99.is_some());
            assert_eq!(said, (p50, p90, p99), "{share}");
            assert!(found.ci95.p99.is_none());
        }
        let most = with_missing(0.6).distribution();
        assert_eq!((most.p50, most.ci95.p50), (None, None));
        assert_eq!(with_missing(1.0).distribution().n, 0, "everything is missing");
        assert!((with_missing(1.0).missing_share() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn where_nothing_is_missing_nothing_changes() {
        let (mut plain, whole) = (Accumulator::default(), with_missing(0.0));
        (0..4).for_each(|_| plain.push(Slice::of(1..=5_000)));
        assert_eq!(
            (whole.distribution(), whole.blocks()),
            (plain.distribution(1.0, Statistic::Mean), plain.blocks(1.0))
        );
        assert_eq!(Censored::default().distribution(), Distribution::default());
        assert!(Censored::default().missing_share() < f64::EPSILON);
    }

    #[test]
    fn a_slice_whose_percentile_is_not_known_has_no_block() {
        assert_eq!(with_missing(0.005).blocks().len(), 4);
        assert!(with_missing(0.02).blocks().is_empty());
        assert!(with_missing(1.0).blocks().is_empty());
    }
}
