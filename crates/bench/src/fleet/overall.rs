//! A host over all of its rows: the median of its distances from the others. One slow row of many does not make a slow host, and a host
//! that is a little slower in every row is seen, though it is in none.

use super::files::Found;
use super::outlier::{HOSTS_MIN, Rule, Standing};
use super::rows::{self, Estimate, RowOfHosts};
use crate::compare::difference::holm;
use crate::compare::{Statistic, middle};
use serde::Serialize;

/// The statistics that hosts are judged by as a whole.
const JUDGED: [Statistic; 2] = [Statistic::P50, Statistic::P99];

/// A host over all of its rows.
#[derive(Debug, Serialize)]
pub struct Overall {
    /// The host.
    pub host: String,
    /// Its runs.
    pub runs: usize,
    /// Its figures: p50, p99.
    pub figures: Vec<Figure>,
    /// The shortest system call, ns: the median of its runs.
    pub syscall_ns: Option<f64>,
    /// A cache line to the other CPU and back, ns.
    pub cache_line_ns: Option<f64>,
}

/// One statistic of a host over all of its rows.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// The statistic.
    pub statistic: Statistic,
    /// The rows that enough hosts have, this one among them.
    pub rows: usize,
    /// The median over those rows of the value over the median of the hosts.
    pub factor: Option<f64>,
    /// Probability of such a distance in a fleet of equal hosts, corrected for hosts and statistics (Holm).
    pub p_value: Option<f64>,
    /// A host that differs by this share in all rows would be found in four of five such fleets.
    pub detectable: Option<f64>,
    /// The standing.
    pub standing: Standing,
}

/// Judges every host, the slowest first.
pub(super) fn of(found: &Found, rows: &[RowOfHosts]) -> Vec<Overall> {
    let names = found.hosts();
    let estimates: Vec<Vec<(Option<Estimate>, usize)>> =
        JUDGED.iter().map(|statistic| over_rows(&names, rows, *statistic)).collect();
    let known = |of: &[(Option<Estimate>, usize)]| of.iter().filter_map(|(estimate, _)| *estimate).collect::<Vec<_>>();
    let rules: Vec<Option<Rule>> = estimates.iter().map(|of| Rule::of(&known(of))).collect();
    let p_values: Vec<f64> = estimates
        .iter()
        .zip(&rules)
        .filter_map(|(of, rule)| Some((of, (*rule)?)))
        .flat_map(|(of, rule)| known(of).into_iter().map(move |host| rule.p_value(&host)).collect::<Vec<_>>())
        .collect();
    let mut corrected = holm(&p_values).into_iter();
    let mut hosts: Vec<Overall> = names.iter().map(|host| without_figures(found, host)).collect();
    for ((statistic, of), rule) in JUDGED.iter().zip(&estimates).zip(&rules) {
        for (host, (estimate, rows)) in hosts.iter_mut().zip(of) {
            let judged = rule.zip(*estimate).and_then(|both| Some((both, corrected.next()?)));
            host.figures.push(figure(*statistic, (*estimate, *rows), judged, p_values.len()));
        }
    }
    let slowness = |host: &Overall| host.figures.iter().find_map(|figure| figure.factor).unwrap_or(0.0);
    hosts.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
    hosts
}

fn without_figures(found: &Found, host: &str) -> Overall {
    Overall {
        host: host.to_owned(),
        runs: found.members().filter(|run| run.host == host).count(),
        figures: Vec::new(),
        syscall_ns: rows::yardstick(found, host, |yardstick| yardstick.syscall_ns),
        cache_line_ns: rows::yardstick(found, host, |yardstick| yardstick.cache_line_ns),
    }
}

fn figure(
    statistic: Statistic,
    (estimate, rows): (Option<Estimate>, usize),
    judged: Option<((Rule, Estimate), f64)>,
    tests: usize,
) -> Figure {
    let detectable = judged.map(|((rule, _), _)| rule.detectable(tests));
    let standing = match judged {
        Some(((rule, host), p_value)) => rule.standing(&host, p_value, detectable.unwrap_or(f64::INFINITY), false),
        None if estimate.is_some() => Standing::TooFewHosts,
        None => Standing::NotEnoughData,
    };
    let factor = estimate.map(|host| host.log.exp());
    Figure { statistic, rows, factor, p_value: judged.map(|(_, p_value)| p_value), detectable, standing }
}

/// The median over the rows of the distances of each host, and the number of the rows. A host needs half of the rows that the host
/// with the most has; its error is the median of those of its rows: what disturbs a host is in all of them.
fn over_rows(names: &[&str], rows: &[RowOfHosts], statistic: Statistic) -> Vec<(Option<Estimate>, usize)> {
    let counted = |row: &&RowOfHosts| {
        row.statistic == statistic && row.hosts.iter().filter(|host| host.estimate.is_some()).count() >= HOSTS_MIN
    };
    let enough: Vec<&RowOfHosts> = rows.iter().filter(counted).collect();
    let centres: Vec<f64> = enough.iter().map(|row| centre(row)).collect();
    let mut of_hosts: std::collections::HashMap<&str, Vec<Estimate>> = std::collections::HashMap::new();
    for (row, centre) in enough.iter().zip(centres) {
        for host in &row.hosts {
            if let Some(estimate) = host.estimate {
                let distance = Estimate { log: estimate.log - centre, ..estimate };
                of_hosts.entry(&host.host).or_default().push(distance);
            }
        }
    }
    let most = of_hosts.values().map(Vec::len).max().unwrap_or(0);
    let of = |name: &&str| {
        let all = of_hosts.get(*name).map(Vec::as_slice).unwrap_or_default();
        (if 2 * all.len() >= most { median_of(all) } else { None }, all.len())
    };
    names.iter().map(of).collect()
}

fn centre(row: &RowOfHosts) -> f64 {
    middle(row.hosts.iter().filter_map(|host| host.estimate).map(|host| host.log).collect()).unwrap_or(0.0)
}

fn median_of(all: &[Estimate]) -> Option<Estimate> {
    let of = |part: fn(&Estimate) -> f64| middle(all.iter().map(part).collect());
    Some(Estimate {
        log: of(|host| host.log)?,
        error: of(|host| host.error)?,
        freedom: of(|host| host.freedom)?,
        floor: of(|host| host.floor)?,
    })
}
