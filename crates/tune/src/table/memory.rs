//! Pages: settings that make single memory accesses slow.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const ROW_HERE: Check = Check { group: Group::Memory, effect: Effect::Stalls, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "mem-huge-transparent",
        title: "transparent huge pages",
        read: Read::Setting("sys:kernel/mm/transparent_hugepage/enabled"),
        form: Form::Choice,
        absent: "the kernel is built without transparent huge pages",
        why: "With always, any page fault may stop to clear 2 MiB, and a daemon moves pages that are in use.",
        source: "tuned network-latency; Linux admin-guide/mm/transhuge",
        how: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        harm: "programs that live of huge pages without asking are slower",
        ..ROW_HERE
    },
    Check {
        id: "mem-huge-defrag",
        title: "compaction while a page fault waits",
        read: Read::Setting("sys:kernel/mm/transparent_hugepage/defrag"),
        form: Form::Choice,
        absent: "the kernel is built without transparent huge pages",
        why: "With always, a fault waits until memory has been moved together.",
        source: "Linux admin-guide/mm/transhuge",
        how: "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        harm: "fewer huge pages",
        ..ROW_HERE
    },
    Check {
        id: "mem-huge-pages",
        title: "huge pages set aside, on each node",
        read: Read::Setting("sys:devices/system/node/{node}/hugepages/hugepages-2048kB/nr_hugepages"),
        absent: "no huge pages of 2 MiB here",
        why: "Rings and packet memory on huge pages miss the TLB less. Set aside early, before memory is in pieces. How many are right is the \
              program's matter: only what it maps is used.",
        source: "Linux admin-guide/mm/hugetlbpage",
        effect: Effect::Fractions,
        set: Set::Service,
        how: "echo N > /sys/devices/system/node/nodeN/hugepages/hugepages-2048kB/nr_hugepages, as many as the program maps there",
        risk: Risk::Medium,
        harm: "memory that nothing else can use",
        ..ROW_HERE
    },
    Check {
        id: "mem-numa-balancing",
        title: "automatic NUMA balancing",
        read: Read::Setting("proc:sys/kernel/numa_balancing"),
        absent: "the kernel is built without NUMA balancing",
        why: "It unmaps pages to see who touches them: each touch is a page fault, also of memory that is bound already.",
        source: "tuned network-latency; Linux admin-guide/sysctl/kernel",
        how: "sysctl kernel.numa_balancing=0",
        harm: "programs that are not bound to a node may use remote memory",
        ..ROW_HERE
    },
    Check {
        id: "mem-swap",
        title: "swap space in use",
        read: Read::Derived("/proc/swaps", swaps),
        why: "A page that was swapped out comes back from a disk: milliseconds.",
        source: "rigtorp.se/low-latency-guide",
        set: Set::Service,
        how: "swapoff -a, or lock the program's memory (sidestep tune run does)",
        risk: Risk::High,
        harm: "where memory runs out, programs are killed",
        dangerous: true,
        ..ROW_HERE
    },
    Check {
        id: "mem-swappiness",
        title: "inclination to swap",
        read: Read::Setting("proc:sys/vm/swappiness"),
        absent: "the kernel is built without swap",
        why: "A high value moves memory of programs to disk in favour of cached files.",
        source: "tuned latency-performance; Linux admin-guide/sysctl/vm",
        how: "sysctl vm.swappiness=10",
        harm: "fewer files stay cached",
        ..ROW_HERE
    },
    Check {
        id: "mem-compaction",
        title: "compaction ahead of need",
        read: Read::Setting("proc:sys/vm/compaction_proactiveness"),
        absent: "the kernel does not compact ahead of need",
        why: "The kernel's documents themselves warn of latency spikes from it.",
        source: "Linux admin-guide/sysctl/vm (default 20)",
        how: "sysctl vm.compaction_proactiveness=0",
        harm: "fewer huge pages to be had later",
        ..ROW_HERE
    },
    Check {
        id: "mem-compact-locked",
        title: "compaction of locked pages",
        read: Read::Setting("proc:sys/vm/compact_unevictable_allowed"),
        absent: "the kernel does not compact memory",
        why: "Locked memory does not leave, but it may be moved: a fault while it is.",
        source: "Linux admin-guide/sysctl/vm (default 1)",
        how: "sysctl vm.compact_unevictable_allowed=0",
        harm: "fewer huge pages to be had later",
        ..ROW_HERE
    },
    Check {
        id: "mem-same-page",
        title: "merging of equal pages",
        read: Read::Setting("sys:kernel/mm/ksm/run"),
        absent: "the kernel is built without KSM",
        why: "A merged page is copied again at the first write to it, and a daemon compares pages all the time.",
        source: "rigtorp.se/low-latency-guide; Linux admin-guide/mm/ksm",
        how: "echo 0 > /sys/kernel/mm/ksm/run (2 also unmerges)",
        harm: "virtual machines on this host need more memory",
        ..ROW_HERE
    },
    Check {
        id: "mem-zone-reclaim",
        title: "reclaim before another node is asked",
        read: Read::Setting("proc:sys/vm/zone_reclaim_mode"),
        absent: "the kernel is built without NUMA",
        why: "An allocation frees pages of its own node first, while the caller waits.",
        source: "Linux admin-guide/sysctl/vm",
        how: "sysctl vm.zone_reclaim_mode=0",
        harm: "some memory may come from another node",
        ..ROW_HERE
    },
    Check {
        id: "mem-min-free",
        title: "memory kept free, in tenths of a percent",
        read: Read::Derived("vm.min_free_kbytes against MemTotal of /proc/meminfo", min_free),
        why: "The interrupt cannot wait for memory: when this reserve is gone, received packets are dropped.",
        source: "AWS ENA best practices (1 to 3 % of memory); Linux admin-guide/sysctl/vm",
        set: Set::Service,
        how: "sysctl vm.min_free_kbytes=$(awk '/MemTotal/ { print int($2 / 100) }' /proc/meminfo)   # 1 %",
        harm: "less memory for programs; too much of it makes the kernel kill them",
        risk: Risk::Medium,
        ..ROW_HERE
    },
    Check {
        id: "mem-watermark-boost",
        title: "reclaim boosted by fragmentation",
        read: Read::Setting("proc:sys/vm/watermark_boost_factor"),
        why: "When pages of different kinds mix, the kernel reclaims more than is asked for.",
        source: "Linux admin-guide/sysctl/vm (default 15000)",
        how: "sysctl vm.watermark_boost_factor=0",
        harm: "memory is in more pieces",
        ..ROW_HERE
    },
    Check {
        id: "mem-dirty-background",
        title: "dirty memory before write-back begins, in percent",
        read: Read::Derived(
            "vm.dirty_background_bytes against MemTotal, or vm.dirty_background_ratio if that is 0",
            dirty,
        ),
        why: "Much at once is a storm; little and often is not. Where the host writes files at all. Of the two settings the one \
              that is not 0 counts.",
        source: "tuned latency-performance (3 %); Linux admin-guide/sysctl/vm (dirty_background_bytes)",
        how: "sysctl vm.dirty_background_ratio=3",
        harm: "more writes to disks",
        ..ROW_HERE
    },
    Check {
        id: "mem-lock-limit",
        title: "memory that a program may lock",
        read: Read::Derived("Max locked memory in /proc/self/limits", lock_limit),
        why: "A program that cannot lock its memory meets page faults later.",
        source: "mlock(2), getrlimit(2)",
        set: Set::Service,
        how: "memlock unlimited in /etc/security/limits.d/, or LimitMEMLOCK=infinity in the unit",
        harm: "a program can take all memory",
        ..ROW_HERE
    },
    Check {
        id: "mem-cache-partition",
        title: "partitions of the last-level cache",
        read: Read::Derived("/sys/fs/resctrl", cache_partition),
        absent: "resctrl is not mounted, or the CPU has no such thing",
        why: "A neighbour that streams through the cache evicts what the hot thread needs. A fact for comparing hosts.",
        source: "Linux filesystems/resctrl",
        effect: Effect::Units,
        set: Set::Never,
        how: "mount -t resctrl resctrl /sys/fs/resctrl, give the hot CPUs a group with ways of their own, and measure",
        ..ROW_HERE
    },
];

