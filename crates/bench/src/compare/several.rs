//! Several runs per side, taken in turn: the difference from run to run is measured instead of estimated.
//!
//! Each run counts as one value, the logarithm of its median. The interval of the ratio is Student's, from the spread between
//! the runs of a side (pooled over both, as is usual where both sides differ alike), and that same spread is the floor.

use super::{NoisyRatio, middle, slices, spread};
use crate::stats::{self, Estimate};
use sidestep_report::schema::Row;

/// The least difference that counts: runs that agree better than this do so by
/// chance.
const FLOOR_MIN: f64 = 0.02;

/// The standard error of a median of n values is this share of half the distance between their quartiles, over the root of n
/// (for a normal distribution; the quartiles leave outliers out).
const MEDIAN_ERROR: f64 = 1.858;

/// A run: the logarithm of the median of its slices, and the standard error of that as the slices tell it.
struct Run {
    log: f64,
    error: f64,
}

impl Run {
    fn of(row: &Row) -> Option<Self> {
        let slices = slices(row)?;
        let error = MEDIAN_ERROR * spread(row) / (slices.len() as f64).sqrt();
        // A share of the median: of a logarithm it is as much only while it is small.
        Some(Self { log: middle(slices)?.ln(), error: error.ln_1p() })
    }
}

/// `machine_change`: by what share the machine's own speed differs between the sides.
pub(super) fn compare(before: &[Row], after: &[Row], machine_change: f64) -> NoisyRatio {
    let side = |rows: &[Row]| rows.iter().map(Run::of).collect::<Option<Vec<Run>>>();
    let compared = side(before).zip(side(after)).and_then(|(before, after)| estimate(&before, &after));
    let (estimate, spread) = compared.map_or((None, 0.0), |(estimate, spread)| (Some(estimate), spread));
    NoisyRatio { estimate, noise_floor: spread.exp_m1().max(machine_change).max(FLOOR_MIN) }
}

/// The ratio with its interval, and the spread between runs (a standard deviation of logarithms).
fn estimate(before: &[Run], after: &[Run]) -> Option<(Estimate, f64)> {
    let freedom = (before.len() + after.len()).checked_sub(2).filter(|freedom| *freedom > 0)?;
    let (one, other) = (mean(before)?, mean(after)?);
    let squares = |runs: &[Run], mean: f64| runs.iter().map(|run| (run.log - mean).powi(2)).sum::<f64>();
    let between = ((squares(before, one) + squares(after, other)) / freedom as f64).sqrt();
    // Runs that agree better than the error of each do so by chance.
    let count = (before.len() + after.len()) as f64;
    let within = (before.iter().chain(after).map(|run| run.error.powi(2)).sum::<f64>() / count).sqrt();
    let spread = between.max(within);
    let error = spread * (1.0 / before.len() as f64 + 1.0 / after.len() as f64).sqrt();
    let (log, half) = (other - one, stats::student_t(freedom) * error);
    let ci95 = [(log - half).exp(), (log + half).exp()];
    ci95.iter().all(|end| end.is_finite()).then_some((Estimate { value: log.exp(), ci95 }, spread))
}

fn mean(runs: &[Run]) -> Option<f64> {
    (!runs.is_empty()).then(|| runs.iter().map(|run| run.log).sum::<f64>() / runs.len() as f64)
}

#[cfg(test)]
mod tests {
    use crate::compare::tests::document;
    use crate::compare::{Comparison, Verdict};
    use sidestep_report::schema::Document;

    /// The number of runs of `make peers`.
    const RUNS: usize = 5;

    /// Runs of a side, whose medians differ by a normal deviate of 3 % as those of equal runs were seen to.
    fn side(p50: f64, runs: usize, random: &mut fastrand::Rng) -> Vec<Document> {
        let run = |random: &mut fastrand::Rng| {
            let deviate = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            document(p50 * (1.0 + 0.03 * deviate), 40, 0.1, random.u64(..))
        };
        (0..runs).map(|_| run(random)).collect()
    }

