//! Two results against each other: better, worse, no measurable difference, not enough data, for every row in both.
//!
//! Within a run paths are interleaved; two runs are not, and whatever the host did between them is in the difference. A
//! verdict therefore asks for more than an interval that excludes 1: the whole interval must lie beyond the noise floor,
//! which is the largest of what the runs' own controls show, what their yardsticks differ by, how far slices of one run lie
//! apart, and 5 %.

use crate::scenario::record::PER_MESSAGE;
use crate::stats::{self, Estimate};
use serde::Serialize;
use sidestep_report::schema::{Block, Document, Host, Row, SCHEMA, Setup};

/// The least difference that is called one: 18 equal runs on a shared virtual machine differed by up to 3.7 % in the
/// median of their slices.
const FLOOR_MIN: f64 = 0.05;
/// The most that controls can raise the floor to: a run noisier than this has its own intervals to say so.
const CONTROL_MAX: f64 = 0.25;
/// Slices that a row needs in each run.
const BLOCKS_MIN: usize = 6;

/// What the second run is against the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster, beyond the noise.
    Better,
    /// Slower, beyond the noise.
    Worse,
    /// The interval reaches into the noise floor.
    NoMeasurableDifference,
    /// Too few slices in one of the runs.
    NotEnoughData,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoMeasurableDifference => "no measurable difference",
            Self::NotEnoughData => "not enough data",
        }
    }
}

/// One row of both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What is compared ("rr tcp kernel-spin 64 B").
    pub row: String,
    /// Median in the first run, ns.
    pub before_p50: Option<f64>,
    /// Median in the second run, ns.
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

/// The comparison of two documents.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Rows that both have.
    pub rows: Vec<Compared>,
    /// Rows that only one has.
    pub unmatched: Vec<String>,
    /// Circumstances that differ ("kernel: 6.1.0 / 6.12.5").
    pub differences: Vec<String>,
}

impl Comparison {
    /// Of `after` against `before`.
    pub fn of(before: &Document, after: &Document) -> Self {
        let find = |document: &'_ Document, key: &str| document.results.iter().position(|row| name(row) == key);
        let mut rows = Vec::new();
        let mut unmatched = Vec::new();
        for row in &before.results {
            match find(after, &name(row)) {
                Some(index) => rows.push(compare(row, &after.results[index], before, after)),
                None => unmatched.push(format!("{} (only in the first)", name(row))),
            }
        }
        let new = after.results.iter().filter(|row| find(before, &name(row)).is_none());
        unmatched.extend(new.map(|row| format!("{} (only in the second)", name(row))));
        Self { schema: SCHEMA, rows, unmatched, differences: differences(before, after) }
    }

    /// Whether any row is worse.
    pub fn has_regression(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse)
    }

    /// Whether no row could be judged.
    pub fn lacks_data(&self) -> bool {
        self.rows.iter().all(|row| row.verdict == Verdict::NotEnoughData)
    }
}

/// What a row is, apart from its figures.
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

fn compare(before: &Row, after: &Row, first: &Document, second: &Document) -> Compared {
    let within = |row, document| control(row, document).min(CONTROL_MAX).max(spread(row));
    let noise_floor =
        within(before, first).max(within(after, second)).max(machine_change(first, second)).max(FLOOR_MIN);
    let estimate = ratio(before, after);
    let verdict = match estimate {
        None => Verdict::NotEnoughData,
        Some(Estimate { ci95: [low, _], .. }) if low > 1.0 + noise_floor => Verdict::Worse,
        Some(Estimate { ci95: [_, high], .. }) if high < 1.0 / (1.0 + noise_floor) => Verdict::Better,
        Some(_) => Verdict::NoMeasurableDifference,
    };
    Compared {
        row: name(before),
        before_p50: before.distribution.p50,
        after_p50: after.distribution.p50,
        ratio: estimate.map(|estimate| estimate.value),
        ci95: estimate.map(|estimate| estimate.ci95),
        noise_floor,
        verdict,
    }
}

/// Ratio of the medians of the slices' medians. The two runs are independent: the half widths of their intervals add in squares.
fn ratio(before: &Row, after: &Row) -> Option<Estimate> {
    let (before, after) = (median(before)?, median(after)?);
    let value = after.value / before.value;
    let below = (after.value / after.ci95[0]).ln().hypot((before.ci95[1] / before.value).ln());
    let above = (after.ci95[1] / after.value).ln().hypot((before.value / before.ci95[0]).ln());
    Some(Estimate { value, ci95: [value * (-below).exp(), value * above.exp()] })
}

fn median(row: &Row) -> Option<Estimate> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    let medians: Vec<f64> = row.blocks.iter().map(of_slice(row)).filter(|value| usable(*value)).collect();
    if medians.len() < BLOCKS_MIN { None } else { stats::median(&medians) }
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

