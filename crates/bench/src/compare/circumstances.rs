//! Differences in the circumstances of the runs, the machine's own speed among them.

use super::middle;
use crate::service_time::ServiceTime;
use sidestep_report::schema::{Document, Host, RateDetail, Setup, Yardstick};

/// The smallest change of the yardsticks that is reported.
const CHANGE_TOLD: f64 = 0.05;

/// Returns the share by which the machine itself was slower on one side, by its yardsticks: the median of the runs of
/// a side, so that a single disturbed run only widens the spread of that side.
pub(super) fn machine_change(before: &[Document], after: &[Document]) -> f64 {
    let changes = yardsticks(before, after).into_iter().filter_map(|(_, before, after)| {
        let (before, after) = (before?, after?);
        (before > 0.0 && after > 0.0).then(|| before.max(after) / before.min(after) - 1.0)
    });
    changes.filter(|change| change.is_finite()).fold(0.0, f64::max)
}

type Readings = (&'static str, Option<f64>, Option<f64>);

fn yardsticks(before: &[Document], after: &[Document]) -> [Readings; 2] {
    let of = |runs: &[Document], reading: fn(&Yardstick) -> Option<f64>| {
        middle(runs.iter().filter_map(|run| reading(&run.host.noise.yardstick)).collect())
    };
    let both = |reading| (of(before, reading), of(after, reading));
    let (syscalls, lines) = (both(|yardstick| yardstick.syscall_ns), both(|yardstick| yardstick.cache_line_ns));
    [("system call, ns", syscalls.0, syscalls.1), ("cache line between the CPUs and back, ns", lines.0, lines.1)]
}

/// Returns the differences in the circumstances of the two sides, and within one.
pub(super) fn differences(before: &[Document], after: &[Document]) -> Vec<String> {
    let changed = machine_change(before, after) > CHANGE_TOLD;
    let readings = yardsticks(before, after).into_iter().filter(|_| changed);
    let ns = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.0}"));
    let machine =
        readings.map(|(name, before, after)| format!("the machine itself, {name}: {} / {}", ns(before), ns(after)));
    circumstances(before, after).into_iter().chain(machine).chain(not_in_turn(before, after)).collect()
}

fn circumstances(before: &[Document], after: &[Document]) -> Vec<String> {
    let of = |runs: &[Document]| runs.iter().map(facts).collect::<Vec<_>>();
    let (before, after) = (of(before), of(after));
    let Some(names) = before.iter().chain(&after).next() else { return Vec::new() };
    let line = |(place, (name, _)): (usize, &(&str, String))| {
        let (one, other) = (values(&before, place), values(&after, place));
        (one != other || one.len() > 1).then(|| format!("{name}: {} / {}", one.join(", "), other.join(", ")))
    };
    names.iter().enumerate().filter_map(line).collect()
}

/// Returns the values of one fact in the runs of a side, each once.
fn values(runs: &[Vec<(&'static str, String)>], place: usize) -> Vec<String> {
    let mut values: Vec<String> = runs.iter().filter_map(|facts| Some(facts.get(place)?.1.clone())).collect();
    values.sort();
    values.dedup();
    values
}

/// Returns a warning if all runs of one side are older: changes over time are then differences between the sides.
fn not_in_turn(before: &[Document], after: &[Document]) -> Option<String> {
    // RFC 3339 in UTC sorts as text; a foreign file may have no time.
    let times = |runs: &'_ [Document]| runs.iter().map(|run| run.started.clone()).collect::<Vec<String>>();
    let (before, after) = (times(before), times(after));
    let is_several = before.len() > 1 && after.len() > 1;
    let is_known = before.iter().chain(&after).all(|time| !time.is_empty());
    let is_apart = before.iter().max() < after.iter().min() || after.iter().max() < before.iter().min();
    (is_several && is_known && is_apart)
        .then(|| "time: the runs of one side came after all of the other's; take them in turn".to_owned())
}

pub(crate) fn facts(run: &Document) -> Vec<(&'static str, String)> {
    let of_rates = |fact: fn(&RateDetail) -> Option<String>| {
        let mut all: Vec<String> = run.results.iter().filter_map(|row| fact(row.rate.as_ref()?)).collect();
        all.sort();
        all.dedup();
        all.join(" and ")
    };
    let version = [
        ("version", run.tool.version.clone()),
        ("seed of arrivals", of_rates(|rate| rate.seed.map(|seed| seed.to_string()))),
        ("one message reflected in", of_rates(|rate| (rate.reflect_every > 1).then(|| rate.reflect_every.to_string()))),
    ];
    version.into_iter().chain(host_facts(&run.host)).chain(setup_facts(&run.setup)).collect()
}

fn host_facts(host: &Host) -> [(&'static str, String); 9] {
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

fn service_time(setup: &Setup) -> String {
    let (each_ns, longer_ns, every) = (setup.service_time_ns, setup.service_longer_ns, setup.service_longer_every);
    ServiceTime { each_ns, every, longer_ns }.to_string()
}

fn setup_facts(setup: &Setup) -> [(&'static str, String); 8] {
    let cpu = |cpu: Option<u32>| cpu.map_or_else(String::new, |cpu| cpu.to_string());
    [
        ("place", setup.place.clone()),
        ("interface", setup.interface.clone()),
        ("measuring CPU", cpu(setup.client_cpu)),
        ("peer's CPU", cpu(setup.server_cpu)),
        ("service time", service_time(setup)),
        // Older documents do not have it: they had one queue.
        ("queues", setup.queues.max(1).to_string()),
        ("MTU", if setup.mtu > 0 { setup.mtu.to_string() } else { "not reported".into() }),
        ("wire", setup.wire.clone().unwrap_or_default()),
    ]
}
