//! Other work on the hot CPUs, as far as it can be moved at run time.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{self, Scope, Task};

/// The most tasks that are reported.
const TASKS_MAX: usize = 256;

/// The most threads of one program that are read; the others usually do the same.
const THREADS_MAX: usize = 256;

const ROW_HERE: Check = Check { group: Group::Isolation, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "iso-domain",
        title: "hot CPUs isolated from the scheduler",
        read: Read::Derived(
            "/sys/devices/system/cpu/isolated, /sys/fs/cgroup/cpuset.cpus.isolated or (before 6.7) */cpuset.cpus.partition",
            isolated,
        ),
        form: Form::List,
        why: "The scheduler does not balance tasks onto isolated CPUs. Alone it can be a loss: measured worse than pinning with \
              its interrupt (47.8 against 45.4 us), as interrupts and softirqs still come.",
        source: "Linux admin-guide/cgroup-v2 (cpuset.cpus.partition); Waskiewicz, Anatomy of Networking in HFT, benchmark 4",
        effect: Effect::Stalls,
        set: Set::Program,
        how: "sidestep tune run --cpu HOT --isolate -- PROGRAM creates a cpuset partition for PROGRAM, and removes it afterwards; \
              isolcpus= does it from the boot on, and is deprecated",
        risk: Risk::Medium,
        harm: "unpinned tasks share the other CPUs",
        ..ROW_HERE
    },
    Check {
        id: "iso-kthreads",
        title: "kernel threads that may run on hot CPUs",
        read: Read::Derived("Cpus_allowed_list of the children of kthreadd that could be moved", kernel_threads),
        form: Form::List,
        absent: "no kernel thread can be seen (another process namespace?)",
        why: "A kernel thread that is not bound to a CPU may wake up on a hot one.",
        source: "rigtorp.se/low-latency-guide; Linux admin-guide/kernel-per-CPU-kthreads",
        effect: Effect::Stalls,
        set: Set::Service,
        how: "taskset -pc HOUSEKEEPING PID for each; they avoid isolated CPUs (iso-domain) by themselves",
        harm: "kernel work is slower on the other CPUs",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "iso-tasks",
        title: "programs that may run on hot CPUs",
        read: Read::Derived("Cpus_allowed_list of threads of programs that are not pinned to hot CPUs alone", programs),
        form: Form::List,
        why: "A program that may run on a hot CPU will sometimes do so: a context switch, and a cold cache.",
        source: "tuned cpu-partitioning (systemd plugin)",
        effect: Effect::Stalls,
        set: Set::Service,
        how: "CPUAffinity= in /etc/systemd/system.conf, or isolate the CPUs (iso-domain)",
        risk: Risk::Medium,
        harm: "programs that need many CPUs have fewer",
        volatile: true,
        ..ROW_HERE
    },
    Check {
        id: "iso-workqueue",
        title: "unbound kernel work",
        read: Read::Setting("sys:devices/virtual/workqueue/cpumask"),
        form: Form::Mask,
        why: "kworkers run unbound work on any CPU of this mask.",
        source: "tuned cpu-partitioning; Linux core-api/workqueue",
        effect: Effect::Stalls,
        how: "echo MASK > /sys/devices/virtual/workqueue/cpumask",
        harm: "kernel work is slower on the other CPUs",
        ..ROW_HERE
    },
    Check {
        id: "iso-workqueue-writeback",
        title: "write-back of dirty pages",
        read: Read::Setting("sys:devices/virtual/workqueue/writeback/cpumask"),
        form: Form::Mask,
        why: "Write-back of dirty pages takes milliseconds of CPU time at once.",
        source: "tuned cpu-partitioning; Linux core-api/workqueue",
        effect: Effect::Stalls,
        how: "echo MASK > /sys/devices/virtual/workqueue/writeback/cpumask",
        harm: "write-back is slower",
        ..ROW_HERE
    },
    Check {
        id: "iso-nmi-watchdog",
        title: "hard lockup detector",
        read: Read::Setting("proc:sys/kernel/nmi_watchdog"),
        absent: "the kernel has no NMI watchdog",
        why: "Its non-maskable interrupts come to every CPU, and it holds a performance counter.",
        source: "tuned network-latency; Linux admin-guide/lockup-watchdogs",
        effect: Effect::Units,
        how: "sysctl kernel.nmi_watchdog=0",
        risk: Risk::Medium,
        harm: "a CPU that hangs with interrupts off is not reported",
        ..ROW_HERE
    },
    Check {
        id: "iso-watchdog-cpus",
        title: "CPUs with a lockup detector",
        read: Read::Setting("proc:sys/kernel/watchdog_cpumask"),
        form: Form::List,
        absent: "the kernel has no lockup detectors",
        why: "The soft lockup detector wakes a thread of the highest priority on every CPU of this set, every few seconds.",
        source: "Linux admin-guide/lockup-watchdogs",
        effect: Effect::Units,
        how: "sysctl kernel.watchdog_cpumask=HOUSEKEEPING",
        harm: "a hang of a hot CPU is not reported",
        ..ROW_HERE
    },
    Check {
        id: "iso-hung-task",
        title: "search for hung tasks",
        read: Read::Setting("proc:sys/kernel/hung_task_timeout_secs"),
        absent: "the kernel does not look for hung tasks",
        why: "A kernel thread scans all tasks at this interval.",
        source: "tuned network-latency",
        effect: Effect::Fractions,
        how: "sysctl kernel.hung_task_timeout_secs=600",
        harm: "hung tasks are reported later",
        ..ROW_HERE
    },
    Check {
        id: "iso-stat-interval",
        title: "interval of virtual memory statistics, in s",
        read: Read::Setting("proc:sys/vm/stat_interval"),
        why: "A deferred work item folds the counters of every CPU at this interval.",
        source: "tuned network-latency; Linux admin-guide/sysctl/vm",
        effect: Effect::Units,
        how: "sysctl vm.stat_interval=10",
        harm: "statistics are older",
        ..ROW_HERE
    },
    Check {
        id: "iso-machine-check",
        title: "polling for corrected memory errors",
        read: Read::Setting("sys:devices/system/machinecheck/machinecheck{cpu}/ignore_ce"),
        absent: "the machine reports no machine checks",
        why: "A timer on every CPU reads the error banks. 1 ends that; failing memory is then not reported.",
        source: "tuned cpu-partitioning; Linux arch/x86/x86_64/machinecheck",
        effect: Effect::Units,
        how: "echo 1 > /sys/devices/system/machinecheck/machinecheckN/ignore_ce",
        risk: Risk::High,
        harm: "corrected memory errors go unseen until one cannot be corrected",
        dangerous: true,
        ..ROW_HERE
    },
    Check {
        id: "iso-tracing",
        title: "tracing left switched on",
        read: Read::Setting("sys:kernel/tracing/current_tracer"),
        absent: "tracefs is not mounted",
        why: "A tracer adds a cost to every function or context switch that it traces.",
        source: "Linux trace/ftrace",
        effect: Effect::Units,
        how: "echo nop > /sys/kernel/tracing/current_tracer",
        harm: "whoever is tracing loses the trace",
        ..ROW_HERE
    },
    Check {
        id: "iso-bpf-stats",
        title: "run-time statistics of BPF programs",
        read: Read::Setting("proc:sys/kernel/bpf_stats_enabled"),
        absent: "the kernel has no BPF",
        why: "Two readings of the clock for each run of each program, XDP's among them.",
        source: "Linux admin-guide/sysctl/kernel",
        effect: Effect::Fractions,
        how: "sysctl kernel.bpf_stats_enabled=0",
        harm: "bpftool shows no run times",
        ..ROW_HERE
    },
    Check {
        id: "iso-preempt",
        title: "preemption model",
        read: Read::Setting("sys:kernel/debug/sched/preempt"),
        absent: "the kernel does not show it (debugfs is not mounted, or it is built in)",
        form: Form::Choice,
        why: "full lets a woken thread run sooner; none has the shortest system calls. A fact for comparing hosts.",
        source: "Linux admin-guide/kernel-parameters (preempt=)",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "boot with preempt=full or none, and measure",
        ..ROW_HERE
    },
    Check {
        id: "iso-kernel-config",
        title: "kernel configuration",
        read: Read::Derived("HZ, NO_HZ_FULL, NET_RX_BUSY_POLL, CPU_ISOLATION of /boot/config-RELEASE", kernel_config),
        absent: "the kernel's configuration is not in /boot",
        why: "Ticks per second, and whether nohz_full, busy polling and isolation can work at all. A fact for comparing hosts.",
        source: "Linux timers/no_hz, Kconfig",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "choose a distribution kernel that has them (most server kernels do)",
        ..ROW_HERE
    },
];

