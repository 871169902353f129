//! Every host against one of them, or against a result, by the rules of `compare`.

use super::files::Found;
use super::rows::RowOfHosts;
use super::run::{RowReading, Run};
use crate::compare::difference::{Difference, holm};
use crate::compare::statistic::Reading;
use crate::compare::{Compared, Statistic, Verdict, pair, several};
use sidestep_report::json;
use sidestep_sys::Problem;
use std::collections::HashMap;
use std::path::Path;

/// The side that all are compared with.
pub(super) struct Baseline {
    pub(super) name: String,
}

/// Finds the host of this name, or reads the result file.
pub(super) fn find(found: &mut Found, name: &str) -> Result<Baseline, Problem> {
    if found.hosts().contains(&name) {
        return Ok(Baseline { name: name.to_owned() });
    }
    if !Path::new(name).exists() {
        let hosts = found.hosts();
        let some = hosts.iter().take(10).copied().collect::<Vec<_>>().join(", ");
        let more = if hosts.len() > 10 { format!(" and {} more", hosts.len() - 10) } else { String::new() };
        return Err(Problem::usage(format!("cannot compare with {name}"), "there is no such host and no such file")
            .next(format!("choose from: {some}{more}")));
    }
    let document = json::read(Path::new(name))?;
    let run = Run::of(&document, Some(name), name, &mut found.names);
    found.runs.push(Run { is_reference: true, ..run });
    Ok(Baseline { name: name.to_owned() })
}

/// The runs of one side that have a statistic.
struct SideOfRow<'r> {
    readings: Vec<&'r RowReading>,
    runs: usize,
}

impl SideOfRow<'_> {
    /// None where a run lacks it, as in `compare`.
    fn values(&self) -> Option<Vec<Reading>> {
        if self.readings.len() < self.runs {
            return None;
        }
        self.readings.iter().map(|reading| reading.reading).collect()
    }
}

impl Baseline {
    /// Compares each host in each row; corrected for all of them together.
    pub(super) fn compare(&self, found: &Found, rows: &mut [RowOfHosts]) {
        let mut runs_of: HashMap<&str, Vec<&Run>> = HashMap::new();
        let is_reference = found.runs.iter().any(|run| run.is_reference);
        let own: Vec<&Run> =
            found.runs.iter().filter(|run| run.host == self.name && run.is_reference == is_reference).collect();
        found.members().for_each(|run| runs_of.entry(&run.host).or_default().push(run));
        // Between a run and itself there is no difference.
        runs_of.retain(|_, runs| !runs.iter().any(|run| own.iter().any(|one| one.fingerprint == run.fingerprint)));
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        found.statistics().for_each(|(number, _)| {
            numbers.insert(found.names.name(number), number);
        });
        let mut all = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            let Some(number) = numbers.get(row.row.as_str()) else { continue };
            let before = side(&own, *number, row.statistic);
            for (at, host) in row.hosts.iter().enumerate() {
                let Some(runs) = runs_of.get(host.host.as_str()) else { continue };
                let after = side(runs, *number, row.statistic);
                if let Some(difference) = difference(row.statistic, &before, &after) {
                    all.push((place, at, difference));
                }
            }
        }
        let p_values: Vec<f64> = all.iter().map(|(_, _, difference)| difference.p_value()).collect();
        for ((place, at, difference), p_value) in all.iter().zip(holm(&p_values)) {
            let row = &mut rows[*place];
            let compared = compared(&row.row, row.statistic, difference, p_value, all.len());
            row.hosts[*at].against_baseline = Some(compared);
        }
    }
}

fn side<'r>(runs: &[&'r Run], row: usize, statistic: Statistic) -> SideOfRow<'r> {
    let is_it = |reading: &&RowReading| reading.row == row && reading.statistic == statistic;
    SideOfRow { readings: runs.iter().flat_map(|run| run.readings.iter().filter(is_it)).collect(), runs: runs.len() }
}

fn difference(statistic: Statistic, before: &SideOfRow<'_>, after: &SideOfRow<'_>) -> Option<Difference> {
    let (one, other) = (before.values()?, after.values()?);
    // What the machines themselves differ by is no noise here: it is part of the question.
    let change = 0.0;
    match (one.as_slice(), other.as_slice()) {
        ([], _) | (_, []) => None,
        ([one], [other]) => {
            let controls = [before.readings[0].control, after.readings[0].control];
            Some(pair::of_readings(statistic, [*one, *other], controls, change))
        }
        (one, other) => several::of_readings(statistic, one, other, change),
    }
}

fn compared(row: &str, statistic: Statistic, difference: &Difference, p_value: f64, tests: usize) -> Compared {
    let (ratio, ci95) = difference.ratio();
    let detectable = difference.detectable(tests);
    Compared {
        row: row.to_owned(),
        statistic,
        before: None,
        after: None,
        ratio: Some(ratio),
        ci95: Some(ci95),
        noise_floor: Some(difference.floor.exp_m1()),
        p_value: Some(p_value),
        detectable: Some(detectable),
        verdict: difference.verdict(p_value, detectable, statistic.is_gain()),
    }
}

impl Verdict {
    /// Returns whether it says something.
    pub(super) fn is_judged(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::NoMeasurableDifference)
    }
}
