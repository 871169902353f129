//! The record of an arm's slices: a row, a control, ratios to other arms.

use crate::cpu_time::BothSpent;
use crate::measure::noise;
use crate::stats::{Accumulator, Estimate, Slice, Statistic, Warmup as Windows};
use sidestep_report::schema::{Noise, Ratio, Row, Unavailable, Warmup};
use sidestep_sys::Problem;
use std::time::Instant;

/// Windows after which a path that has not settled is measured all the same, with a note.
const WINDOWS_MAX: usize = 24;

/// The identity of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Key {
    pub(crate) scenario: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) path: String,
    pub(crate) rung: Option<String>,
    pub(crate) size: u32,
    pub(crate) rate_offered: Option<f64>,
    pub(crate) sessions: Option<u32>,
    pub(crate) measure: &'static str,
}

/// The two passes of a round, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the first thing in the list to the last.
    Forward,
    /// And back.
    Backward,
}

/// The statistics of which ratios are made.
const PERCENTILES: &[(&str, Statistic)] = &[("p50", Statistic::Quantile(0.5)), ("p99", Statistic::Quantile(0.99))];
/// The same of ticks, where a rare gap shows in the far tail alone.
const PERCENTILES_OF_TICKS: &[(&str, Statistic)] =
    &[("p50", Statistic::Quantile(0.5)), ("p99", Statistic::Quantile(0.99)), ("p99.9", Statistic::Quantile(0.999))];
/// Of time per message at full speed: its inverse is the throughput, whose percentiles mean nothing.
const MEAN: &[(&str, Statistic)] = &[("mean", Statistic::PerMessage)];

/// The slices of one thing measured, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) warmup: Warmup,
    /// The reason why it cannot be measured.
    pub(crate) refusal: Option<String>,
    pub(crate) samples: Accumulator,
    pub(crate) lost: u64,
    pub(crate) noise: Noise,
    pub(crate) cpu: BothSpent,
    pub(crate) notes: Vec<String>,
}

impl Record {
    /// Without samples.
    pub(crate) fn new(key: Key) -> Self {
        Self { key, ..Self::default() }
    }

    /// Keeps what a slice found.
    pub(crate) fn take(&mut self, direction: Direction, mut slice: Slice, lost: u64, noise: &Noise) {
        self.lost += lost;
        slice.lose(lost);
        noise::add(&mut self.noise, noise);
        // A pass that is missing keeps its place, so that the passes of one round stay together.
        if self.samples.begins_round() != (direction == Direction::Forward) {
            self.samples.push(Slice::default());
        }
        self.samples.push(slice);
    }

    /// Sets it aside: what it has measured until now is not shown.
    pub(crate) fn refuse(&mut self, reason: impl Into<String>) {
        self.refusal = Some(reason.into());
        self.samples = Accumulator::default();
    }

    /// A run that went to its end and has nothing to show says so.
    pub(crate) fn refuse_if_empty(&mut self) {
        if self.refusal.is_none() && self.samples.is_empty() {
            self.refuse("no message of it fell into its slices: give it more time (--duration)");
        }
    }

    /// Runs windows until their median has settled; each gives its messages and its median.
    pub(crate) fn warm_up(&mut self, window: impl FnMut() -> Result<(u64, f64), Problem>) -> Result<(), Problem> {
        self.warm_up_until(None, window)
    }

    /// The same, with an end.
    pub(crate) fn warm_up_until(
        &mut self,
        end: Option<Instant>,
        mut window: impl FnMut() -> Result<(u64, f64), Problem>,
    ) -> Result<(), Problem> {
        let mut windows = Windows::default();
        for number in 0..WINDOWS_MAX {
            if number > 0 && end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let (messages, median) = window()?;
            self.warmup.messages += messages;
            self.warmup.steady = windows.settled(median);
            if self.warmup.steady {
                break;
            }
        }
        Ok(())
    }

    /// Returns the row, times divided by `divisor`; none without samples.
    pub(crate) fn row(&self, divisor: f64) -> Option<Row> {
        if self.samples.is_empty() {
            return None;
        }
        Some(Row {
            scenario: self.key.scenario.into(),
            transport: self.key.transport.into(),
            path: self.key.path.clone(),
            rung: self.key.rung.clone(),
            size: self.key.size,
            rate_offered: self.key.rate_offered,
            sessions: self.key.sessions,
            unit: "ns".into(),
            measure: self.key.measure.into(),
            distribution: self.samples.distribution(divisor, self.mean()),
            lost: self.lost,
            warmup: self.warmup.clone(),
            noise: self.noise.clone(),
            blocks: self.samples.blocks(divisor),
            modes: self.samples.modes(divisor),
            cpu: self.cpu.row(),
            notes: self.remarks(),
            ..Row::default()
        })
    }

    fn remarks(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if !self.warmup.steady {
            notes.push("no steady state: the median was still moving when counting began".into());
        }
        notes
    }

    /// Returns the entry for `unavailable`, if it could not be measured.
    pub(crate) fn unavailable(&self) -> Option<Unavailable> {
        Some(Unavailable {
            scenario: self.key.scenario.into(),
            transport: self.key.transport.into(),
            path: self.key.path.clone(),
            rung: self.key.rung.clone(),
            reason: self.refusal.clone()?,
        })
    }

