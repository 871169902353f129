//! Limits of control groups: of the programs that are pinned to hot CPUs, or of this one if there is none.

use super::ROW;
use super::isolation::status;
use crate::check::{Check, Effect, Group, Read, Set};
use crate::cpus::CpuSet;
use crate::reading::Reading;
use crate::scope::Scope;
use std::collections::BTreeSet;

/// The most groups that are read; a program has about four above it.
const GROUPS_MAX: usize = 256;

const NO_GROUPS: &str = "no control groups of version 2, or the group is not limited by this controller";

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

/// Returns the groups, those above them included, without the root, which has no limits.
fn groups(scope: &Scope<'_>) -> Option<BTreeSet<String>> {
    let pinned = |pid: u32| {
        let text = scope.text(&format!("proc:{pid}/status"));
        let cpus = status(&text, "Cpus_allowed_list").and_then(CpuSet::list).unwrap_or_default();
        pid != 2 && status(&text, "PPid") != Some("2") && !cpus.is_empty() && scope.cpus.hot.covers(&cpus)
    };
    let mut owners: Vec<String> =
        scope.tasks.iter().filter(|task| pinned(task.pid)).map(|task| task.pid.to_string()).collect();
    if owners.is_empty() {
        owners.push("self".into());
    }
    let mut found = None;
    for owner in owners {
        let membership = scope.text(&format!("proc:{owner}/cgroup"));
        let Some(path) = membership.lines().find_map(|line| line.strip_prefix("0::/")) else { continue };
        let found = found.get_or_insert_with(BTreeSet::new);
        let mut path = path.trim();
        while !path.is_empty() && found.len() < GROUPS_MAX {
            found.insert(path.to_owned());
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    found
}

/// Returns a reading of each group that has one; a program in the root group has no limit.
fn each(scope: &Scope<'_>, none: &str, of: impl Fn(&str) -> Option<Reading>) -> Vec<Reading> {
    match groups(scope) {
        None => Vec::new(),
        Some(groups) if groups.is_empty() => vec![Reading::of("", none).shown("the root group, which has no limit")],
        Some(groups) => groups.iter().filter_map(|path| Some(Reading { subject: path.clone(), ..of(path)? })).collect(),
    }
}

fn file(scope: &Scope<'_>, path: &str, name: &str) -> String {
    scope.text(&format!("sys:fs/cgroup/{path}/{name}"))
}

/// Returns the number behind a word in a file of `word number` lines.
fn count<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::trim)
}

fn limit(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(each(scope, "none", |path| {
        let text = file(scope, path, "cpu.max");
        let (quota, period) = text.split_once(' ')?;
        match quota {
            "max" => Some(Reading::of("", "none")),
            _ => Some(Reading::of("", "limited").shown(format!("{quota} us of every {period} us"))),
        }
    }))
}

fn throttled(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(each(scope, "0", |path| Some(Reading::of("", count(&file(scope, path, "cpu.stat"), "nr_throttled")?))))
}

fn memory(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(each(scope, "none", |path| {
        let limit = file(scope, path, "memory.high");
        let events = file(scope, path, "memory.events");
        let times = count(&events, "high").unwrap_or("0");
        match limit.as_str() {
            "" => None,
            "max" => Some(Reading::of("", "none")),
            _ => Some(Reading::of("", &limit).shown(format!("{limit}, reached {times} times"))),
        }
    }))
}
