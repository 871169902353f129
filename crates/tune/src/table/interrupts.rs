//! Interrupts, and the CPUs that they are delivered to.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Set};
use crate::cpus::CpuSet;
use crate::interrupts::{Row, affinity_of, table, vectors};
use crate::reading::{Form, Reading};
use crate::scope::{Interface, Scope};
use std::collections::{BTreeMap, BTreeSet};

const ROW_HERE: Check = Check { group: Group::Polling, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "irq-hot-queue",
        title: "an interrupt of the NIC on a hot CPU",
        read: Read::Derived("/proc/irq/N/smp_affinity_list of the interface's vectors", hot_queue),
        form: Form::List,
        absent: "the interface has no interrupt of its own",
        why: "On the CPU of the waiting thread, the packet is in its cache and no other CPU is woken: 45.4 instead of \
              50.1 us in the best case measured. A polling thread may do better with it on a neighbour: measure.",
        source: "Waskiewicz, Anatomy of Networking in HFT, benchmark 3",
        effect: Effect::Tens,
        how: "echo CPU > /proc/irq/N/smp_affinity_list",
        harm: "packets of other queues may be handled further away; an interrupt that the kernel manages cannot be moved",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "irq-others",
        title: "interrupts of other devices on hot CPUs",
        read: Read::Derived("/proc/irq/N/smp_affinity_list of every other interrupt that has come at all", others),
        form: Form::List,
        why: "A disk's or another NIC's interrupt takes the hot CPU away for microseconds, and its cache with it.",
        source: "tuned cpu-partitioning; Linux core-api/irq/irq-affinity",
        effect: Effect::Stalls,
        how: "echo HOUSEKEEPING > /proc/irq/N/smp_affinity_list",
        harm: "those devices are served by fewer CPUs",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "irq-default",
        title: "CPUs of new interrupts",
        read: Read::Setting("proc:irq/default_smp_affinity"),
        form: Form::Mask,
        why: "Interrupts of a device that is set up later start on these CPUs.",
        source: "Linux core-api/irq/irq-affinity",
        effect: Effect::Stalls,
        how: "echo MASK > /proc/irq/default_smp_affinity",
        harm: "none known",
        ..ROW_HERE
    },
    Check {
        id: "irq-local",
        title: "ticks and calls between CPUs on hot CPUs, per second since boot",
        read: Read::Derived("rows LOC, RES, CAL, TLB of /proc/interrupts, over /proc/uptime", local),
        absent: "the kernel does not count them (not x86), or not since when",
        why: "The remaining disturbance after isolation: timer ticks, reschedules, function calls, TLB shootdowns. An average since \
              boot, which holds what came before the CPUs were isolated, too.",
        source: "Linux filesystems/proc (interrupts)",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "iso-tick ends the ticks; fewer programs with threads on both sides the shootdowns",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "nic-rps",
        title: "packets handed to other CPUs by software",
        read: Read::Setting("sys:class/net/{interface}/queues/rx-*/rps_cpus"),
        form: Form::Mask,
        absent: "the kernel is built without RPS",
        why: "The CPU that took the interrupt passes the packet to another one: one more interrupt between CPUs.",
        source: "Linux networking/scaling",
        effect: Effect::Units,
        how: "echo 0 > /sys/class/net/IF/queues/rx-N/rps_cpus",
        harm: "one CPU does all the work of a queue",
        ..ROW_HERE
    },
    Check {
        id: "nic-xps",
        title: "a transmit queue for the hot CPU",
        read: Read::Derived("/sys/class/net/IF/queues/tx-N/xps_cpus", own_queue),
        absent: "one transmit queue, or a kernel without XPS",
        why: "A queue that several CPUs send on has a lock that they wait for.",
        source: "Linux networking/scaling",
        effect: Effect::Fractions,
        set: Set::Service,
        how: "echo MASK > /sys/class/net/IF/queues/tx-N/xps_cpus",
        harm: "the other CPUs share the other queues",
        ..ROW_HERE
    },
];

fn affinity(scope: &Scope<'_>, irq: u32, action: &str) -> Reading {
    let subject = if action.is_empty() { format!("irq {irq}") } else { format!("irq {irq} ({action})") };
    scope.reading(subject, affinity_of(irq), Form::List)
}

/// Interrupts that CPUs send to each other, or to themselves.
const LOCAL: [&str; 4] = ["LOC", "RES", "CAL", "TLB"];