    fn verdicts(ratio: f64, runs: usize, pairs: u64) -> Vec<Verdict> {
        let verdict = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let (before, after) = (side(5_000.0, runs, &mut random), side(5_000.0 * ratio, runs, &mut random));
            Comparison::of_runs(&before, &after).rows[0].verdict
        };
        (1..=pairs).map(verdict).collect()
    }

    fn count(verdicts: &[Verdict], verdict: Verdict) -> usize {
        verdicts.iter().filter(|one| **one == verdict).count()
    }

    #[test]
    fn runs_that_are_wide_in_themselves_are_too_noisy_and_their_floor_is_a_number_to_read() {
        let wide = |factor: f64| {
            let mut document = document(1.0, 8, 0.0, 1);
            let p50s = [1.0, 1.0, 1.0, 1.0, 1.0, 9e5, 9e5, 9e5];
            document.results[0].blocks.iter_mut().zip(p50s).for_each(|(block, p50)| block.p50 = p50 * factor);
            document
        };
        let side = [wide(5e3), wide(5.1e3), wide(4.9e3)];
        let comparison = Comparison::of_runs(&side, &side);
        assert_eq!(comparison.rows[0].verdict, Verdict::TooNoisy);
        assert!(comparison.rows[0].noise_floor < 1e6, "{}", comparison.rows[0].noise_floor);
        assert!(comparison.lacks_data());
    }

    #[test]
    fn equal_runs_are_not_called_different() {
        // Of 5 runs a side, 1 comparison in 200 would be by chance; the seeds are fixed.
        let verdicts = verdicts(1.0, RUNS, 200);
        assert!(count(&verdicts, Verdict::NoMeasurableDifference) >= 198, "{verdicts:?}");
        assert_eq!(count(&verdicts, Verdict::NotEnoughData), 0);
    }

    #[test]
    fn a_tenth_is_seen_through_runs_that_differ_by_several_hundredths() {
        let slower = verdicts(1.1, RUNS, 100);
        let faster = verdicts(1.0 / 1.1, RUNS, 100);
        assert!(count(&slower, Verdict::Worse) >= 70 && count(&slower, Verdict::Better) == 0, "{slower:?}");
        assert!(count(&faster, Verdict::Better) >= 70 && count(&faster, Verdict::Worse) == 0, "{faster:?}");
    }

    #[test]
    fn more_runs_see_a_twentieth() {
        let verdicts = verdicts(1.1_f64.sqrt(), 20, 50);
        assert!(count(&verdicts, Verdict::Worse) > 10, "{verdicts:?}");
    }

    #[test]
    fn runs_that_lie_far_apart_say_nothing_of_a_tenth() {
        let wild = |p50: f64| [0.8, 1.0, 1.3].map(|share| document(p50 * share, 40, 0.1, 1));
        let comparison = Comparison::of_runs(&wild(5_000.0), &wild(5_500.0));
        let row = &comparison.rows[0];
        assert_eq!(row.verdict, Verdict::NoMeasurableDifference);
        assert!(row.noise_floor > 0.2, "{}", row.noise_floor);
        assert_eq!((comparison.runs, row.before_p50), ([3, 3], None));
    }

    #[test]
    fn a_row_is_compared_where_every_run_has_it_and_has_enough_of_it() {
        let mut random = fastrand::Rng::with_seed(1);
        let (before, mut after) = (side(5_000.0, 3, &mut random), side(5_000.0, 3, &mut random));
        after[1].results[0].blocks.truncate(3);
        assert_eq!(Comparison::of_runs(&before, &after).rows[0].verdict, Verdict::NotEnoughData);
        after[1].results.clear();
        let comparison = Comparison::of_runs(&before, &after);
        assert!(comparison.rows.is_empty() && comparison.unmatched[0].ends_with("(not in every run)"));
        let comparison = Comparison::of_runs(&before, &[]);
        assert!(comparison.rows.is_empty() && comparison.unmatched[0].ends_with("(only in the first)"));
        assert_eq!(Comparison::of_runs(&before[..1], &before).rows[0].verdict, Verdict::NoMeasurableDifference);
    }

    #[test]
    fn sides_that_were_not_taken_in_turn_are_named() {
        let at = |times: [u8; 2]| {
            times.map(|time| Document { started: format!("2026-01-01T0{time}:00:00Z"), ..document(5e3, 40, 0.1, 1) })
        };
        let told = |before, after| Comparison::of_runs(&at(before), &at(after)).differences;
        assert!(told([1, 3], [2, 4]).is_empty());
        assert!(told([1, 2], [3, 4])[0].starts_with("time:"));
        assert!(told([3, 4], [1, 2])[0].starts_with("time:"));
    }
}
