//! Isolation by boot parameters: printed, or written to a drop-in; the boot loader itself is never changed.

use super::ROW;
use crate::check::{Check, Effect, Group, Hosts, Read, Risk, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Scope, flags};
use std::collections::{BTreeMap, BTreeSet};

const ROW_HERE: Check = Check { group: Group::Isolation, risk: Risk::Low, ..ROW };

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "iso-tick",
        title: "no timer tick on hot CPUs",
        read: Read::Derived("/sys/devices/system/cpu/nohz_full", tick),
        form: Form::List,
        absent: "the kernel is built without CONFIG_NO_HZ_FULL",
        why: "The tick interrupts a running thread 100 to 1000 times a second. With nohz_full it stops while one task runs.",
        source: "Linux timers/no_hz; tuned cpu-partitioning",
        effect: Effect::Units,
        set: Set::Boot("nohz_full={hot}"),
        how: "boot with nohz_full=HOT (it also moves RCU callbacks away)",
        risk: Risk::Medium,
        harm: "each system call and interrupt on those CPUs costs a little more",
        ..ROW_HERE
    },
    Check {
        id: "iso-tick-ready",
        title: "what nohz_full needs besides",
        read: Read::Derived(
            "nohz= of the command line, clock source, isolated and online CPUs, /boot/config-RELEASE, cgroup-cpu-limit",
            prerequisites,
        ),
        why: "The tick stops only where one task can run, on a stable TSC, and while another CPU keeps the time. Since Linux 6.6 it also \
              goes on in a control group with a limit of CPU time (cpu.max).",
        source: "Linux timers/no_hz (known issues); kernel/time/tick-sched.c (can_stop_full_tick); kernel/sched/core.c (sched_can_stop_tick)",
        effect: Effect::Units,
        set: Set::Service,
        how: "isolate the CPUs (iso-domain), use the TSC (cpu-clocksource), leave a CPU without nohz_full, remove nohz=off, \
              remove the limit (cgroup-cpu-limit)",
        risk: Risk::Medium,
        harm: "that of the settings named",
        ..ROW_HERE
    },
    Check {
        id: "iso-rcu-poll",
        title: "RCU's threads poll instead of being woken",
        read: Read::Derived("rcu_nocb_poll of the command line, where callbacks are offloaded", callback_poll),
        why: "Without it a hot CPU that queues a callback has to wake the thread that runs it.",
        source: "Linux admin-guide/kernel-parameters (rcu_nocb_poll)",
        effect: Effect::Fractions,
        set: Set::Boot("rcu_nocb_poll"),
        how: "boot with rcu_nocb_poll, beside nohz_full or rcu_nocbs",
        harm: "housekeeping CPUs wake up more often",
        ..ROW_HERE
    },
    Check {
        id: "iso-rcu-callbacks",
        title: "RCU callbacks off hot CPUs",
        read: Read::Derived("rcu_nocbs= of the command line, /sys/devices/system/cpu/nohz_full", callbacks),
        form: Form::List,
        why: "Callbacks run after interrupts, in batches; offloaded, they run in threads that can be placed on other CPUs.",
        source: "Linux admin-guide/kernel-parameters (rcu_nocbs=)",
        effect: Effect::Units,
        set: Set::Boot("rcu_nocbs={hot}"),
        how: "boot with rcu_nocbs=HOT",
        harm: "memory is freed a little later",
        ..ROW_HERE
    },
    Check {
        id: "iso-tick-patience",
        title: "patience of nohz_full with RCU",
        read: Read::Derived("rcutree.nohz_full_patience_delay of the command line, where CPUs are nohz_full", patience),
        hosts: Hosts::Metal,
        why: "RCU interrupts a CPU without a tick only after this many milliseconds.",
        source: "tuned network-latency; Linux admin-guide/kernel-parameters (6.11)",
        effect: Effect::Units,
        set: Set::Boot("rcutree.nohz_full_patience_delay=1000"),
        how: "boot with rcutree.nohz_full_patience_delay=1000, where nohz_full is used",
        harm: "memory is freed a little later",
        ..ROW_HERE
    },
    Check {
        id: "iso-rcu-normal",
        title: "no expedited RCU after boot",
        read: Read::Boot("rcupdate.rcu_normal_after_boot"),
        why: "An expedited grace period interrupts every CPU at once.",
        source: "tuned network-latency; Linux admin-guide/kernel-parameters",
        effect: Effect::Units,
        set: Set::Boot("rcupdate.rcu_normal_after_boot=1"),
        how: "boot with rcupdate.rcu_normal_after_boot=1",
        harm: "some changes of the network's configuration take longer",
        ..ROW_HERE
    },
    Check {
        id: "iso-managed-irq",
        title: "managed interrupts off hot CPUs",
        read: Read::Derived("managed_irq in isolcpus= of the command line", managed),
        form: Form::List,
        why: "Drivers (NVMe above all) spread managed interrupts over all CPUs, and /proc/irq cannot move them.",
        source: "Linux admin-guide/kernel-parameters (isolcpus=managed_irq)",
        effect: Effect::Units,
        set: Set::Boot("isolcpus=managed_irq,{hot}"),
        how: "boot with isolcpus=managed_irq,HOT, where /proc/interrupts shows such interrupts on hot CPUs",
        harm: "those devices have fewer CPUs to answer on",
        ..ROW_HERE
    },
    Check {
        id: "iso-skew-tick",
        title: "ticks of the CPUs spread over time",
        read: Read::Boot("skew_tick"),
        why: "Without it the ticks of all CPUs occur at the same moment and wait for the same locks.",
        source: "tuned network-latency; Linux admin-guide/kernel-parameters",
        effect: Effect::Units,
        set: Set::Boot("skew_tick=1"),
        how: "boot with skew_tick=1",
        harm: "a little more power",
        ..ROW_HERE
    },
    Check {
        id: "iso-tsc-watchdog",
        title: "watchdog of the TSC",
        read: Read::Derived(
            "tsc= of the command line; clock source; flags of /proc/cpuinfo; memory nodes or packages",
            watchdog,
        ),
        hosts: Hosts::Metal,
        why: "The kernel compares the TSC with another clock on every CPU in turn, twice a second. Since Linux 5.16 it does not where \
              the TSC is constant, does not stop and has TSC_ADJUST, on up to two memory nodes (four in newer kernels, \
              and then four packages).",
        source: "tuned network-latency; Linux admin-guide/kernel-parameters (tsc=); arch/x86/kernel/tsc.c (check_system_tsc_reliable)",
        effect: Effect::Fractions,
        set: Set::Boot("tsc=nowatchdog"),
        how: "boot with tsc=nowatchdog or tsc=reliable, if the TSC has proved stable",
        risk: Risk::Medium,
        harm: "a TSC that goes wrong is not noticed",
        ..ROW_HERE
    },
    Check {
        id: "iso-thread-irqs",
        title: "interrupts handled by threads",
        read: Read::Boot("threadirqs"),
        why: "Each interrupt then wakes a thread before the packet is looked at.",
        source: "Linux admin-guide/kernel-parameters (threadirqs)",
        effect: Effect::Units,
        set: Set::Boot("remove threadirqs"),
        how: "remove threadirqs, unless a measurement shows that it helps",
        harm: "interrupts cannot be put below real-time threads",
        ..ROW_HERE
    },
    Check {
        id: "iso-audit",
        title: "audit of system calls",
        read: Read::Derived(
            "the kernel's status by NETLINK_AUDIT (AUDIT_GET, AUDIT_LIST_RULES); audit= of the command line",
            audit,
        ),
        absent: "the kernel has no audit, or it answers in another namespace",
        why: "From the moment it is enabled, every program that starts takes the slow entry path at every system call, with rules or without \
              (unless the rule task,never is loaded before the program starts), also after it is disabled again: the kernel asks whether it was \
              ever enabled. Who enabled it does not matter: auditd, systemd-journald, a container.",
        source: "Linux kernel/auditsc.c (audit_alloc: audit_ever_enabled); admin-guide/kernel-parameters (audit=); auditctl(8)",
        effect: Effect::Fractions,
        set: Set::Service,
        how: "boot with audit=0, or auditctl -a task,never before the programs start, if policy allows; auditctl -l shows the rules",
        risk: Risk::Medium,
        harm: "compliance may ask for it",
        ..ROW_HERE
    },
    Check {
        id: "iso-affinity-service",
        title: "CPUs that services start on",
        read: Read::Derived("CPUAffinity= in /etc/systemd/system.conf and its drop-ins", service_affinity),
        form: Form::List,
        absent: "systemd does not start the services here",
        why: "Without it every service that starts may run on the hot CPUs, unless they are isolated.",
        source: "systemd-system.conf(5); tuned cpu-partitioning",
        effect: Effect::Stalls,
        set: Set::Service,
        how: "CPUAffinity=HOUSEKEEPING in /etc/systemd/system.conf.d/, and boot again",
        harm: "services have fewer CPUs",
        ..ROW_HERE
    },
];

