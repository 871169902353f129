//! A histogram of times with fixed buckets: four to each power of two, so that a bucket is at most a quarter of its value wide.

/// Buckets: 0 to 3 ns one each, then four to each power of two up to 2^64.
const BUCKETS: usize = 4 + 4 * 62;

/// Times in ns, counted by buckets.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, max_ns: 0 }
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros();
    4 * (power as usize - 1) + (ns >> (power - 2) & 3) as usize
}

/// The least time of a bucket.
fn lower(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    (4 + bucket as u64 % 4) << (bucket / 4 - 1)
}

impl Histogram {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, ns; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The time, ns, which the share `quantile` (0 to 1) of all does not exceed: the upper end of its bucket, which is at most a
    /// quarter too long. Nothing if there are no times.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let reaches = |(at, here): (usize, &u64)| {
            below += here;
            (below >= rank).then_some(at)
        };
        let at = self.buckets.iter().enumerate().find_map(reaches)?;
        Some(if at + 1 < BUCKETS { self.max_ns.min(lower(at + 1) - 1) } else { self.max_ns })
    }

    /// The buckets that hold a time: the least time of each, ns, and the number of times in it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, count)| (lower(at), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_begins_below_it() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(lower(at)), at);
            assert!(at == 0 || bucket(lower(at) - 1) == at - 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_a_quarter_too_long() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile_ns(0.5), None);
        (1..=1000).for_each(|ns| times.record(ns));
        let median = times.quantile_ns(0.5).unwrap();
        assert!((500..=625).contains(&median), "{median}");
        assert_eq!((times.quantile_ns(1.0), times.count(), times.max_ns()), (Some(1000), 1000, 1000));
        assert_eq!(times.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
    }
}
