//! Comparison of results: better, worse, no measurable difference, too noisy or not enough data, for every statistic of every row
//! that all runs have.
//!
//! Within a run paths are interleaved. Two runs are not: changes of the host between them are in the difference. With one run
//! per side a floor stands for them (`pair`). With several runs, taken in turn, they are measured: the spread of the runs of one
//! side (`several`). Probabilities are corrected for the number of statistics in the table (`difference`).

mod alternate;
pub(crate) mod circumstances;
mod command;
pub(crate) mod difference;
mod distinct;
pub(crate) mod pair;
pub(crate) mod several;
pub(crate) mod statistic;

pub use alternate::{Alternate, Alternated};
pub use distinct::{check_distinct, is_on_both};
pub use statistic::Statistic;

use crate::scenario::record::PER_MESSAGE;
use difference::{Difference, holm};
use serde::Serialize;
use sidestep_report::schema::{Document, Row, SCHEMA};
use statistic::Reading;
use std::collections::{HashMap, HashSet};

/// The chance that a table of equal runs calls any row different.
pub(crate) const SIGNIFICANCE: f64 = 0.05;

/// The verdict on the second side against the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster, or less lost, beyond the noise.
    Better,
    /// Slower, or more lost, beyond the noise.
    Worse,
    /// None was seen; [`Compared::detectable`] tells which would have been.
    NoMeasurableDifference,
    /// The same, but a factor of two would not have been seen.
    TooNoisy,
    /// Too few slices or samples in one of the runs.
    NotEnoughData,
}

impl Verdict {
    /// Returns the words for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoMeasurableDifference => "no measurable difference",
            Self::TooNoisy => "too noisy to tell",
            Self::NotEnoughData => "not enough data",
        }
    }
}

/// One statistic of one row of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Name of the row ("rr tcp kernel-spin 64 B").
    pub row: String,
    /// The statistic.
    pub statistic: Statistic,
    /// Its value on the first side: nanoseconds, per second, or a share; of several runs, the geometric mean, of shares the mean: the ratio
    /// is the quotient of the two. None where it is not compared.
    pub before: Option<f64>,
    /// The same of the second side.
    pub after: Option<f64>,
    /// Second over first.
    pub ratio: Option<f64>,
    /// Its 95 % interval `[low, high]`, not corrected for the number of rows.
    pub ci95: Option<[f64; 2]>,
    /// Differences up to this share are noise.
    pub noise_floor: Option<f64>,
    /// Probability of such a difference between equal sides, corrected for the number of statistics in the table (Holm).
    pub p_value: Option<f64>,
    /// A change of this share or more would have been found in four of five such comparisons.
    pub detectable: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The comparison of two sides, each of one run or more.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Runs of the first side and of the second.
    pub runs: [usize; 2],
    /// Circumstances that differ ("kernel: 6.1.0 / 6.12.5").
    pub differences: Vec<String>,
    /// Statistics of the rows that every run has.
    pub rows: Vec<Compared>,
    /// Rows that some run lacks.
    pub unmatched: Vec<String>,
}

impl Comparison {
    /// Compares one run with another.
    pub fn of(before: &Document, after: &Document) -> Self {
        Self::of_runs(std::slice::from_ref(before), std::slice::from_ref(after))
    }

    /// Compares several runs per side. They should have been taken in turn, so that changes of the machine
    /// are on both sides. A side without a run has no rows.
    pub fn of_runs(before: &[Document], after: &[Document]) -> Self {
        let (earlier, later) = (Side::of(before), Side::of(after));
        let (mut found, mut unmatched) = (Vec::new(), Vec::new());
        for key in &names(before.iter().chain(after)) {
            match (earlier.rows(key), later.rows(key)) {
                (Rows::All(one), Rows::All(other)) => found.extend(compare(key, (&one, before), (&other, after))),
                (Rows::All(_), Rows::None) => unmatched.push(format!("{key} (only in the first)")),
                (Rows::None, Rows::All(_)) => unmatched.push(format!("{key} (only in the second)")),
                _ => unmatched.push(format!("{key} (not in every run)")),
            }
        }
        unmatched.extend(distinct::hidden(before, after));
        Self {
            schema: SCHEMA,
            runs: [before.len(), after.len()],
            differences: circumstances::differences(before, after),
            rows: judge(found),
            unmatched,
        }
    }

    /// Returns whether any row is worse.
    pub fn has_regression(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse)
    }

    /// Returns whether no row has enough data.
    pub fn lacks_data(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.verdict, Verdict::NotEnoughData | Verdict::TooNoisy))
    }
}

/// Returns the names of all rows of all runs, each once, in the order of the first run that has them.
fn names<'d>(runs: impl Iterator<Item = &'d Document>) -> Vec<String> {
    let mut seen = HashSet::new();
    runs.flat_map(|run| &run.results).map(name).filter(|name| seen.insert(name.clone())).collect()
}