fn local(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    let (interrupts, uptime) = (scope.text("proc:interrupts"), scope.text("proc:uptime"));
    let seconds = uptime.split('.').next().and_then(|whole| whole.parse::<u64>().ok()).filter(|seconds| *seconds > 0);
    let header = interrupts.lines().next().unwrap_or_default().split_whitespace();
    let columns: BTreeMap<&str, usize> = header.zip(0..).collect();
    let row = |kind: &&str| interrupts.lines().find_map(|line| line.trim_start().strip_prefix(kind)?.strip_prefix(':'));
    let rows: Vec<Vec<&str>> = LOCAL.iter().filter_map(row).map(|row| row.split_whitespace().collect()).collect();
    let rate = |cpu: u32, seconds: u64| {
        let column = *columns.get(format!("CPU{cpu}").as_str())?;
        let count = |row: &Vec<&str>| -> Option<u64> { row.get(column)?.parse().ok() };
        let counts: Vec<u64> = rows.iter().filter_map(count).collect();
        let total = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let rate = (total / seconds).to_string();
        (!counts.is_empty()).then(|| Reading::of(format!("cpu{cpu}"), rate))
    };
    let hot = scope.cpus.hot.iter();
    Ok(seconds.map(|seconds| hot.filter_map(|cpu| rate(cpu, seconds)).collect()).unwrap_or_default())
}

/// Returns for each interface the vector that is on hot CPUs already; if none is, the busiest one.
fn hot_queue(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    let interrupts = scope.text("proc:interrupts");
    let table = table(&interrupts);
    let is_hot = |reading: &Reading| {
        let set = reading.value.as_ref().ok().and_then(|value| CpuSet::list(value));
        set.is_some_and(|set| !set.is_empty() && scope.cpus.hot.covers(&set))
    };
    // Interfaces of one device have the same vectors: each is read once.
    let mut known: BTreeMap<u32, (Reading, bool)> = BTreeMap::new();
    let mut found = Vec::new();
    for interface in &scope.interfaces {
        let ours = vectors(scope.host, &interface.name, &table);
        let mut candidates: Vec<&Row<'_>> = ours.iter().filter_map(|irq| table.get(irq)).collect();
        candidates.sort_by_key(|row| std::cmp::Reverse(row.count));
        for row in &candidates {
            known.entry(row.irq).or_insert_with(|| {
                let reading = affinity(scope, row.irq, row.action);
                let is_hot = is_hot(&reading);
                (reading, is_hot)
            });
        }
        let of = |row: &&Row<'_>| known.get(&row.irq);
        let hot = candidates.iter().filter_map(of).find(|(_, is_hot)| *is_hot);
        found.extend(hot.or(candidates.first().and_then(of)).map(|(reading, _)| reading.clone()));
    }
    Ok(found)
}

/// Interrupt 0 of a PC: the timer's, which cannot be moved (IRQF_NOBALANCING).
const TIMER: u32 = 0;

fn others(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    let interrupts = scope.text("proc:interrupts");
    let table = table(&interrupts);
    let ours: BTreeSet<u32> =
        scope.interfaces.iter().flat_map(|interface| vectors(scope.host, &interface.name, &table)).collect();
    let theirs = table.values().filter(|row| row.count > 0 && row.irq != TIMER && !ours.contains(&row.irq));
    Ok(theirs.map(|row| affinity(scope, row.irq, row.action)).collect())
}

fn own_queue(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    let queues = scope.expand("sys:class/net/{interface}/queues/tx-*/xps_cpus", Form::Mask)?;
    let set = |reading: &Reading| reading.value.as_ref().ok().and_then(|value| CpuSet::list(value));
    let of = |interface: &Interface| {
        let prefix = format!("{} ", interface.name);
        let sets: Vec<CpuSet> = queues.iter().filter(|one| one.subject.starts_with(&prefix)).filter_map(set).collect();
        let serves = |set: &&CpuSet| set.touches(&scope.cpus.hot);
        let word = match sets.iter().filter(serves).collect::<Vec<_>>()[..] {
            [] => "none",
            ref some if some.iter().all(|set| scope.cpus.hot.covers(set)) => "own",
            _ => "shared",
        };
        (sets.len() > 1).then(|| Reading::of(&interface.name, word))
    };
    Ok(scope.interfaces.iter().filter_map(of).collect())
}
