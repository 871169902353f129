//! The scheduler: real-time threads against others, slices, timers.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const ROW_HERE: Check = Check { group: Group::Isolation, ..ROW };
const NO_DEBUGFS: &str = "debugfs is not mounted, or the kernel does not have it";

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "iso-timer-migration",
        title: "timers that move to busy CPUs",
        read: Read::Derived("kernel.timer_migration, with the isolated and nohz_full CPUs", timers),
        why: "With 1, a high-resolution timer that an idle CPU starts goes to one that is busy: a polling CPU always is. It never goes \
              to a nohz_full CPU, or to one outside of the starter's scheduling domain. There 1 is better, as timers that a nohz_full CPU \
              starts leave it. Other timers obeyed the setting before Linux 6.9; since then idle CPUs have theirs pulled.",
        source: "Linux kernel/sched/core.c (get_nohz_timer_target), kernel/time/hrtimer.c, timer_migration.c (6.9); tuned network-latency",
        effect: Effect::Units,
        how: "sysctl kernel.timer_migration=0; 1 if the hot CPUs are nohz_full",
        harm: "idle CPUs wake up more often",
        ..ROW_HERE
    },
    Check {
        id: "iso-rt-throttling",
        title: "throttling of real-time threads",
        read: Read::Derived("kernel.sched_rt_runtime_us, before Linux 6.12", throttling),
        why: "Before Linux 6.12 a FIFO thread that never sleeps is stopped for 50 ms of every second. -1 ends that, and matters only to \
              such threads; a polling thread without FIFO on an isolated CPU needs neither. Since 6.12 iso-fair-server decides.",
        source: "Linux scheduler/sched-rt-group, kernel/sched/rt.c (default bandwidth control removed in 6.12); tuned realtime",
        effect: Effect::Stalls,
        how: "sysctl kernel.sched_rt_runtime_us=-1, if a FIFO thread spins",
        risk: Risk::High,
        harm: "a FIFO thread that runs away holds its CPU for ever; with all CPUs the host hangs",
        dangerous: true,
        ..ROW_HERE
    },
    Check {
        id: "iso-fair-server",
        title: "time kept for ordinary threads beside real-time ones, in ns of every second",
        read: Read::Setting("sys:kernel/debug/sched/fair_server/cpu{cpu}/runtime"),
        absent: "the kernel has no fair server (before 6.12; see iso-rt-throttling), or debugfs is not mounted",
        why: "While an ordinary thread waits for this CPU, a FIFO thread that never sleeps is preempted for so long (50 ms by default). \
              On a CPU where nothing else waits it costs nothing. 0 ends it.",
        source: "Linux kernel/sched/debug.c, deadline.c (fair server, 6.12)",
        effect: Effect::Stalls,
        how: "echo 0 > /sys/kernel/debug/sched/fair_server/cpuN/runtime, if a FIFO thread spins and cannot be alone",
        risk: Risk::High,
        harm: "a FIFO thread that runs away starves all others on its CPU, kernel threads among them",
        dangerous: true,
        ..ROW_HERE
    },
    Check {
        id: "iso-base-slice",
        title: "time slice of ordinary threads, in ns",
        read: Read::Setting("sys:kernel/debug/sched/base_slice_ns"),
        absent: NO_DEBUGFS,
        why: "A thread that is woken beside a running one waits for up to a slice, unless its own slice is shorter or its deadline earlier \
              (EEVDF, Linux 6.6). Threads alone on their CPU do not see it. A fact for comparing hosts.",
        source: "Linux scheduler/sched-eevdf; kernel/sched/debug.c",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "give the hot thread a CPU of its own; or sched_setattr(2) with a shorter sched_runtime (Linux 6.12)",
        ..ROW_HERE
    },
];

fn timers(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let reading = scope.reading("", Location::of("proc:sys/kernel/timer_migration"), Form::Text);
    let hot = &scope.cpus.hot;
    let is_tickless = !hot.is_empty() && scope.cpu_list("sys:devices/system/cpu/nohz_full").covers(hot);
    let is_apart = !hot.is_empty() && crate::scope::isolated(scope.host).covers(hot);
    Ok(vec![match reading.value.as_deref() {
        Ok("0") if is_tickless => Reading::of("", "held").shown("0: timers that nohz_full CPUs start stay there"),
        Ok("1") if is_tickless => Reading::of("", "kept off").shown("1: no timer moves to nohz_full CPUs"),
        Ok("1") if is_apart => Reading::of("", "kept off").shown("1: no timer moves to isolated CPUs"),
        _ => reading,
    }])
}

fn throttling(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if scope.is_since((6, 12)) {
        return Err("since Linux 6.12 it bounds deadline threads alone (and groups, with CONFIG_RT_GROUP_SCHED): see \
                    iso-fair-server"
            .into());
    }
    Ok(vec![scope.reading("", Location::of("proc:sys/kernel/sched_rt_runtime_us"), Form::Text)])
}
