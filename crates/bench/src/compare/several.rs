//! Several runs per side, taken in turn: the difference from run to run is measured instead of estimated.
//!
//! Each run counts as one value, the logarithm of its statistic. The interval of the ratio is Student's, from the spread between
//! the runs of a side, pooled over both where they have as many runs.

use super::statistic::{Reading, Statistic};
use super::{Difference, circumstances};
use sidestep_report::schema::{Document, Row};

/// The least difference that counts.
pub(crate) const FLOOR_OF_SEVERAL_RUNS: f64 = 0.02;

/// Compares a statistic of a row that all runs have; none where a run has too little of it, or there are too few runs.
pub(super) fn compare(
    statistic: Statistic,
    (before, first): (&[&Row], &[Document]),
    (after, second): (&[&Row], &[Document]),
) -> Option<Difference> {
    let read = |rows: &[&Row]| rows.iter().map(|row| statistic.read(row)).collect::<Option<Vec<Reading>>>();
    of_readings(statistic, &read(before)?, &read(after)?, circumstances::machine_change(first, second))
}

/// The same of what the runs say, with the change of the machine between the sides.
pub(crate) fn of_readings(
    statistic: Statistic,
    before: &[Reading],
    after: &[Reading],
    change: f64,
) -> Option<Difference> {
    let is_share = statistic == Statistic::Lost;
    let (error, freedom) = error(&values(before, is_share), &values(after, is_share))?;
    // The spread of a side of one run is not known: its floor stands for it.
    let is_single = before.len() == 1 || after.len() == 1;
    let least = if is_single { statistic.floor_of_single_runs() } else { FLOOR_OF_SEVERAL_RUNS };
    let floor = change.max(least);
    let logs = [mean(&values(before, false))?, mean(&values(after, false))?];
    if is_share {
        let shares = [mean(&values(before, true))?, mean(&values(after, true))?];
        return Some(Difference::of_shares(shares, logs, error, freedom, floor.ln_1p()));
    }
    Some(Difference { log: logs[1] - logs[0], errors: [error; 2], freedom, floor: floor.ln_1p() })
}

/// The error of the difference of the means and its degrees of freedom: Student's where both sides have as many runs or one has a
/// single one, else Welch's (Satterthwaite 1946).
fn error(before: &[Value], after: &[Value]) -> Option<(f64, f64)> {
    let (one, other) = (variance(before)?, variance(after)?);
    // Runs that agree better than the error of each do so by chance.
    let within = within(before, after);
    let count = |runs: &[Value]| runs.len() as f64;
    let pooled = (one * (count(before) - 1.0) + other * (count(after) - 1.0)) / (count(before) + count(after) - 2.0);
    if before.len() == after.len() || before.len() == 1 || after.len() == 1 {
        let error = (pooled.max(within) * (1.0 / count(before) + 1.0 / count(after))).sqrt();
        let freedom = count(before) + count(after) - 2.0;
        return (freedom >= 1.0).then_some((error, freedom));
    }
    let (one, other) = (one.max(within) / count(before), other.max(within) / count(after));
    let freedom = (one + other).powi(2) / (one * one / (count(before) - 1.0) + other * other / (count(after) - 1.0));
    Some(((one + other).sqrt(), freedom))
}

/// The value of a run, and the square of its own error.
#[derive(Clone, Copy)]
struct Value(f64, f64);

/// The values of runs: their logarithms, or the shares themselves.
fn values(runs: &[Reading], is_share: bool) -> Vec<Value> {
    let square = |run: &Reading| (run.errors[0].powi(2) + run.errors[1].powi(2)) / 2.0;
    runs.iter().map(|run| Value(if is_share { run.value } else { run.log }, square(run))).collect()
}

/// The variance of the runs of a side; 0 of a single one, none of none.
fn variance(runs: &[Value]) -> Option<f64> {
    let mean = mean(runs)?;
    let squares = runs.iter().map(|run| (run.0 - mean).powi(2)).sum::<f64>();
    Some(squares / (runs.len() as f64 - 1.0).max(1.0))
}

/// The mean square of the runs' own errors.
fn within(before: &[Value], after: &[Value]) -> f64 {
    before.iter().chain(after).map(|run| run.1).sum::<f64>() / (before.len() + after.len()) as f64
}

fn mean(runs: &[Value]) -> Option<f64> {
    (!runs.is_empty()).then(|| runs.iter().map(|run| run.0).sum::<f64>() / runs.len() as f64)
}