/// The runs of one side: the rows of each by their names.
struct Side<'d>(Vec<HashMap<String, &'d Row>>);

/// The rows of one name on one side.
enum Rows<'d> {
    /// Every run has one, in the order of the runs.
    All(Vec<&'d Row>),
    /// Some runs have one.
    Some,
    /// No run has one.
    None,
}

impl<'d> Side<'d> {
    /// Of rows of one name in a run the first counts.
    fn of(runs: &'d [Document]) -> Self {
        let by_name = |run: &'d Document| run.results.iter().rev().map(|row| (name(row), row)).collect();
        Self(runs.iter().map(by_name).collect())
    }

    /// A side without a run has no rows.
    fn rows(&self, key: &str) -> Rows<'d> {
        let found: Vec<&Row> = self.0.iter().filter_map(|run| run.get(key).copied()).collect();
        match found.len() {
            0 => Rows::None,
            count if count == self.0.len() => Rows::All(found),
            _ => Rows::Some,
        }
    }
}

/// Returns the name of a row: everything but its figures.
pub(crate) fn name(row: &Row) -> String {
    let rate = row.rate_offered.map_or_else(String::new, |rate| format!(" at {rate}/s"));
    let rung = row.rung.as_ref().map_or_else(String::new, |rung| format!(" (rung {rung})"));
    let measure = match row.measure.as_str() {
        PER_MESSAGE => ", time per message",
        "rtt_fill" => ", order to ack and fill",
        "rtt_ack" => ", order to ack",
        "rtt_heartbeat" => ", test request to heartbeat",
        _ => "",
    };
    let detail = row.rate.as_ref();
    let arrival = detail
        .filter(|rate| !rate.arrival.is_empty())
        .map_or_else(String::new, |rate| format!(", {} arrivals", rate.arrival));
    let batch =
        detail.filter(|rate| rate.batch > 1).map_or_else(String::new, |rate| format!(", batches of {}", rate.batch));
    let sessions = row.sessions.map_or_else(String::new, |sessions| format!(", sessions: {sessions}"));
    format!(
        "{} {} {} {} B{rate}{rung}{measure}{arrival}{batch}{sessions}",
        row.scenario, row.transport, row.path, row.size
    )
}

/// Compares every statistic that some run of the row has.
fn compare(
    key: &str,
    (earlier, before): (&[&Row], &[Document]),
    (later, after): (&[&Row], &[Document]),
) -> Vec<(Compared, Option<Difference>)> {
    let belongs = |statistic: &Statistic| earlier.iter().chain(later).any(|row| statistic.belongs_to(row));
    let of = |statistic: Statistic| {
        let difference = match (before, after) {
            ([first], [second]) => pair::compare(statistic, (earlier[0], first), (later[0], second)),
            _ => several::compare(statistic, (earlier, before), (later, after)),
        };
        let shown = |rows: &[&Row]| together(statistic, rows).filter(|_| difference.is_some());
        let ratio = difference.map(|difference| difference.ratio());
        let compared = Compared {
            row: key.to_owned(),
            statistic,
            before: shown(earlier),
            after: shown(later),
            ratio: ratio.map(|ratio| ratio.0),
            ci95: ratio.map(|ratio| ratio.1),
            noise_floor: difference.map(|difference| difference.floor.exp_m1()),
            p_value: None,
            detectable: None,
            verdict: Verdict::NotEnoughData,
        };
        (compared, difference)
    };
    statistic::ALL.into_iter().filter(belongs).map(of).collect()
}

/// The value of all runs of a side.
fn together(statistic: Statistic, rows: &[&Row]) -> Option<f64> {
    let readings = rows.iter().map(|row| statistic.read(row)).collect::<Option<Vec<_>>>()?;
    let mean = |of: fn(&Reading) -> f64| readings.iter().map(of).sum::<f64>() / readings.len().max(1) as f64;
    let is_share = statistic == Statistic::Lost;
    (!readings.is_empty()).then(|| if is_share { mean(|run| run.value) } else { mean(|run| run.value.ln()).exp() })
}

/// Gives each statistic its verdict, corrected for the number of those that have enough data.
fn judge(found: Vec<(Compared, Option<Difference>)>) -> Vec<Compared> {
    let tested: Vec<f64> = found.iter().filter_map(|(_, difference)| Some((*difference)?.p_value())).collect();
    let mut corrected = holm(&tested).into_iter();
    let verdict = |(mut compared, difference): (Compared, Option<Difference>)| {
        if let Some((difference, p_value)) = difference.and_then(|difference| Some((difference, corrected.next()?))) {
            let detectable = difference.detectable(tested.len());
            compared.p_value = Some(p_value);
            compared.detectable = Some(detectable);
            compared.verdict = difference.verdict(p_value, detectable, compared.statistic.is_gain());
        }
        compared
    };
    found.into_iter().map(verdict).collect()
}

/// The median; none of nothing.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[values.len() / 2]) / 2.0)
}

#[cfg(test)]
mod tests;
