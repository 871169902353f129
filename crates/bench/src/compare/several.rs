//! Several runs per side, taken in turn: the difference from run to run is measured instead of estimated.
//!
//! Each run counts as one value, the logarithm of its statistic. The interval of the ratio is Student's, from the spread between
//! the runs of a side (pooled over both, as is usual where both sides differ alike).

use super::statistic::{Reading, Statistic};
use super::{Difference, circumstances};
use sidestep_report::schema::{Document, Row};

/// The least difference that counts.
const FLOOR_MIN: f64 = 0.02;

/// Compares a statistic of a row that all runs have; none where a run has too little of it, or there are too few runs.
pub(super) fn compare(
    statistic: Statistic,
    (before, first): (&[Row], &[Document]),
    (after, second): (&[Row], &[Document]),
) -> Option<Difference> {
    let read = |rows: &[Row]| rows.iter().map(|row| statistic.read(row)).collect::<Option<Vec<Reading>>>();
    let (before, after) = (read(before)?, read(after)?);
    let freedom = (before.len() + after.len()).checked_sub(2).filter(|freedom| *freedom > 0)? as f64;
    let (one, other) = (mean(&before)?, mean(&after)?);
    let squares = |runs: &[Reading], mean: f64| runs.iter().map(|run| (run.log - mean).powi(2)).sum::<f64>();
    let between = (squares(&before, one) + squares(&after, other)) / freedom;
    // Runs that agree better than the error of each do so by chance.
    let spread = between.max(within(&before, &after)).sqrt();
    let error = spread * (1.0 / before.len() as f64 + 1.0 / after.len() as f64).sqrt();
    let floor = circumstances::machine_change(first, second).max(FLOOR_MIN);
    Some(Difference { log: other - one, errors: [error; 2], freedom, floor: floor.ln_1p() })
}

/// The mean square of the runs' own errors.
fn within(before: &[Reading], after: &[Reading]) -> f64 {
    let squares = before.iter().chain(after).map(|run| (run.errors[0].powi(2) + run.errors[1].powi(2)) / 2.0);
    squares.sum::<f64>() / (before.len() + after.len()) as f64
}

fn mean(runs: &[Reading]) -> Option<f64> {
    (!runs.is_empty()).then(|| runs.iter().map(|run| run.log).sum::<f64>() / runs.len() as f64)
}
