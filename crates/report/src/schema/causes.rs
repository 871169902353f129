//! What the host did during the slowest samples of a row.

use serde::{Deserialize, Serialize};

/// The slowest samples of a row's observed slices, joined with what the host did in their time on the CPUs of both ends.
///
/// Observed slices are of their own, in the middle of the run; the figures of the row are from the others, in which nothing was
/// recorded. Times are of whole round trips, also in a row of half-RTTs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Causes {
    /// `tracepoints`: events with their times; `counters`: only what grew in a slice, as no events could be recorded.
    pub source: String,
    /// Observed samples.
    pub n: u64,
    /// Their median.
    pub p50: f64,
    /// Their 99.9th percentile, with enough samples.
    pub p99_9: Option<f64>,
    /// The slowest.
    pub max: f64,
    /// Samples looked at: the slowest thousandth, at least one, at most 4,096.
    pub slowest: u64,
    /// The fastest of them.
    pub from_ns: f64,
    /// Those of them in whose time events were lost, or none could be recorded: nothing is explained of them.
    pub uncovered: u64,
    /// Events recorded.
    pub events: u64,
    /// Events that are known to be lost.
    pub lost: u64,
    /// Bound on the distance between the clock of the samples and that of the events.
    pub clock_error_ns: f64,
    /// What observing did to the median.
    #[serde(default)]
    pub observer: Option<ObserverEffect>,
    /// Causes, the one that explains most samples first; last what no event explains.
    pub causes: Vec<Cause>,
    /// The slowest samples, slowest first, at most 200; the first ones with their events.
    pub outliers: Vec<Outlier>,
    /// What could not be observed, with its reason and what would allow it.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// The median of observed slices against that of the others, in the same run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObserverEffect {
    /// The ratio.
    pub p50_ratio: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
}

/// Something that the host did during slow samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Its name.
    pub what: String,
    /// `interrupt`, `softirq`, `task` (one that ran while an end waited for the CPU), `idle` (a CPU that was idle when an end was
    /// woken there), `event` (without a known duration), `counter` (grew in the slice), `unknown`.
    pub class: String,
    /// Slow samples in whose time it was.
    pub samples: u64,
    /// Those of which it explains at least half of the excess: what they took above the median.
    pub explains: u64,
    /// Its time in a sample where it was, on average; none where its duration is not known. Of `unknown` the excess that is left.
    pub mean_ns: Option<f64>,
    /// Share of the excess of all slow samples that it explains, 0..1: its time beyond what it takes in ordinary samples. Causes
    /// on two CPUs at once may explain the same time.
    pub share: Option<f64>,
    /// Share of random intervals of the same lengths in the same slices in which it was, too, 0..1; of counters the share of
    /// all observed slices. High: its presence alone means nothing.
    pub usual: Option<f64>,
}

/// A slow sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its beginning, milliseconds since observing began.
    pub at_ms: f64,
    /// How long it took.
    pub ns: f64,
    /// The cause that explains at least half of its excess, or `several together`; else `unknown`.
    pub cause: String,
    /// The class of that cause, of several that of the largest.
    pub class: String,
    /// What was in its time, the longest 24 in time order; none where the result does not tell them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<OutlierEvent>,
}

/// Something in the time of a slow sample, cut to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutlierEvent {
    /// Its name.
    pub what: String,
    /// Its class, as of [`Cause`].
    pub class: String,
    /// Its beginning, counted from that of the sample.
    pub from_ns: f64,
    /// Its duration, 0 where that is not known.
    pub ns: f64,
}
