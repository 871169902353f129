//! Distributions of a row, and what comes with them.

use serde::{Deserialize, Serialize};

/// A latency distribution: of the mixture in which every slice counts alike, as slices last equally long. Its percentiles
/// are those of a message picked at random from a slice picked at random. A percentile is `null` unless at least 100 samples lie beyond it. In
/// `rates` and `open-loop` what was lost counts as larger than everything that was seen: a percentile is `null`, too, where the lost
/// share is as large as the share beyond it; `n`, `min`, `max` and `histogram` are of what was seen, and `mean` and `stddev` are `null` where
/// something was lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples.
    pub n: u64,
    /// Smallest.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// 99.99th percentile.
    pub p99_99: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// 95 % confidence intervals.
    pub ci95: Ci95,
    /// The worth of the samples; none in files of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<Effective>,
    /// HdrHistogram, V2 encoding, base64. Its counts are weights: every slice has the same sum.
    pub histogram: String,
}

/// The worth of the samples of a distribution: slices count alike, and slices that follow each other are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    /// Share of the distribution that its ten largest samples hold.
    pub largest_ten: f64,
    /// Correlation of what a slice says of the median with what the next one says, 0 if it is not positive.
    pub correlation: f64,
    /// Independent slices that would say as much.
    pub slices: f64,
    /// Independent samples that would give the interval of the median.
    pub p50: Option<f64>,
    /// Independent samples that would give the interval of the 99th percentile.
    pub p99: Option<f64>,
}

/// A group of slices whose medians lie apart from those of the others by a factor of 1.5 or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Slices in it.
    pub slices: u64,
    /// Their share of all slices: as slices last equally long, the share of the time.
    pub share: f64,
    /// The median of their medians.
    pub p50: f64,
    /// Share of them that ended with both ends on one CPU; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_cpu: Option<f64>,
}

/// 95 % confidence intervals, `[low, high]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ci95 {
    /// Of the median.
    pub p50: Option<[f64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile.
    #[serde(default)]
    pub p99_9: Option<[f64; 2]>,
    /// Of the mean.
    #[serde(default)]
    pub mean: Option<[f64; 2]>,
}

/// Results of a rate sweep, a paced slice or a stream besides the latency of its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateDetail {
    /// Messages sent.
    pub sent: u64,
    /// Messages received, duplicates not counted.
    pub received: u64,
    /// Of `open-loop`: messages per second that were due. Of random arrivals they differ from those asked for.
    #[serde(default)]
    pub rate_due: f64,
    /// Messages per second that left the sender.
    pub rate_sent: f64,
    /// Runs of one or more missing sequence numbers.
    pub gaps: u64,
    /// Messages that came twice.
    pub duplicates: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// One message in this many was reflected; 0 where none was.
    pub reflect_every: u64,
    /// Messages that were due at the same time and left together, by one call where the path has one; 0 and 1: each by itself.
    #[serde(default, skip_serializing_if = "is_single")]
    pub batch: u32,
    /// Latency from the moment each sample actually left (the row itself counts from when it was due).
    pub from_actual_send: Distribution,
    /// The delay of each sampled message from its due time to its departure.
    pub send_lateness: Distribution,
    /// Of `open-loop`: messages that left more than 10 us after they were due.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Of `open-loop`: messages that were due and could not leave until 200 ms after their slice; they are among those lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsent: u64,
    /// Of `open-loop`: answers to no message that was sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Of `open-loop`: `constant` or `poisson`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arrival: String,
    /// Of `poisson`: the seed of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_single(batch: &u32) -> bool {
    *batch <= 1
}
