//! Comparison of results: better, worse, no measurable difference, too noisy or not enough data, for every row that all
//! runs have.
//!
//! Within a run paths are interleaved. Two runs are not: changes of the host between them are in the difference. A
//! verdict therefore asks for more than an interval that excludes 1: the whole interval must lie beyond the noise floor.
//! With one run per side the floor is estimated from within the runs (`pair`). With several runs, taken in turn, it is
//! measured: the spread of the runs of one side (`several`).

mod circumstances;
mod pair;
mod several;

use crate::scenario::record::PER_MESSAGE;
use crate::stats::Estimate;
use serde::Serialize;
use sidestep_report::schema::{Block, Document, Row, SCHEMA};

/// From this noise floor on "no measurable difference" means nothing: a factor of two would not be seen.
const FLOOR_USELESS: f64 = 1.0;

/// Slices that a row needs in each run.
const BLOCKS_MIN: usize = 6;

/// The verdict on the second side against the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster, beyond the noise.
    Better,
    /// Slower, beyond the noise.
    Worse,
    /// The interval reaches into the noise floor.
    NoMeasurableDifference,
    /// The same, with a floor so high that it would hide a factor of two.
    TooNoisy,
    /// Too few slices in one of the runs.
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

/// One row of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Name of the row ("rr tcp kernel-spin 64 B").
    pub row: String,
    /// Median of the first side, ns; of several runs, the median of their medians.
    pub before_p50: Option<f64>,
    /// The same of the second side.
    pub after_p50: Option<f64>,
    /// Second over first, with its 95 % interval.
    pub ratio: Option<f64>,
    /// `[low, high]`.
    pub ci95: Option<[f64; 2]>,
    /// Differences up to this share are noise.
    pub noise_floor: f64,
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
    /// Rows that every run has.
    pub rows: Vec<Compared>,
    /// Rows that some run lacks.
    pub unmatched: Vec<String>,
    /// Circumstances that differ ("kernel: 6.1.0 / 6.12.5").
    pub differences: Vec<String>,
}

impl Comparison {
    /// Compares one run with another.
    pub fn of(before: &Document, after: &Document) -> Self {
        Self::of_runs(std::slice::from_ref(before), std::slice::from_ref(after))
    }

    /// Compares several runs per side. They should have been taken in turn, so that changes of the machine
    /// are on both sides. A side without a run has no rows.
    pub fn of_runs(before: &[Document], after: &[Document]) -> Self {
        let names: Vec<String> = names(before.iter().chain(after));
        let has_none = |runs: &[Document], key: &str| runs.iter().all(|run| find(run, key).is_none());
        let has_all =
            |runs: &[Document], key: &str| !runs.is_empty() && runs.iter().all(|run| find(run, key).is_some());
        let (mut rows, mut unmatched) = (Vec::new(), Vec::new());
        for key in &names {
            match (has_all(before, key), has_all(after, key)) {
                (true, true) => rows.push(compare(key, before, after)),
                (true, false) if has_none(after, key) => unmatched.push(format!("{key} (only in the first)")),
                (false, true) if has_none(before, key) => unmatched.push(format!("{key} (only in the second)")),
                _ => unmatched.push(format!("{key} (not in every run)")),
            }
        }
        let differences = circumstances::differences(before, after);
        Self { schema: SCHEMA, runs: [before.len(), after.len()], rows, unmatched, differences }
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
    let mut seen = std::collections::HashSet::new();
    runs.flat_map(|run| &run.results).map(name).filter(|name| seen.insert(name.clone())).collect()
}

fn find<'d>(run: &'d Document, key: &str) -> Option<&'d Row> {
    run.results.iter().find(|row| name(row) == key)
}

