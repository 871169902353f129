//! The runs of every host put together, for each statistic of each row.

use super::files::Found;
use super::outlier::Standing;
use super::run::RowReading;
use crate::compare::several::FLOOR_OF_SEVERAL_RUNS;
use crate::compare::statistic::Reading;
use crate::compare::{Compared, Statistic, middle};
use crate::stats::student;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A statistic of a row, on every host that has it.
#[derive(Debug, Serialize)]
pub struct RowOfHosts {
    /// Name of the row, with the place ("rr tcp kernel-spin 64 B, lab").
    pub row: String,
    /// The statistic.
    pub statistic: Statistic,
    /// The median of the hosts, and by how much hosts differ; none where no host has enough of it.
    pub spread: Option<Spread>,
    /// The hosts, the lowest value first; those without one at the end.
    pub hosts: Vec<HostValue>,
}

/// The middle of the hosts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The median of the hosts: nanoseconds, or per second.
    pub median: f64,
    /// The share by which a host differs from it, by the median of the distances (1.48 MAD of the logarithms).
    pub deviation: f64,
    /// A host that differs by this share would be found in four of five such fleets; none where there are too few hosts.
    pub detectable: Option<f64>,
}

/// The statistic on one host.
#[derive(Debug, Serialize)]
pub struct HostValue {
    /// The host.
    pub host: String,
    /// Its runs that have it.
    pub runs: usize,
    /// Its value, of several runs the geometric mean; none where a run has too little of it.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// The value over the median of the hosts.
    pub factor: Option<f64>,
    /// Probability of such a distance in a fleet of equal hosts, corrected for all that is judged (Holm).
    pub p_value: Option<f64>,
    /// Its standing among the hosts.
    pub standing: Standing,
    /// The comparison with the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_baseline: Option<Compared>,
    #[serde(skip)]
    pub(super) estimate: Option<Estimate>,
}

/// What all runs of a host say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) log: f64,
    /// Its standard error.
    pub(super) error: f64,
    pub(super) freedom: f64,
    /// Differences of logarithms up to this are noise.
    pub(super) floor: f64,
}

/// Puts the runs of the hosts together.
pub(super) fn of(found: &Found) -> Vec<RowOfHosts> {
    let mut by_row: BTreeMap<(usize, usize), BTreeMap<&str, Vec<&RowReading>>> = BTreeMap::new();
    for run in found.members() {
        for reading in &run.readings {
            let of_row = by_row.entry((reading.row, reading.statistic as usize)).or_default();
            of_row.entry(&run.host).or_default().push(reading);
        }
    }
    by_row.into_iter().map(|((number, _), hosts)| row(found.names.name(number), &hosts)).collect()
}

fn row(name: &str, readings: &BTreeMap<&str, Vec<&RowReading>>) -> RowOfHosts {
    let statistic = readings.values().flatten().next().map_or(Statistic::P50, |reading| reading.statistic);
    let mut hosts: Vec<HostValue> = readings.iter().map(|(host, runs)| host_value(host, runs)).collect();
    hosts.sort_by(|a, b| {
        (a.value.is_none(), a.value.unwrap_or(0.0))
            .partial_cmp(&(b.value.is_none(), b.value.unwrap_or(0.0)))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    RowOfHosts { row: name.to_owned(), statistic, spread: None, hosts }
}

fn host_value(host: &str, runs: &[&RowReading]) -> HostValue {
    let estimate = estimate(runs);
    let values: Option<Vec<f64>> = runs.iter().map(|run| Some(run.reading?.value)).collect();
    let mean = |values: Vec<f64>| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp();
    let value = values.map(mean).filter(|value| estimate.is_some() && value.is_finite());
    let reach = estimate.map(|estimate| student::t95(estimate.freedom) * estimate.error);
    HostValue {
        host: host.to_owned(),
        runs: runs.len(),
        value,
        ci95: value.zip(reach).map(|(value, reach)| [value * (-reach).exp(), value * reach.exp()]),
        factor: None,
        p_value: None,
        standing: Standing::NotEnoughData,
        against_baseline: None,
        estimate,
    }
}

/// Of one run what it says itself; of several the mean of the logarithms, with the spread of the runs for its error, but no less than
/// theirs (as in `compare`).
fn estimate(runs: &[&RowReading]) -> Option<Estimate> {
    let readings: Vec<Reading> = runs.iter().map(|run| run.reading).collect::<Option<_>>()?;
    let statistic = runs.first()?.statistic;
    let own = |reading: &Reading| (reading.errors[0].powi(2) + reading.errors[1].powi(2)) / 2.0;
    if let [only] = readings.as_slice() {
        let control = runs[0].control.unwrap_or(0.0);
        let floor = control.max(statistic.floor_of_single_runs()).ln_1p();
        return Some(Estimate { log: only.log, error: own(only).sqrt(), freedom: only.freedom, floor });
    }
    let count = readings.len() as f64;
    let mean = readings.iter().map(|reading| reading.log).sum::<f64>() / count;
    let spread = readings.iter().map(|reading| (reading.log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let within = readings.iter().map(own).sum::<f64>() / count;
    let error = (spread.max(within) / count).sqrt();
    Some(Estimate { log: mean, error, freedom: count - 1.0, floor: FLOOR_OF_SEVERAL_RUNS.ln_1p() })
}

/// The median of a yardstick of each host.
pub(super) fn yardstick(
    found: &Found,
    host: &str,
    reading: fn(&sidestep_report::schema::Yardstick) -> Option<f64>,
) -> Option<f64> {
    middle(found.members().filter(|run| run.host == host).filter_map(|run| reading(&run.yardstick)).collect())
}

/// The facts that all runs of a host agree upon or not: each value that some run has.
pub(super) fn facts<'f>(found: &'f Found, host: &str) -> BTreeSet<&'f str> {
    found.members().filter(|run| run.host == host).flat_map(|run| run.facts.iter().map(String::as_str)).collect()
}
