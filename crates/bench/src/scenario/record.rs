//! The record of an arm's slices: a row, a control, ratios to other arms.

use crate::cpu_time::BothSpent;
use crate::measure::noise;
use crate::stats::{Accumulator, Slice, TAIL_SAMPLES, Warmup as Windows, mean_of_logs};
use sidestep_report::schema::{Noise, Ratio, Row, Unavailable, Warmup};
use sidestep_sys::Problem;
use std::time::Instant;

/// Samples beyond the percentile that a slice must have for its percentile to go into a ratio.
const SLICE_TAIL: f64 = TAIL_SAMPLES / 10.0;
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

/// The results of the two passes of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) forward: Option<Pass>,
    pub(crate) backward: Option<Pass>,
}

/// One slice in the eyes of a ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) n: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) mean: f64,
}

/// A statistic of a slice that ratios are made of.
struct Stat {
    name: &'static str,
    of: fn(&Pass) -> f64,
    samples_min: f64,
}

const PERCENTILES: &[Stat] = &[
    Stat { name: "p50", of: |pass| pass.p50, samples_min: SLICE_TAIL / 0.5 },
    Stat { name: "p99", of: |pass| pass.p99, samples_min: SLICE_TAIL / 0.01 },
];
/// Of time per message at full speed: its inverse is the throughput, whose percentiles mean nothing.
const MEAN: &[Stat] = &[Stat { name: "mean", of: |pass| pass.mean, samples_min: 1.0 }];

/// The slices of one thing measured, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) rounds: Vec<Round>,
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

    /// Keeps what a slice found; what it means for ratios, if it has samples.
    pub(crate) fn take(&mut self, slice: Slice, lost: u64, noise: &Noise) -> Option<Pass> {
        self.lost += lost;
        noise::add(&mut self.noise, noise);
        let pass = Pass { n: slice.len(), p50: slice.p50(), p99: slice.quantile(0.99), mean: slice.mean() };
        self.samples.push(slice);
        (pass.n > 0).then_some(pass)
    }

    /// Keeps a pass of the newest round.
    pub(crate) fn pass(&mut self, direction: Direction, pass: Option<Pass>) {
        if direction == Direction::Forward {
            self.rounds.push(Round::default());
        }
        if let Some(round) = self.rounds.last_mut() {
            match direction {
                Direction::Forward => round.forward = pass,
                Direction::Backward => round.backward = pass,
            }
        }
    }

    /// Sets it aside: what it has measured until now is not shown.
    pub(crate) fn refuse(&mut self, reason: impl Into<String>) {
        self.refusal = Some(reason.into());
        self.samples = Accumulator::default();
        self.rounds.clear();
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
            distribution: self.samples.distribution(divisor),
            lost: self.lost,
            warmup: self.warmup.clone(),
            noise: self.noise.clone(),
            blocks: self.samples.blocks(divisor),
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
        let of = |stat: &Stat| {
            let log = |round: &Round| Some(stat.log(round.forward?)? - stat.log(round.backward?)?);
            let logs: Vec<f64> = self.rounds.iter().filter_map(log).collect();
            self.ratio(self, stat, &logs)
        };
        self.stats().iter().filter_map(of).collect()
    }

    /// The ratios to what was measured in the same rounds.
    pub(crate) fn against(&self, baseline: &Self) -> Vec<Ratio> {
        let of = |stat: &Stat| {
            let both = |round: &Round| Some((stat.log(round.forward?)? + stat.log(round.backward?)?) / 2.0);
            let rounds = self.rounds.iter().zip(&baseline.rounds);
            let logs: Vec<f64> = rounds.filter_map(|(one, two)| Some(both(one)? - both(two)?)).collect();
            self.ratio(baseline, stat, &logs)
        };
        self.stats().iter().filter_map(of).collect()
    }

    fn stats(&self) -> &'static [Stat] {
        if self.key.measure == PER_MESSAGE { MEAN } else { PERCENTILES }
    }

    fn ratio(&self, against: &Self, stat: &Stat, logs: &[f64]) -> Option<Ratio> {
        let estimate = mean_of_logs(logs)?;
        Some(Ratio {
            scenario: self.key.scenario.into(),
            transport: self.key.transport.into(),
            size: self.key.size,
            of: self.key.name().into(),
            against: against.key.name().into(),
            stat: stat.name.into(),
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
        })
    }
}

/// The measure of time per message at full speed.
pub(crate) const PER_MESSAGE: &str = "per_message";

impl Key {
    /// The path, or on a ladder the rung, which may share its path with another.
    pub(crate) fn name(&self) -> &str {
        self.rung.as_deref().unwrap_or(&self.path)
    }
}

impl Stat {
    fn log(&self, pass: Pass) -> Option<f64> {
        let value = (self.of)(&pass);
        (pass.n as f64 >= self.samples_min && value > 0.0).then(|| value.ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(measure: &'static str, value: f64) -> Record {
        let mut record = Record::new(Key { scenario: "ring", path: format!("p{value}"), measure, ..Key::default() });
        for _ in 0..10 {
            for direction in [Direction::Forward, Direction::Backward] {
                record.pass(direction, Some(Pass { n: 5_000, p50: value, p99: value, mean: value }));
            }
        }
        record
    }

    #[test]
    fn throughput_is_compared_by_the_mean_and_latency_by_percentiles() {
        let stats = |measure| {
            let ratios = record(measure, 30.0).against(&record(measure, 10.0));
            assert!(ratios.iter().all(|ratio| (ratio.value - 3.0).abs() < 1e-9 && ratio.measure == measure));
            ratios.into_iter().map(|ratio| ratio.stat).collect::<Vec<_>>()
        };
        assert_eq!(stats("rtt"), ["p50", "p99"]);
        assert_eq!(stats(PER_MESSAGE), ["mean"]);
    }

    #[test]
    fn what_is_refused_in_mid_run_has_no_row_and_no_ratio() {
        let mut record = record("rtt", 30.0);
        record.take(Slice::of(1..=500), 0, &Noise::default());
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
        full.take(Slice::of(1..=500), 0, &Noise::default());
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
