//! Histograms with fixed buckets, of times in nanoseconds. Their memory does not grow with what is counted.

/// Counts of times, by upper bounds that belong to their buckets.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds_ns: &'static [u64],
    /// One for each bound, and one for what is longer.
    counts: Vec<u64>,
    sum_ns: u64,
}

impl Histogram {
    /// A histogram with buckets up to each of these bounds, in ascending order, and one above them.
    pub fn new(bounds_ns: &'static [u64]) -> Self {
        assert!(bounds_ns.is_sorted_by(|one, next| one < next), "the bounds are in order");
        Self { bounds_ns, counts: vec![0; bounds_ns.len() + 1], sum_ns: 0 }
    }

    /// Counts a time so often.
    pub fn record(&mut self, ns: u64, times: u64) {
        let bucket = self.bounds_ns.partition_point(|bound| *bound < ns);
        self.counts[bucket] = self.counts[bucket].saturating_add(times);
        self.sum_ns = self.sum_ns.saturating_add(ns.saturating_mul(times));
    }

    /// All that was counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the times.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Each bound with the number of times up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let up_to = self.counts.iter().scan(0_u64, |sum, count| {
            *sum = sum.saturating_add(*count);
            Some(*sum)
        });
        self.bounds_ns.iter().copied().zip(up_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(&[10, 20]);
        for ns in [0, 10, 11, 20, 21] {
            histogram.record(ns, 1);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(10, 2), (20, 4)]);
        assert_eq!((histogram.count(), histogram.sum_ns()), (5, 62));
    }

    #[test]
    fn a_sum_that_does_not_fit_stays_at_its_limit() {
        let mut histogram = Histogram::new(&[10]);
        histogram.record(u64::MAX, 2);
        histogram.record(1, 1);
        assert_eq!((histogram.count(), histogram.sum_ns()), (3, u64::MAX));
    }
}
