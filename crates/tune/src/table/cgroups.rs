//! Limits of control groups: of the programs that are pinned to hot CPUs, or of this one if there is none.

use super::ROW;
use super::isolation::status;
use crate::check::{Check, Effect, Group, Read, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::Reading;
use crate::scope::Scope;
use std::collections::BTreeSet;

/// The most groups that are read; a program has about four above it.
const GROUPS_MAX: usize = 256;

const NO_GROUPS: &str = "no control groups of version 2, or the group is not limited by this controller";
const NO_LIMIT: &str = "the root group, which has no limit";

const ROW_HERE: Check =
    Check { group: Group::Isolation, effect: Effect::Stalls, set: Set::Service, absent: NO_GROUPS, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "cgroup-cpu-limit",
        title: "CPU time that a group may use",
        read: Read::Derived(
            "cpu.max of the groups of programs pinned to hot CPUs (else of this program), and those above",
            limit,
        ),
        why: "A group that has used up its quota stands still for the rest of the period, 100 ms by default: a polling thread does \
              so in every period.",
        source: "Linux admin-guide/cgroup-v2 (cpu.max)",
        how: "systemctl set-property UNIT CPUQuota= ; in a container: no CPU limit, CPUs by cpuset instead",
        harm: "the program can use all the time of its CPUs",
        ..ROW_HERE
    },
    Check {
        id: "cgroup-throttled",
        title: "periods in which a group was stopped",
        read: Read::Derived("nr_throttled in cpu.stat of the same groups as cgroup-cpu-limit", throttled),
        why: "Each of them was a stall of up to a period. The count begins with the group.",
        source: "Linux admin-guide/cgroup-v2 (cpu.stat)",
        set: Set::Never,
        how: "remove the limit: cgroup-cpu-limit",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "cgroup-memory-max",
        title: "memory that a group may have at most, in bytes",
        read: Read::Derived("memory.max of the same groups as cgroup-cpu-limit", memory_max),
        why: "At it every allocation frees memory first, and where that is not enough a program of the group is killed. A fact: compare it with \
              what the program needs.",
        source: "Linux admin-guide/cgroup-v2 (memory.max)",
        set: Set::Never,
        how: "systemctl set-property UNIT MemoryMax=BYTES, well above what the program needs",
        ..ROW_HERE
    },
    Check {
        id: "cgroup-memory-high",
        title: "memory above which a group is slowed down, in bytes",
        read: Read::Derived("memory.high and memory.events of the same groups as cgroup-cpu-limit", memory),
        why: "Above it every allocation frees memory first, and sleeps for up to two seconds.",
        source: "Linux admin-guide/cgroup-v2 (memory.high); mm/memcontrol.c (MEMCG_MAX_HIGH_DELAY_JIFFIES)",
        how: "systemctl set-property UNIT MemoryHigh=infinity, and memory.max as the limit",
        harm: "the group can use more memory",
        ..ROW_HERE
    },
];

/// Returns the processes whose groups count, as in `/proc/PID`.
fn owners(scope: &Scope<'_>) -> Vec<String> {
    let pinned = |pid: u32| {
        let text = scope.text(&format!("proc:{pid}/status"));
        let cpus = status(&text, "Cpus_allowed_list").and_then(CpuSet::list).unwrap_or_default();
        pid != 2 && status(&text, "PPid") != Some("2") && !cpus.is_empty() && scope.cpus.hot.covers(&cpus)
    };
    let owners: Vec<String> =
        scope.tasks.iter().filter(|task| pinned(task.pid)).map(|task| task.pid.to_string()).collect();
    if owners.is_empty() { vec!["self".into()] } else { owners }
}

/// Returns the groups, those above them included, down to the root of this view, whose path is empty: in a cgroup namespace that
/// is the container's own group, which may be limited. Err if the controller belongs to version 1.
fn groups(scope: &Scope<'_>, controller: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for owner in owners(scope) {
        let membership = scope.text(&format!("proc:{owner}/cgroup"));
        let controllers =
            |line: &str| line.split(':').nth(1).map(|names| names.split(',').any(|one| one == controller));
        if membership.lines().any(|line| controllers(line) == Some(true)) {
            return Err(format!("the controller {controller} belongs to control groups of version 1 here"));
        }
        let Some(path) = membership.lines().find_map(|line| line.strip_prefix("0::/")) else { continue };
        let mut path = path.trim();
        while !path.is_empty() && found.len() < GROUPS_MAX {
            found.insert(path.to_owned());
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        found.insert(String::new());
    }
    Ok(found)
}

/// Returns a reading of each group that has one. The root group has no such file, and no limit: a program there reads `none`.
fn each(
    scope: &Scope<'_>,
    controller: &str,
    none: &str,
    of: impl Fn(&str) -> Option<Reading>,
) -> Result<Vec<Reading>, String> {
    let groups = groups(scope, controller)?;
    let subject = |path: &String| if path.is_empty() { "/".to_owned() } else { path.clone() };
    let readings = groups.iter().filter_map(|path| Some(Reading { subject: subject(path), ..of(path)? }));
    let readings: Vec<Reading> = readings.collect();
    let is_root = groups.len() == 1 && readings.is_empty();
    Ok(if is_root { vec![Reading::of("", none).shown(NO_LIMIT)] } else { readings })
}

fn file(scope: &Scope<'_>, path: &str, name: &str) -> String {
    let folder = Location::of("sys:fs/cgroup");
    let folder = if path.is_empty() { folder } else { folder.join(path) };
    scope.text(&folder.join(name).to_string())
}

/// Returns the number behind a word in a file of `word number` lines.
fn count<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::trim)
}

pub(super) fn limit(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    each(scope, "cpu", "none", |path| {
        let text = file(scope, path, "cpu.max");
        let (quota, period) = text.split_once(' ')?;
        match quota {
            "max" => Some(Reading::of("", "none")),
            _ => Some(Reading::of("", "limited").shown(format!("{quota} us of every {period} us"))),
        }
    })
}

fn throttled(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    each(scope, "cpu", "0", |path| Some(Reading::of("", count(&file(scope, path, "cpu.stat"), "nr_throttled")?)))
}

fn memory(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    each(scope, "memory", "none", |path| {
        let events = file(scope, path, "memory.events");
        let times = count(&events, "high").unwrap_or("0");
        let reading = bound(&file(scope, path, "memory.high"))?;
        let shown = reading.value.as_ref().ok().filter(|limit| *limit != "none");
        let shown = shown.map(|limit| format!("{limit}, reached {times} times"));
        Some(Reading { shown, ..reading })
    })
}

fn memory_max(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    each(scope, "memory", "none", |path| bound(&file(scope, path, "memory.max")))
}

/// Returns a bound of memory, `max` as none.
fn bound(text: &str) -> Option<Reading> {
    match text {
        "" => None,
        "max" => Some(Reading::of("", "none")),
        _ => Some(Reading::of("", text)),
    }
}
