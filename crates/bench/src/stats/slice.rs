//! One slice: the samples taken in one go over one connection.

use hdrhistogram::Histogram;
use sidestep_report::schema::Block;

/// Longest time that is told apart from a longer one: 100 s, in ns. Nothing waits that long here.
pub(super) const LONGEST_NS: u64 = 100_000_000_000;
/// Significant digits kept of every sample: an error of 0.1 % at the most, 110 KiB for a slice.
pub(super) const DIGITS: u8 = 3;

/// The distribution of one slice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(super) histogram: Histogram<u32>,
    pub(super) sum: f64,
    pub(super) sum_of_squares: f64,
    pub(super) min: u64,
    pub(super) max: u64,
    /// The CPUs of this end and of the peer's when it ended, where both are on this host and known.
    pub(super) cpus: Option<(u32, u32)>,
    /// Messages that were lost in it.
    pub(super) lost: u64,
}

impl Slice {
    /// Of samples in nanoseconds.
    pub(crate) fn of(samples_ns: impl Iterator<Item = u64>) -> Self {
        let mut slice = Self::default();
        for sample in samples_ns {
            slice.add(sample);
        }
        slice
    }

    /// Sets the CPUs of the two ends.
    pub(crate) fn ran_on(&mut self, here: Option<u32>, peer: Option<u32>) {
        self.cpus = here.zip(peer);
    }

    /// Sets the number of messages that were lost in it.
    pub(crate) fn lose(&mut self, lost: u64) {
        self.lost = lost;
    }

    fn add(&mut self, sample_ns: u64) {
        self.histogram.saturating_record(sample_ns);
        let value = sample_ns as f64;
        self.sum += value;
        self.sum_of_squares += value * value;
        self.min = self.min.min(sample_ns);
        self.max = self.max.max(sample_ns);
    }

    /// Adds so many samples of which is known only that they are longer than all others.
    pub(super) fn censor(&mut self, count: u64) {
        if count > 0 {
            self.histogram.saturating_record_n(LONGEST_NS, u32::try_from(count).unwrap_or(u32::MAX));
            self.max = self.max.max(LONGEST_NS);
        }
    }

    /// Samples.
    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Calls `each` with every sample, ns, and how often there is such a one.
    pub(crate) fn each(&self, each: &mut dyn FnMut(u64, u64)) {
        for value in self.histogram.iter_recorded() {
            each(value.value_iterated_to(), value.count_at_value().into());
        }
    }

    /// The longest sample, ns.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.max
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Median, ns.
    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Value at a quantile, ns.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64
    }

    /// Mean, ns.
    pub(crate) fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum / self.len() as f64 }
    }

    /// Returns the distribution of a row; times are divided by `divisor` (2 for half round trips).
    pub(crate) fn block(&self, divisor: f64) -> Block {
        Block {
            n: self.len(),
            p50: self.p50() / divisor,
            p99: self.quantile(0.99) / divisor,
            mean: self.mean() / divisor,
            lost: Some(self.lost),
            cpu: self.cpus.map(|cpus| cpus.0),
            peer_cpu: self.cpus.map(|cpus| cpus.1),
        }
    }

    /// Samples in the bucket of `value_ns` or beyond.
    pub(super) fn count_from(&self, value_ns: u64) -> u64 {
        let below = self.histogram.lowest_equivalent(value_ns).checked_sub(1);
        self.len() - below.map_or(0, |below| self.histogram.count_between(0, below))
    }

    /// Its largest samples, as the histogram has them.
    pub(super) fn largest(&self, count: usize) -> Vec<u64> {
        let mut largest = Vec::new();
        for bucket in self.histogram.iter_recorded() {
            let more = (bucket.count_at_value() as usize).min(count);
            largest.extend(std::iter::repeat_n(bucket.value_iterated_to(), more));
            largest.drain(..largest.len().saturating_sub(count));
        }
        largest
    }

    /// Share of the samples at or below `value_ns`.
    pub(super) fn share_up_to(&self, value_ns: u64) -> f64 {
        self.histogram.count_between(0, value_ns) as f64 / self.len() as f64
    }
}

impl Default for Slice {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants in order");
        Self { histogram, sum: 0.0, sum_of_squares: 0.0, min: u64::MAX, max: 0, cpus: None, lost: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_samples() {
        let slice = Slice::of(1..=1000);
        assert_eq!((slice.len(), slice.min, slice.max), (1000, 1, 1000));
        assert_eq!((slice.p50(), slice.mean()), (500.0, 500.5));
        assert_eq!(slice.block(2.0).p50, 250.0);
        assert!((slice.share_up_to(990) - 0.99).abs() < 1e-9);
        assert_eq!((slice.count_from(991), slice.largest(2)), (10, vec![999, 1000]));
    }

    #[test]
    fn an_empty_slice_and_absurd_samples_do_no_harm() {
        assert_eq!(Slice::default().mean(), 0.0);
        let slice = Slice::of([0, u64::MAX].into_iter());
        assert_eq!(slice.len(), 2);
        assert_eq!(slice.max, u64::MAX);
    }
}