/// What a row is judged by: a throughput by the mean, a latency by the median.
fn statistic(row: &Row) -> &'static str {
    if row.measure == PER_MESSAGE { "mean" } else { "p50" }
}

/// The same of one slice.
fn of_slice(row: &Row) -> fn(&Block) -> f64 {
    if row.measure == PER_MESSAGE { |block| block.mean } else { |block| block.p50 }
}

/// How far the row's own control strays from 1. Its value, not its interval: how uncertain the row is stands in the
/// interval of the comparison already.
fn control(row: &Row, document: &Document) -> f64 {
    let this = row.rung.as_ref().unwrap_or(&row.path);
    let controls = document.ratios.iter().filter(|ratio| {
        let is_control = ratio.of == ratio.against && &ratio.of == this && ratio.stat == statistic(row);
        // Only a scenario with several measures or paces names them in its ratios.
        let same = ratio.measure.is_empty()
            || (&ratio.measure, ratio.rate_offered, ratio.sessions) == (&row.measure, row.rate_offered, row.sessions);
        let alike = ratio.scenario == row.scenario && ratio.transport == row.transport && ratio.size == row.size;
        is_control && same && alike
    });
    controls.map(|ratio| if ratio.value > 0.0 { ratio.value.ln().abs().exp_m1() } else { 0.0 }).fold(0.0, f64::max)
}

/// By what share the machine itself was slower in one run than in the other, as its yardsticks say.
fn machine_change(before: &Document, after: &Document) -> f64 {
    let changes = yardsticks(before, after).into_iter().filter_map(|(_, before, after)| {
        let (before, after) = (before?, after?);
        (before > 0.0 && after > 0.0).then(|| before.max(after) / before.min(after) - 1.0)
    });
    changes.filter(|change| change.is_finite()).fold(0.0, f64::max)
}

type Readings = (&'static str, Option<f64>, Option<f64>);

fn yardsticks(before: &Document, after: &Document) -> [Readings; 2] {
    let (before, after) = (&before.host.noise.yardstick, &after.host.noise.yardstick);
    [
        ("system call, ns", before.syscall_ns, after.syscall_ns),
        ("cache line between the CPUs and back, ns", before.cache_line_ns, after.cache_line_ns),
    ]
}

/// What differs between the circumstances of two runs.
fn differences(before: &Document, after: &Document) -> Vec<String> {
    let changed = machine_change(before, after) > FLOOR_MIN;
    let readings = yardsticks(before, after).into_iter().filter(|_| changed);
    let ns = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.0}"));
    let machine =
        readings.map(|(name, before, after)| format!("the machine itself, {name}: {} / {}", ns(before), ns(after)));
    circumstances(before, after).into_iter().chain(machine).collect()
}

fn circumstances(before: &Document, after: &Document) -> Vec<String> {
    let mut list = vec![("version", before.tool.version.clone(), after.tool.version.clone())];
    list.extend(pairs(host_facts(&before.host), host_facts(&after.host)));
    list.extend(pairs(setup_facts(&before.setup), setup_facts(&after.setup)));
    let differing = list.into_iter().filter(|(_, before, after)| before != after);
    differing.map(|(name, before, after)| format!("{name}: {before} / {after}")).collect()
}

type Facts<const N: usize> = [(&'static str, String); N];

fn pairs<const N: usize>(before: Facts<N>, after: Facts<N>) -> Vec<(&'static str, String, String)> {
    before.into_iter().zip(after).map(|((name, before), (_, after))| (name, before, after)).collect()
}

fn host_facts(host: &Host) -> Facts<9> {
    [
        ("host", host.hostname.clone()),
        ("kernel", host.kernel.clone()),
        ("kernel command line", host.cmdline.clone()),
        ("CPU", host.cpu.clone()),
        ("CPUs", host.cpus.to_string()),
        ("hypervisor", host.virtualised.clone().unwrap_or_default()),
        ("clock", host.clock.clone()),
        ("clock source", host.clocksource.clone()),
        ("governor", host.governor.clone().unwrap_or_default()),
    ]
}

fn setup_facts(setup: &Setup) -> Facts<5> {
    let cpu = |cpu: Option<u32>| cpu.map_or_else(String::new, |cpu| cpu.to_string());
    [
        ("place", setup.place.clone()),
        ("interface", setup.interface.clone()),
        ("measuring CPU", cpu(setup.client_cpu)),
        ("peer's CPU", cpu(setup.server_cpu)),
        ("service time, ns", setup.service_time_ns.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_report::schema::{Block, Ratio};

    fn document(p50: f64, blocks: usize, noise: f64, seed: u64) -> Document {
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
        assert_eq!(comparison.rows[0].verdict, Verdict::NoMeasurableDifference);
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