    /// The ratios of its forward passes to its backward passes: what this host makes of no difference at all.
    pub(crate) fn controls(&self) -> Vec<Ratio> {
        self.ratios(self, |statistic| self.samples.control(statistic))
    }

    /// The ratios to what was measured in the same rounds.
    pub(crate) fn against(&self, baseline: &Self) -> Vec<Ratio> {
        self.ratios(baseline, |statistic| self.samples.ratio(&baseline.samples, statistic))
    }

    /// Returns whether its slices have several modes: a ratio to it says which of them was met more often.
    pub(crate) fn has_modes(&self) -> bool {
        !self.samples.modes(1.0).is_empty()
    }

    fn mean(&self) -> Statistic {
        if matches!(self.key.measure, PER_MESSAGE | PER_CONNECTION) { Statistic::PerMessage } else { Statistic::Mean }
    }

    fn ratios(&self, against: &Self, of: impl Fn(Statistic) -> Option<Estimate>) -> Vec<Ratio> {
        let statistics = match self.key.measure {
            PER_MESSAGE => MEAN,
            TICK_TO_TRADE => PERCENTILES_OF_TICKS,
            _ => PERCENTILES,
        };
        let ratio = |(name, statistic): &(&str, Statistic)| Some(self.ratio(against, name, of(*statistic)?));
        statistics.iter().filter_map(ratio).collect()
    }

    fn ratio(&self, against: &Self, statistic: &str, estimate: Estimate) -> Ratio {
        Ratio {
            scenario: self.key.scenario.into(),
            transport: self.key.transport.into(),
            size: self.key.size,
            of: self.key.name().into(),
            against: against.key.name().into(),
            stat: statistic.into(),
            value: estimate.value,
            ci95: estimate.ci95,
            // Only rings, sources and FIX have rows that the measure alone tells apart.
            measure: if matches!(self.key.scenario, "ring" | "ring-source" | "fix") {
                self.key.measure.into()
            } else {
                String::new()
            },
            rate_offered: self.key.rate_offered,
            sessions: self.key.sessions,
        }
    }
}

/// The measure of time per message at full speed.
pub(crate) const PER_MESSAGE: &str = "per_message";
/// The measure from a tick to its order.
pub(crate) const TICK_TO_TRADE: &str = "tick_to_trade";
/// The measure of connections in sequence.
pub(crate) const PER_CONNECTION: &str = "per_connection";

impl Key {
    /// The path, or on a ladder the rung, which may share its path with another.
    pub(crate) fn name(&self) -> &str {
        self.rung.as_deref().unwrap_or(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(measure: &'static str, value: f64) -> Record {
        let mut record = Record::new(Key { scenario: "ring", path: format!("p{value}"), measure, ..Key::default() });
        for direction in [Direction::Forward, Direction::Backward].repeat(10) {
            record.take(direction, Slice::of((0..5_000).map(|_| value as u64)), 0, &Noise::default());
        }
        record
    }

    #[test]
    fn throughput_is_compared_by_the_mean_and_latency_by_percentiles() {
        let stats = |measure| {
            let ratios = record(measure, 30.0).against(&record(measure, 10.0));
            assert!(ratios.iter().all(|ratio| (ratio.value - 3.0).abs() < 1e-2 && ratio.measure == measure));
            ratios.into_iter().map(|ratio| ratio.stat).collect::<Vec<_>>()
        };
        assert_eq!(stats("rtt"), ["p50", "p99"]);
        assert_eq!(stats(PER_MESSAGE), ["mean"]);
    }

    #[test]
    fn what_is_refused_in_mid_run_has_no_row_and_no_ratio() {
        let mut record = record("rtt", 30.0);
        record.take(Direction::Forward, Slice::of(1..=500), 0, &Noise::default());
        assert!(record.row(1.0).is_some() && record.unavailable().is_none());
        record.refuse("it damaged a message");
        assert!(record.row(1.0).is_none() && record.controls().is_empty());
        assert_eq!(record.unavailable().expect("refused").reason, "it damaged a message");
        record.refuse_if_empty();
        assert_eq!(record.unavailable().expect("refused").reason, "it damaged a message", "the first reason stays");
    }

    #[test]
    fn what_was_measured_in_vain_says_so() {
        let mut empty = Record::default();
        assert!(empty.unavailable().is_none());
        empty.refuse_if_empty();
        assert!(empty.unavailable().expect("it has a reason").reason.contains("--duration"));
        let mut full = record("rtt", 30.0);
        full.take(Direction::Forward, Slice::of(1..=500), 0, &Noise::default());
        full.refuse_if_empty();
        assert!(full.row(1.0).is_some() && full.unavailable().is_none());
    }

    #[test]
    fn windows_end_when_the_median_settles_or_never() {
        let mut steady = Record::default();
        steady.warm_up(|| Ok((100, 50.0))).expect("windows do not fail");
        assert!(steady.warmup.steady && steady.warmup.messages == 400);
        let (mut moving, mut median) = (Record::default(), 1.0);
        moving
            .warm_up(|| {
                median *= 1.5;
                Ok((1, median))
            })
            .expect("windows do not fail");
        assert!(!moving.warmup.steady && moving.warmup.messages == WINDOWS_MAX as u64);
    }
}