fn tick(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let reading = scope.reading("", Location::of("sys:devices/system/cpu/nohz_full"), Form::Text);
    // The kernel writes (null) where the parameter was not given.
    let value = reading.value.clone().map(|text| CpuSet::list(&text).unwrap_or_default().to_string());
    Ok(vec![Reading { value, ..reading }])
}

/// Returns a list of CPUs of the command line. `all` and `N` stand for the CPUs that are online.
fn boot_list(scope: &Scope<'_>, text: &str) -> Option<CpuSet> {
    CpuSet::boot_list(text, &scope.cpus.online)
}

fn list_reading(set: &CpuSet) -> Vec<Reading> {
    vec![Reading::of("", set.to_string())]
}

/// The kernel takes the last rcu_nocbs=, all CPUs if it is malformed, and offloads the callbacks of nohz_full CPUs besides
/// (kernel/rcu/tree_nocb.h, `rcu_nocb_setup`, `rcu_init_nohz`).
fn callbacks(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let named = match scope.boot("rcu_nocbs") {
        None | Some("set") => CpuSet::default(),
        Some(list) => boot_list(scope, list).unwrap_or_else(|| scope.cpus.online.clone()),
    };
    Ok(list_reading(&named.with(&scope.cpu_list("sys:devices/system/cpu/nohz_full"))))
}

