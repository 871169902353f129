//! Bootstrap over slices, for what order statistics do not give: means and ratios.

/// Resamples drawn; the ends of the interval are the 50th smallest and largest.
const RESAMPLES: usize = 2_000;
/// The same file gives the same interval, every time.
const SEED: u64 = 0x5EED_0F51_DE57_E900;

/// A value and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The value.
    pub value: f64,
    /// `[low, high]`.
    pub ci95: [f64; 2],
}

/// Mean of samples that come in blocks of (sum, count); none with fewer than two blocks.
pub(crate) fn mean_of_blocks(blocks: &[(f64, f64)]) -> Option<Estimate> {
    resample(blocks, |blocks| {
        let (sum, count) = blocks.fold((0.0, 0.0), |(sum, count), block| (sum + block.0, count + block.1));
        sum / count
    })
}

/// Geometric mean of ratios given by their logarithms, one for each round; none with fewer than two rounds.
pub(crate) fn mean_of_logs(logs: &[f64]) -> Option<Estimate> {
    let mean = resample(logs, |logs| {
        let (sum, count) = logs.fold((0.0, 0.0), |(sum, count), log| (sum + log, count + 1.0));
        sum / count
    })?;
    Some(Estimate { value: mean.value.exp(), ci95: mean.ci95.map(f64::exp) })
}

/// Median of values; none with fewer than two. A few slices that something held up do not move it.
pub(crate) fn median(values: &[f64]) -> Option<Estimate> {
    resample(values, |values| {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
    })
}

fn resample<T: Copy>(items: &[T], statistic: impl Fn(&mut dyn Iterator<Item = T>) -> f64) -> Option<Estimate> {
    if items.len() < 2 {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut draw = || {
        let mut drawn = (0..items.len()).map(|_| items[random.usize(..items.len())]);
        statistic(&mut drawn)
    };
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    values.sort_by(f64::total_cmp);
    let value = statistic(&mut items.iter().copied());
    // Resampling n items spreads by a factor sqrt((n-1)/n) too little, and its percentiles lack the tails of Student's
    // t; both matter with the ten or twenty rounds of a run.
    let stretch = (items.len() as f64 / (items.len() - 1) as f64).sqrt() * super::student_t(items.len() - 1) / 1.96;
    let low = values[RESAMPLES / 40];
    let high = values[RESAMPLES - 1 - RESAMPLES / 40];
    Some(Estimate { value, ci95: [value - (value - low) * stretch, value + (high - value) * stretch] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rounds_are_the_least() {
        assert_eq!(mean_of_logs(&[0.1]), None);
        assert_eq!(mean_of_blocks(&[(10.0, 2.0)]), None);
        assert!(mean_of_logs(&[0.1, 0.1]).is_some_and(|estimate| (estimate.value - 0.1_f64.exp()).abs() < 1e-12));
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let covered = (0..1_000).filter(|_| {
            let logs: Vec<f64> = (0..16).map(|_| 0.02 * normal()).collect();
            let [low, high] = mean_of_logs(&logs).expect("16 rounds").ci95;
            low <= 1.0 && 1.0 <= high
        });
        let covered = covered.count();
        assert!((925..=975).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn a_median_is_not_moved_by_outliers() {
        let estimate = median(&[5.0, 5.1, 4.9, 5.0, 5.2, 4.8, 90.0]).expect("seven values");
        assert!((estimate.value - 5.0).abs() < 1e-12);
        assert_eq!(median(&[1.0]), None);
    }

    #[test]
    fn a_block_counts_by_its_samples() {
        let estimate = mean_of_blocks(&[(100.0, 100.0), (3.0, 1.0)]).expect("two blocks");
        assert!((estimate.value - 103.0 / 101.0).abs() < 1e-12);
    }
}