/// Returns the name of a row: everything but its figures.
fn name(row: &Row) -> String {
    let rate = row.rate_offered.map_or_else(String::new, |rate| format!(" at {rate}/s"));
    let rung = row.rung.as_ref().map_or_else(String::new, |rung| format!(" (rung {rung})"));
    let measure = match row.measure.as_str() {
        PER_MESSAGE => ", time per message",
        "rtt_fill" => ", order to ack and fill",
        "rtt_ack" => ", order to ack",
        "rtt_heartbeat" => ", test request to heartbeat",
        _ => "",
    };
    let sessions = row.sessions.map_or_else(String::new, |sessions| format!(", sessions: {sessions}"));
    format!("{} {} {} {} B{rate}{rung}{measure}{sessions}", row.scenario, row.transport, row.path, row.size)
}

/// A ratio and its noise floor.
struct NoisyRatio {
    estimate: Option<Estimate>,
    noise_floor: f64,
}

/// Compares a row that all runs have.
fn compare(key: &str, before: &[Document], after: &[Document]) -> Compared {
    let rows = |runs: &'_ [Document]| runs.iter().filter_map(|run| find(run, key)).cloned().collect::<Vec<Row>>();
    let (earlier, later) = (rows(before), rows(after));
    let NoisyRatio { estimate, noise_floor } = match (before, after) {
        ([before], [after]) => pair::compare((&earlier[0], before), (&later[0], after)),
        _ => several::compare(&earlier, &later, circumstances::machine_change(before, after)),
    };
    let verdict = match estimate {
        None => Verdict::NotEnoughData,
        Some(Estimate { ci95: [low, _], .. }) if low > 1.0 + noise_floor => Verdict::Worse,
        Some(Estimate { ci95: [_, high], .. }) if high < 1.0 / (1.0 + noise_floor) => Verdict::Better,
        Some(_) if noise_floor >= FLOOR_USELESS => Verdict::TooNoisy,
        Some(_) => Verdict::NoMeasurableDifference,
    };
    Compared {
        row: key.to_owned(),
        before_p50: middle(earlier.iter().filter_map(|row| row.distribution.p50).collect()),
        after_p50: middle(later.iter().filter_map(|row| row.distribution.p50).collect()),
        ratio: estimate.map(|estimate| estimate.value),
        ci95: estimate.map(|estimate| estimate.ci95),
        noise_floor,
        verdict,
    }
}

/// The median; none of nothing.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[values.len() / 2]) / 2.0)
}

/// The medians of a row's slices; none where they are too few.
fn slices(row: &Row) -> Option<Vec<f64>> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    let medians: Vec<f64> = row.blocks.iter().map(of_slice(row)).filter(|value| usable(*value)).collect();
    (medians.len() >= BLOCKS_MIN).then_some(medians)
}

/// Half the distance between the quartiles of a row's slices, as a share of their median: slices that follow each other
/// are alike, so their number alone does not make an interval as narrow as it looks.
fn spread(row: &Row) -> f64 {
    let mut medians: Vec<f64> = row.blocks.iter().map(of_slice(row)).filter(|value| *value > 0.0).collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians.get((share * medians.len() as f64) as usize).copied();
    match (at(0.25), at(0.5), at(0.75)) {
        (Some(low), Some(middle), Some(high)) => (high - low) / middle / 2.0,
        _ => 0.0,
    }
}

/// Returns the statistic to compare: the mean of a throughput, the median of a latency.
fn statistic(row: &Row) -> &'static str {
    if row.measure == PER_MESSAGE { "mean" } else { "p50" }
}