fn patience(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if scope.release().is_some_and(|release| release < (6, 11)) {
        return Err("the kernel has no such parameter (before 6.11)".into());
    }
    if scope.cpu_list("sys:devices/system/cpu/nohz_full").is_empty() {
        return Err("no CPU is nohz_full".into());
    }
    let value = scope.boot("rcutree.nohz_full_patience_delay").unwrap_or("unset");
    Ok(vec![Reading::of("", value).at(Location::of("proc:cmdline"))])
}

/// The flags of isolcpus=; without one it means domain.
const ISOLATION_FLAGS: [&str; 3] = ["domain", "managed_irq", "nohz"];

/// Each isolcpus= adds the kinds of isolation that it names. One that names a kind again with other CPUs is refused as a whole
/// (kernel/sched/isolation.c, `housekeeping_setup`).
fn managed(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let mut isolated: BTreeMap<&str, CpuSet> = BTreeMap::new();
    for value in scope.boot_all("isolcpus") {
        let mut kinds: Vec<&str> = Vec::new();
        let mut list = value;
        while let Some((flag, rest)) = list.split_once(',').filter(|(flag, _)| ISOLATION_FLAGS.contains(flag)) {
            kinds.push(flag);
            list = rest;
        }
        if kinds.is_empty() {
            kinds.push("domain");
        }
        let Some(cpus) = boot_list(scope, list) else { continue };
        if kinds.iter().all(|kind| isolated.get(kind).is_none_or(|known| *known == cpus)) {
            isolated.extend(kinds.into_iter().map(|kind| (kind, cpus.clone())));
        }
    }
    Ok(list_reading(&isolated.remove("managed_irq").unwrap_or_default()))
}

fn audit(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if matches!(scope.boot("audit"), Some("0" | "off")) {
        return Ok(vec![Reading::of("", "off").shown("off by audit=0")]);
    }
    let reading = scope.reading("", Location::of("audit:status/enabled"), Form::Text);
    Ok(vec![match reading.value.as_deref() {
        Ok("0") => Reading::of("", "off now").shown("off now; programs keep the slow path if it was ever on"),
        Ok(_) => Reading::of("", "on").shown(format!("on, rules: {}", scope.text("audit:status/rules"))),
        Err(_) => reading,
    }])
}

/// Returns what the kernel counts for its trust in a qualified TSC, and the most that it trusts: memory nodes since 5.16, packages
/// since 6.12.
fn trust(scope: &Scope<'_>, info: &str) -> (&'static str, usize, usize) {
    let ids = info.lines().filter(|line| line.starts_with("physical id"));
    let packages = ids.collect::<BTreeSet<_>>().len().max(1);
    let nodes = scope.nodes.len().max(1);
    match scope.release().unwrap_or_default() {
        release if release >= (6, 12) => ("packages", packages, 4),
        release if release >= (6, 6) => ("memory nodes", nodes, 4),
        release if release >= (5, 16) => ("memory nodes", nodes, 2),
        _ => ("memory nodes", nodes, 0),
    }
}