/// Returns the kernel's configuration; empty if it is not in /boot.
pub(super) fn config(scope: &Scope<'_>) -> String {
    let release = scope.text("proc:sys/kernel/osrelease");
    scope.text(&format!("boot:config-{release}"))
}

fn kernel_config(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let config = config(scope);
    let value = |name: &&str| {
        let line = config.lines().find_map(|line| line.strip_prefix("CONFIG_")?.strip_prefix(name)?.strip_prefix('='));
        format!("{name}={}", line.unwrap_or("n"))
    };
    let names = ["HZ", "NO_HZ_FULL", "NET_RX_BUSY_POLL", "CPU_ISOLATION"];
    let words = names.iter().map(value).collect::<Vec<_>>().join(" ");
    Ok(if config.is_empty() { Vec::new() } else { vec![Reading::of("", words)] })
}

fn isolated(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    Ok(vec![Reading::of("", scope::isolated(scope.host).to_string())])
}

/// Returns a field of /proc/PID/status.
pub(super) fn status<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim)
}

/// PF_NO_SETAFFINITY of include/linux/sched.h: the affinity cannot be changed (field 9 of /proc/PID/stat).
const NO_SETAFFINITY: u64 = 0x0400_0000;

fn is_fixed(stat: &str) -> bool {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let flags = fields.split_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & NO_SETAFFINITY != 0)
}