/// The same of one slice.
fn of_slice(row: &Row) -> fn(&Block) -> f64 {
    if row.measure == PER_MESSAGE { |block| block.mean } else { |block| block.p50 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_report::schema::{Block, Ratio};

    pub(super) fn document(p50: f64, blocks: usize, noise: f64, seed: u64) -> Document {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut block = || {
            let p50 = p50 * (1.0 + noise * (random.f64() - 0.5));
            Block { n: 1000, p50, p99: 2.0 * p50, mean: p50 }
        };
        let row = Row {
            scenario: "rr".into(),
            transport: "tcp".into(),
            path: "kernel-spin".into(),
            size: 64,
            blocks: (0..blocks).map(|_| block()).collect(),
            ..Row::default()
        };
        Document { schema: SCHEMA, results: vec![row], ..Document::default() }
    }

    fn verdict(before: &Document, after: &Document) -> Verdict {
        Comparison::of(before, after).rows[0].verdict
    }

    #[test]
    fn a_tenth_is_seen_and_nothing_is_nothing() {
        let base = document(5_000.0, 40, 0.1, 1);
        assert_eq!(verdict(&base, &document(5_500.0, 40, 0.1, 2)), Verdict::Worse);
        assert_eq!(verdict(&base, &document(4_500.0, 40, 0.1, 3)), Verdict::Better);
        for seed in 10..110 {
            assert_eq!(verdict(&base, &document(5_000.0, 40, 0.1, seed)), Verdict::NoMeasurableDifference);
        }
    }

    #[test]
    fn few_slices_and_absurd_ones_are_not_enough() {
        let base = document(5_000.0, 40, 0.1, 1);
        assert_eq!(verdict(&base, &document(9_000.0, 5, 0.1, 2)), Verdict::NotEnoughData);
        let mut absurd = document(9_000.0, 40, 0.1, 2);
        absurd.results[0].blocks.iter_mut().for_each(|block| block.p50 = f64::NAN);
        assert!(Comparison::of(&base, &absurd).lacks_data());
    }

    #[test]
    fn slices_that_lie_too_far_apart_are_not_enough() {
        let wild = |factor: f64| {
            let mut document = document(1.0, 6, 0.0, 1);
            let p50s = [1.0, 1.0, 1.0, 1000.0, 1000.0, 1000.0];
            document.results[0].blocks.iter_mut().zip(p50s).for_each(|(block, p50)| block.p50 = p50 * factor);
            document
        };
        assert_eq!(verdict(&wild(1.0), &wild(10.0)), Verdict::NotEnoughData);
    }

    #[test]
    fn a_noisy_control_raises_the_floor() {
        let (base, mut slower) = (document(5_000.0, 40, 0.1, 1), document(5_500.0, 40, 0.1, 2));
        slower.ratios.push(Ratio {
            scenario: "rr".into(),
            transport: "tcp".into(),
            size: 64,
            of: "kernel-spin".into(),
            against: "kernel-spin".into(),
            stat: "p50".into(),
            value: 1.2,
            ci95: [1.1, 1.3],
            ..Ratio::default()
        });
        assert_eq!(verdict(&base, &slower), Verdict::NoMeasurableDifference);
    }

    #[test]
    fn a_machine_that_changed_raises_the_floor_and_is_named() {
        let (mut base, mut slower) = (document(7_000.0, 40, 0.1, 1), document(10_500.0, 40, 0.1, 2));
        base.host.noise.yardstick.cache_line_ns = Some(130.0);
        slower.host.noise.yardstick.cache_line_ns = Some(430.0);
        let comparison = Comparison::of(&base, &slower);
        assert_eq!(comparison.rows[0].verdict, Verdict::TooNoisy);
        assert!(comparison.differences.iter().any(|line| line.contains("130 / 430")), "{:?}", comparison.differences);
    }

    #[test]
    fn rows_of_one_run_alone_and_other_circumstances_are_listed() {
        let base = document(5_000.0, 40, 0.1, 1);
        let mut other = document(5_000.0, 40, 0.1, 1);
        other.results[0].size = 128;
        other.host.kernel = "6.12".into();
        let comparison = Comparison::of(&base, &other);
        assert_eq!((comparison.rows.len(), comparison.unmatched.len()), (0, 2));
        assert_eq!(comparison.differences, ["kernel:  / 6.12"]);
        assert!(comparison.lacks_data());
    }
}
