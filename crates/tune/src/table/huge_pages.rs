//! Huge pages: the daemon that makes them, their sizes, those set aside.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const ROW_HERE: Check = Check {
    group: Group::Memory,
    effect: Effect::Stalls,
    absent: "the kernel is built without transparent huge pages",
    harm: "fewer huge pages",
    ..ROW
};
const FOLDER: &str = "sys:kernel/mm/transparent_hugepage";

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "mem-huge-daemon",
        title: "time between two scans of khugepaged, in ms",
        read: Read::Derived("transparent_hugepage/enabled, shmem_enabled and khugepaged/scan_sleep_millisecs", daemon),
        why: "The daemon copies pages into a huge one; whoever touches them meanwhile waits. It runs unless enabled is never, for memory \
              that asked by madvise(2) or for all; since Linux 6.13 also while shared memory may have huge pages. khugepaged/defrag=0 does not stop it: it then uses only memory that is free already.",
        source: "Linux admin-guide/mm/transhuge (khugepaged); mm/khugepaged.c",
        how: "echo 3600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs, or never to enabled",
        ..ROW_HERE
    },
    Check {
        id: "mem-huge-sizes",
        title: "transparent huge pages of each size",
        read: Read::Setting("sys:kernel/mm/transparent_hugepage/hugepages-*/enabled"),
        form: Form::Choice,
        absent: "the kernel has one size of them (before 6.8), or none",
        why: "Each size has a switch of its own, and always there holds whatever mem-huge-transparent says.",
        source: "Linux admin-guide/mm/transhuge (multi-size THP, 6.8)",
        how: "echo inherit > /sys/kernel/mm/transparent_hugepage/hugepages-SIZEkB/enabled",
        ..ROW_HERE
    },
    Check {
        id: "mem-huge-shmem",
        title: "transparent huge pages of shared memory",
        read: Read::Derived("transparent_hugepage/shmem_enabled, and hugepages-*/shmem_enabled (6.11)", shared),
        form: Form::Choice,
        why: "Shared mappings and memfds, rings between processes among them, have a switch of their own, and one for each size. With \
              always or force a page fault there may stop to clear 2 MiB.",
        source: "Linux admin-guide/mm/transhuge (shmem_enabled)",
        how: "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled, and the same to hugepages-SIZEkB/shmem_enabled",
        ..ROW_HERE
    },
    Check {
        id: "mem-huge-gigantic",
        title: "huge pages of 1 GiB set aside, on each node",
        read: Read::Setting("sys:devices/system/node/{node}/hugepages/hugepages-1048576kB/nr_hugepages"),
        absent: "the CPU has no pages of 1 GiB (pdpe1gb)",
        why: "Large books and buffers miss the TLB least on them. They can hardly be had after the boot. A fact for comparing hosts.",
        source: "Linux admin-guide/mm/hugetlbpage; admin-guide/kernel-parameters (hugepagesz=)",
        effect: Effect::Fractions,
        set: Set::Boot("hugepagesz=1G hugepages=4"),
        how: "boot with hugepagesz=1G hugepages=N, where a program maps them",
        risk: Risk::Medium,
        harm: "memory that nothing else can use",
        ..ROW_HERE
    },
];

fn daemon(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let choice = |path: &str| scope.reading("", Location::of(&format!("{FOLDER}/{path}")), Form::Choice).value.ok();
    let sleep = scope.reading("", Location::of(&format!("{FOLDER}/khugepaged/scan_sleep_millisecs")), Form::Text);
    let sizes = scope.expand("sys:kernel/mm/transparent_hugepage/hugepages-*/enabled", Form::Choice)?;
    let is_on = |value: &str| matches!(value, "always" | "madvise");
    let some_size = sizes.iter().any(|size| size.value.as_deref().is_ok_and(is_on));
    let shares = scope.is_since((6, 13)) && shares(&shared(scope)?);
    Ok(vec![match choice("enabled").as_deref() {
        Some("never") if !some_size && !shares => Reading::of("", "stopped").shown("it does not run: enabled is never"),
        Some(whose) => {
            let whose = match whose {
                "always" => "all memory",
                "never" if !some_size => "shared memory",
                _ => "memory that asked",
            };
            let shown = sleep.value.as_ref().ok().map(|sleep| format!("{sleep}, {whose}"));
            Reading { shown, ..sleep }
        }
        None => sleep,
    }])
}

/// Returns the switch of shared memory, and that of each size.
fn shared(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let whole = scope.expand("sys:kernel/mm/transparent_hugepage/shmem_enabled", Form::Choice)?;
    let sizes = scope.expand("sys:kernel/mm/transparent_hugepage/hugepages-*/shmem_enabled", Form::Choice)?;
    Ok(whole.into_iter().chain(sizes).collect())
}

/// Returns whether shared memory may have pages of 2 MiB (mm/shmem.c, `shmem_hpage_pmd_enabled`).
fn shares(switches: &[Reading]) -> bool {
    let of = |subject: &str| switches.iter().find(|one| one.subject == subject)?.value.as_deref().ok();
    let (whole, size) = (of("").unwrap_or("never"), of("hugepages-2048kB").unwrap_or("inherit"));
    match (whole, size) {
        ("deny", _) => false,
        (_, "always" | "advise" | "within_size") => true,
        (whole, "inherit") => whole != "never",
        _ => false,
    }
}