/// Returns the CPUs that tasks of a kind may run on, hot ones among them.
fn stray(scope: &Scope<'_>, task: &Task, kernel: bool) -> Vec<Reading> {
    let text = scope.text(&format!("proc:{}/status", task.pid));
    let is_kernel = task.pid == 2 || status(&text, "PPid") == Some("2");
    let is_fixed = || is_fixed(&scope.text(&format!("proc:{}/stat", task.pid)));
    if is_kernel != kernel || (kernel && is_fixed()) {
        return Vec::new();
    }
    let mut locations = allowed(scope, task, &text);
    locations.retain(|(_, cpus)| !scope.cpus.hot.covers(cpus));
    let reading = |(id, cpus): (u32, CpuSet)| Reading::of(format!("{} ({id})", task.name), cpus.to_string());
    locations.into_iter().map(reading).collect()
}

fn strays(scope: &Scope<'_>, kernel: bool) -> Result<Vec<Reading>, String> {
    scope.needs_hot()?;
    let readings = scope.tasks.iter().flat_map(|task| stray(scope, task, kernel));
    // Tasks that may run on hot CPUs come first, so that the limit hides none of them.
    let (mut on, off): (Vec<_>, Vec<_>) = readings.partition(|reading| touches(reading, &scope.cpus.hot));
    on.extend(off);
    on.truncate(TASKS_MAX);
    Ok(on)
}

/// Returns the CPU sets of a task's threads, each once, with the id of the first thread: the task's own, or that of another
/// thread, as a program pins its threads one by one. `text` is the task's /proc/PID/status.
fn allowed(scope: &Scope<'_>, task: &Task, text: &str) -> Vec<(u32, CpuSet)> {
    let mut found: Vec<(u32, CpuSet)> = Vec::new();
    let mut add = |id: u32, text: &str| {
        let cpus = status(text, "Cpus_allowed_list").and_then(CpuSet::list);
        if let Some(cpus) = cpus.filter(|cpus| found.iter().all(|(_, one)| one != cpus)) {
            found.push((id, cpus));
        }
    };
    add(task.pid, text);
    let threads = scope.host.list(&Location::of(&format!("proc:{}/task", task.pid)));
    let others = threads.iter().filter_map(|name| name.parse().ok()).filter(|id| *id != task.pid);
    for id in others.take(THREADS_MAX) {
        add(id, &scope.text(&format!("proc:{}/task/{id}/status", task.pid)));
    }
    found
}

fn touches(reading: &Reading, hot: &CpuSet) -> bool {
    let set = reading.value.as_ref().ok().and_then(|value| CpuSet::list(value));
    set.is_some_and(|set| set.touches(hot))
}

fn kernel_threads(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    strays(scope, true)
}

fn programs(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    strays(scope, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_the_kernel_holds_is_told_by_its_flags() {
        assert!(is_fixed("12 (kworker/0:0) I 2 0 0 0 -1 69238880 0"));
        assert!(!is_fixed("12 (a) b) S 2 0 0 0 -1 2129984 0"));
        assert!(!is_fixed("") && !is_fixed("1 (x"));
        assert_eq!(status("Name:\tx\nPPid:\t2\n", "PPid"), Some("2"));
    }

    #[test]
    fn threads_of_a_program_are_looked_at_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("sys/devices/system/cpu/online", "0-3");
        file("proc/50/comm", "trader");
        for (path, cpus) in [("", "0"), ("task/50/", "0"), ("task/51/", "3"), ("task/52/", "0-3"), ("task/53/", "0-3")]
        {
            file(&format!("proc/50/{path}status"), &format!("PPid:\t1\nCpus_allowed_list:\t{cpus}\n"));
        }
        let host = crate::host::Tree::at(folder.path());
        let request = scope::Request { hot: CpuSet::list("3"), ..scope::Request::default() };
        let told = programs(&Scope::of(&host, &request).unwrap()).unwrap();
        let told: Vec<_> = told.into_iter().map(|one| (one.subject, one.value.unwrap())).collect();
        let expected =
            [("trader (52)", "0-3"), ("trader (50)", "0")].map(|(name, cpus)| (name.to_owned(), cpus.to_owned()));
        assert_eq!(told, expected, "the one on hot CPUs alone is what they are for");
    }
}