fn swaps(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let Ok(text) = scope.host.read(&Location::of("proc:swaps")) else { return Ok(vec![Reading::of("", "none")]) };
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).take(8).collect();
    Ok(vec![Reading::of("", if names.is_empty() { "none".to_owned() } else { names.join(", ") })])
}

fn dirty(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let bytes: u128 = scope.text("proc:sys/vm/dirty_background_bytes").parse().unwrap_or_default();
    let total_kib = total_kib(scope).filter(|_| bytes > 0);
    Ok(vec![match total_kib {
        None => scope.reading("", Location::of("proc:sys/vm/dirty_background_ratio"), Form::Text),
        Some(total_kib) => {
            let percent = (bytes * 100).div_ceil(total_kib.max(1) * 1024);
            let shown = format!("{percent}, as {} MiB (dirty_background_bytes)", bytes >> 20);
            Reading::of("", percent.to_string()).shown(shown)
        }
    }])
}

/// Returns MemTotal of /proc/meminfo.
fn total_kib(scope: &Scope<'_>) -> Option<u128> {
    let info = scope.text("proc:meminfo");
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim();
    total.split_whitespace().next()?.parse().ok()
}

fn min_free(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let free_kib: Option<u128> = scope.text("proc:sys/vm/min_free_kbytes").parse().ok();
    let reading = free_kib.zip(total_kib(scope)).map(|(free_kib, total_kib)| {
        let permille = (free_kib * 1000 / total_kib.max(1)).to_string();
        Reading::of("", permille).shown(format!("{} MiB of {} MiB", free_kib / 1024, total_kib / 1024))
    });
    Ok(reading.into_iter().collect())
}

fn lock_limit(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let limits = scope.text("proc:self/limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    Ok(line.and_then(|line| line.split_whitespace().next()).map(|soft| Reading::of("", soft)).into_iter().collect())
}

fn cache_partition(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let schemata = scope.text("sys:fs/resctrl/schemata");
    Ok(schemata.lines().take(8).map(|line| Reading::of("", line.trim())).collect())
}
