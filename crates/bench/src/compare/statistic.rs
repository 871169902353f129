//! The statistics of a row that are compared, and how each run states them.

use crate::scenario::record::PER_MESSAGE;
use crate::stats::{MeanError, SERIES_MIN, freedom, student};
use serde::Serialize;
use sidestep_report::knee::lost_share;
use sidestep_report::schema::{Block, Document, Ratio, Row};

/// A statistic of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Statistic {
    /// Median, ns.
    #[serde(rename = "p50")]
    P50,
    /// 99th percentile, ns.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile, ns.
    #[serde(rename = "p99.9")]
    P99_9,
    /// Messages or connections per second.
    #[serde(rename = "rate")]
    Rate,
    /// Share of the messages that were lost.
    #[serde(rename = "lost")]
    Lost,
}

/// All of them, in the order of the table.
pub(crate) const ALL: [Statistic; 5] =
    [Statistic::P50, Statistic::P99, Statistic::P99_9, Statistic::Rate, Statistic::Lost];

/// Added to lost messages, so that none has a logarithm (Anscombe).
const HALF_A_MESSAGE: f64 = 0.5;

/// What one run says of a statistic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The value as it is shown.
    pub(crate) value: f64,
    /// Its logarithm, as it is compared.
    pub(crate) log: f64,
    /// Its standard error downwards and upwards, as its slices tell it: of the logarithm; of losses, of the share itself.
    pub(crate) errors: [f64; 2],
    /// Degrees of freedom of that error.
    pub(crate) freedom: f64,
}

impl Statistic {
    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::Rate => "rate",
            Self::Lost => "lost",
        }
    }

    /// Returns whether more of it is better.
    pub(crate) fn is_gain(self) -> bool {
        self == Self::Rate
    }

    /// Returns whether rows of this kind have it at all. The percentiles of a stream mean nothing.
    pub(crate) fn belongs_to(self, row: &Row) -> bool {
        let is_stream = row.measure == PER_MESSAGE;
        match self {
            Self::P50 => !is_stream,
            Self::P99 => !is_stream && row.distribution.p99.is_some(),
            Self::P99_9 => !is_stream && row.distribution.p99_9.is_some(),
            Self::Rate => is_stream || row.measure == "per_connection",
            Self::Lost => row.lost > 0,
        }
    }

    /// Differences of single runs up to this share are not called one, whatever their intervals: equal runs of a shared
    /// machine differed by as much (SPEC.md).
    pub(crate) fn floor_of_single_runs(self) -> f64 {
        match self {
            Self::P50 | Self::Rate => 0.05,
            Self::P99 => 0.15,
            Self::P99_9 => 0.5,
            Self::Lost => 1.0,
        }
    }

    /// Reads it; none where the run has too little of it.
    pub(crate) fn read(self, row: &Row) -> Option<Reading> {
        if self == Self::Lost {
            return Self::lost(row);
        }
        let distribution = &row.distribution;
        let (value, ci95) = match self {
            Self::P50 => (distribution.p50?, distribution.ci95.p50?),
            Self::P99 => (distribution.p99?, distribution.ci95.p99?),
            Self::P99_9 => (distribution.p99_9?, distribution.ci95.p99_9?),
            Self::Rate | Self::Lost => {
                let [low, high] = distribution.ci95.mean?;
                (1.0 / distribution.mean?, [1.0 / high, 1.0 / low])
            }
        };
        if row.blocks.len() < SERIES_MIN {
            return None;
        }
        let freedom = freedom(row.blocks.len());
        let errors = ci95.map(|end| (end / value).ln().abs() / student::t95(freedom));
        // A rate is shown as the run counted it.
        let shown = if self == Self::Rate { row.rate_achieved.unwrap_or(value) } else { value };
        let reading = Reading { value: shown, log: value.ln(), errors, freedom };
        (value > 0.0 && value.is_finite() && errors.iter().all(|error| error.is_finite())).then_some(reading)
    }

    /// The share of lost messages. Losses come in bursts, so that its error is that of the slices' shares, never that of single
    /// messages; rows without the losses of their slices have none.
    fn lost(row: &Row) -> Option<Reading> {
        let (lost, value) = (row.lost as f64, lost_share(row));
        let sent = row.rate.as_ref().map_or(row.distribution.n, |rate| rate.received) as f64 + lost;
        let shares: Vec<f64> = row.blocks.iter().map(lost_of).collect::<Option<_>>()?;
        let MeanError { error, freedom, .. } = MeanError::of(&shares)?;
        // None lost is no proof of none: half a message is the least that a side can hide.
        let error = error.max((lost + HALF_A_MESSAGE).sqrt() / sent);
        let log = ((lost + HALF_A_MESSAGE) / (sent + 2.0 * HALF_A_MESSAGE)).ln();
        (sent > 0.0).then_some(Reading { value, log, errors: [error; 2], freedom })
    }

    /// How far from 1 the interval of the row's control reaches: what this run makes of no difference at all; none where it has none.
    pub(crate) fn control(self, row: &Row, document: &Document) -> Option<f64> {
        let this = row.rung.as_ref().unwrap_or(&row.path);
        let stat = match self {
            Self::P50 => "p50",
            Self::P99 | Self::P99_9 => "p99",
            Self::Rate => "mean",
            Self::Lost => return None,
        };
        let is_control = |ratio: &&Ratio| {
            // A ratio names measure and pace only in a scenario with several.
            let same = ratio.measure.is_empty()
                || (&ratio.measure, ratio.rate_offered, ratio.sessions)
                    == (&row.measure, row.rate_offered, row.sessions);
            let alike = ratio.scenario == row.scenario && ratio.transport == row.transport && ratio.size == row.size;
            ratio.of == ratio.against && &ratio.of == this && ratio.stat == stat && same && alike
        };
        let reach = |ratio: &Ratio| ratio.ci95.iter().map(|end| end.ln().abs()).fold(0.0, f64::max).exp_m1();
        document.ratios.iter().filter(is_control).map(reach).reduce(f64::max)
    }
}

/// The share of lost messages of a slice.
fn lost_of(block: &Block) -> Option<f64> {
    let lost = block.lost? as f64;
    Some(lost / (lost + block.n as f64).max(1.0))
}
