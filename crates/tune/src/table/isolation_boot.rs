//! Isolation by boot parameters: printed, or written to a drop-in; the boot loader itself is never changed.

use super::ROW;
use crate::check::{Check, Effect, Group, Hosts, Read, Risk, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Scope, flags};
use std::collections::BTreeSet;

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
            "nohz= of the command line, clock source, isolated and online CPUs, /boot/config-RELEASE",
            prerequisites,
        ),
        why: "The tick stops only where one task can run, on a stable TSC, and while another CPU keeps the time.",
        source: "Linux timers/no_hz (known issues); kernel/time/tick-sched.c (can_stop_full_tick); kernel/sched/core.c (sched_can_stop_tick)",
        effect: Effect::Units,
        set: Set::Service,
        how: "isolate the CPUs (iso-domain), use the TSC (cpu-clocksource), leave a CPU without nohz_full, remove nohz=off",
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
        read: Read::Derived("rcu_nocbs= and nohz_full= of the command line", callbacks),
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
        read: Read::Boot("rcutree.nohz_full_patience_delay"),
        hosts: Hosts::Metal,
        why: "RCU interrupts a CPU without a tick only after this many milliseconds.",
        source: "tuned network-latency; Linux admin-guide/kernel-parameters",
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
        read: Read::Derived("tsc= of the command line; flags of /proc/cpuinfo, packages", watchdog),
        hosts: Hosts::Metal,
        why: "The kernel compares the TSC with another clock on every CPU in turn, twice a second. Since Linux 5.16 it does not where \
              the TSC is constant, does not stop and has TSC_ADJUST, on up to two packages (four in newer kernels).",
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
        why: "While it is enabled, every system call of every program takes the slow entry path, with rules or without (unless the rule \
              task,never is loaded before the program starts). Who enabled it does not matter: auditd, systemd-journald, a container.",
        source: "Linux admin-guide/kernel-parameters (audit=); linux/audit.h (struct audit_status); auditctl(8)",
        effect: Effect::Fractions,
        set: Set::Service,
        how: "auditctl -l shows the rules; without any, auditctl -e 0, or boot with audit=0, if policy allows",
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

/// The CPUs of a parameter such as `managed_irq,domain,2-3`: flags are no CPUs.
fn cpus_of(value: &str) -> CpuSet {
    let is_cpu = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let list = value.split(',').filter(is_cpu).collect::<Vec<_>>().join(",");
    CpuSet::list(&list).unwrap_or_default()
}

fn list_reading(set: &CpuSet) -> Vec<Reading> {
    vec![Reading::of("", set.to_string())]
}

fn callbacks(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let of = |name| match scope.boot(name) {
        Some("all") => scope.cpus.online.clone(),
        Some(value) => cpus_of(value),
        None => CpuSet::default(),
    };
    Ok(list_reading(&of("rcu_nocbs").with(&of("nohz_full"))))
}

fn managed(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let value = scope.boot("isolcpus").unwrap_or_default();
    let is_managed = value.split(',').any(|part| part == "managed_irq");
    Ok(list_reading(&if is_managed { cpus_of(value) } else { CpuSet::default() }))
}

fn audit(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if matches!(scope.boot("audit"), Some("0" | "off")) {
        return Ok(vec![Reading::of("", "off").shown("off by audit=0")]);
    }
    let reading = scope.reading("", Location::of("audit:status/enabled"), Form::Text);
    Ok(vec![match reading.value.as_deref() {
        Ok("0") => Reading::of("", "off"),
        Ok(_) => Reading::of("", "on").shown(format!("on, rules: {}", scope.text("audit:status/rules"))),
        Err(_) => reading,
    }])
}

/// The most packages on which the kernel trusts a qualified TSC, by version: first the number of memory nodes, later that of
/// packages counted.
const TRUSTED: [((u32, u32), usize); 2] = [((6, 9), 4), ((5, 16), 2)];

fn watchdog(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if let Some(value) = scope.boot("tsc") {
        return Ok(vec![Reading::of("", value)]);
    }
    let info = scope.text("proc:cpuinfo");
    let is_qualified =
        ["constant_tsc", "nonstop_tsc", "tsc_adjust"].iter().all(|wanted| flags(&info).any(|flag| flag == *wanted));
    let ids = info.lines().filter(|line| line.starts_with("physical id"));
    let packages = ids.collect::<BTreeSet<_>>().len().max(1);
    let trusted = TRUSTED.iter().find(|(since, _)| scope.is_since(*since)).map_or(0, |(_, packages)| *packages);
    Ok(vec![match is_qualified && packages <= trusted {
        true => Reading::of("", "off by itself").shown(format!("off by itself: a qualified TSC, packages: {packages}")),
        false => Reading::of("", "unset"),
    }])
}

fn prerequisites(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let tickless = scope.cpu_list("sys:devices/system/cpu/nohz_full");
    if tickless.is_empty() {
        return Err("no CPU is nohz_full".into());
    }
    let config = super::isolation::config(scope);
    let clock = scope.text("sys:devices/system/clocksource/clocksource0/current_clocksource");
    let apart = crate::scope::isolated(scope.host);
    let shared = tickless.without(&apart);
    let lacking = [
        (scope.boot("nohz") == Some("off"), "nohz=off is given".to_owned()),
        (!config.is_empty() && !config.contains("CONFIG_NO_HZ_FULL=y"), "the kernel lacks CONFIG_NO_HZ_FULL".into()),
        (!clock.is_empty() && clock != "tsc" && !scope.is_guest, format!("the clock source is {clock}")),
        (tickless.covers(&scope.cpus.online), "no CPU is left to keep the time".into()),
        (!shared.is_empty(), format!("the scheduler balances tasks onto CPU {shared}")),
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