/// Returns the clock source.
fn clock_source(scope: &Scope<'_>) -> String {
    scope.text("sys:devices/system/clocksource/clocksource0/current_clocksource")
}

fn watchdog(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    super::needs_x86(scope)?;
    let clock = clock_source(scope);
    if !clock.is_empty() && clock != "tsc" {
        return Err(format!("the clock source is {clock}, not the TSC (cpu-clocksource)"));
    }
    if let Some(value) = scope.boot("tsc") {
        return Ok(vec![Reading::of("", value)]);
    }
    let info = scope.text("proc:cpuinfo");
    let is_qualified =
        ["constant_tsc", "nonstop_tsc", "tsc_adjust"].iter().all(|wanted| flags(&info).any(|flag| flag == *wanted));
    let (what, count, most) = trust(scope, &info);
    Ok(vec![match is_qualified && count <= most {
        true => Reading::of("", "off by itself").shown(format!("off by itself: a qualified TSC, {what}: {count}")),
        false => Reading::of("", "unset"),
    }])
}

fn prerequisites(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let tickless = scope.cpu_list("sys:devices/system/cpu/nohz_full");
    if tickless.is_empty() {
        return Err("no CPU is nohz_full".into());
    }
    let config = super::isolation::config(scope);
    let clock = clock_source(scope);
    let wants_tsc = !scope.is_guest && super::needs_x86(scope).is_ok();
    let limits = super::cgroups::limit(scope).unwrap_or_default();
    let limited =
        limits.iter().find(|group| group.value.as_deref() == Ok("limited")).filter(|_| scope.is_since((6, 6)));
    let apart = crate::scope::isolated(scope.host);
    let shared = tickless.without(&apart);
    let lacking = [
        (scope.boot("nohz") == Some("off"), "nohz=off is given".to_owned()),
        (!config.is_empty() && !config.contains("CONFIG_NO_HZ_FULL=y"), "the kernel lacks CONFIG_NO_HZ_FULL".into()),
        (!clock.is_empty() && clock != "tsc" && wants_tsc, format!("the clock source is {clock}")),
        (tickless.covers(&scope.cpus.online), "no CPU is left to keep the time".into()),
        (!shared.is_empty(), format!("the scheduler balances tasks onto CPU {shared}")),
        (
            limited.is_some(),
            format!("the CPU limit of the group {} keeps the tick", limited.map_or("", |group| &group.subject)),
        ),
    ];
    let lacking: Vec<String> = lacking.into_iter().filter(|(lacks, _)| *lacks).map(|(_, words)| words).collect();
    Ok(vec![match lacking.is_empty() {
        true => Reading::of("", "complete"),
        false => Reading::of("", "incomplete").shown(lacking.join("; ")),
    }])
}

fn callback_poll(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if callbacks(scope)?.iter().all(|one| one.value.as_deref() == Ok("none")) {
        return Err("no CPU has its callbacks offloaded (iso-rcu-callbacks)".into());
    }
    Ok(vec![Reading::of("", scope.boot("rcu_nocb_poll").unwrap_or("unset"))])
}

fn service_affinity(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if scope.task("systemd").is_none() {
        return Ok(Vec::new());
    }
    let drop_ins = scope.host.list(&Location::of("etc:systemd/system.conf.d"));
    let files = drop_ins.iter().map(|name| format!("etc:systemd/system.conf.d/{name}"));
    let mut set = None;
    for file in std::iter::once("etc:systemd/system.conf".to_owned()).chain(files) {
        let Ok(text) = scope.host.read(&Location::of(&file)) else { continue };
        let value = text.lines().find_map(|line| line.trim().strip_prefix("CPUAffinity="));
        set = Some(match value {
            Some(list) => CpuSet::list(&list.trim().replace(' ', ",")).unwrap_or_default(),
            None => set.unwrap_or_default(),
        });
    }
    let isolated = CpuSet::list(&scope.text("sys:devices/system/cpu/isolated")).unwrap_or_default();
    // Without a word from systemd a service may run wherever it is not isolated.
    let effective = |set: CpuSet| if set.is_empty() { scope.cpus.online.without(&isolated) } else { set };
    Ok(set.map(|set| list_reading(&effective(set))).unwrap_or_default())
}
