//! NAPI instances: threads, deferral and suspension of interrupts. The files in sysfs are of the whole device; since Linux 6.13 each
//! instance has values of its own, which the netdev family reports, and these are read first.

use super::ROW;
use crate::check::{Check, Effect, Group, Read, Risk, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const ROW_HERE: Check = Check { group: Group::Polling, ..ROW };

/// The most instances of an interface; a NIC has one or two for each queue.
const INSTANCES_MAX: usize = 1024;

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "napi-threaded",
        title: "packets handled by a thread instead of a softirq",
        read: Read::Derived("threaded of each NAPI instance (6.17), else /sys/class/net/IF/threaded", threaded),
        absent: "the kernel has no threaded NAPI (before 5.12)",
        why: "1: a thread that has to be woken handles the packets. 2 (Linux 6.19): it polls and needs a CPU of its own, see \
              napi-poll-cpu. 0: the softirq, on the CPU of the interrupt.",
        source: "Linux networking/napi (threaded NAPI, busy poll); netlink/specs/netdev",
        effect: Effect::Units,
        how: "echo 0 > /sys/class/net/IF/threaded, for one instance: ynl --family netdev --do napi-set",
        risk: Risk::Medium,
        harm: "whoever has pinned those threads loses them",
        ..ROW_HERE
    },
    Check {
        id: "napi-poll-cpu",
        title: "CPU of a NAPI thread that polls",
        read: Read::Derived("Cpus_allowed_list of the threads of instances with threaded 2", poll_cpu),
        absent: "no NAPI thread polls (Linux 6.19)",
        why: "Such a thread never sleeps. Unpinned it takes the time of any CPU, hot ones among them.",
        source: "Linux networking/napi (threaded NAPI busy polling)",
        effect: Effect::Stalls,
        set: Set::Service,
        how: "taskset -pc CPU PID, with a CPU that nothing else uses; the pid is in napi-get of the netdev family",
        harm: "that CPU is for the thread alone",
        ..ROW_HERE
    },
    Check {
        id: "napi-deferral",
        title: "interrupts deferred while a program polls",
        read: Read::Derived(
            "defer-hard-irqs and gro-flush-timeout of each NAPI instance (6.13), else those of /sys/class/net/IF",
            deferral,
        ),
        absent: "the kernel has no deferral (before 5.8)",
        why: "Both 0, or both set where programs poll with SO_PREFER_BUSY_POLL. One without the other delays every packet, or \
              does nothing. Since Linux 6.13 one queue can have them and the others not.",
        source: "Linux networking/napi (software IRQ coalescing)",
        effect: Effect::Tens,
        set: Set::Service,
        how: "echo 0 to both; or, for SO_PREFER_BUSY_POLL, 10 and 20000 as the kernel's documents have it; for one instance: ynl \
              --family netdev --do napi-set",
        risk: Risk::Medium,
        harm: "a program that stops polling waits for the timer",
        ..ROW_HERE
    },
    Check {
        id: "napi-suspend",
        title: "interrupts suspended while epoll polls",
        read: Read::Setting("napi:{interface}/*/irq-suspend-timeout"),
        absent: "the kernel does not report NAPI settings (before 6.13), or the driver does not register them",
        why: "With epoll and prefer_busy_poll no interrupt comes as long as events keep coming. A fact for comparing hosts.",
        source: "Linux networking/napi (IRQ suspension)",
        effect: Effect::Units,
        set: Set::Never,
        how: "ynl --family netdev --do napi-set with irq-suspend-timeout, for programs that use it",
        ..ROW_HERE
    },
];

/// Returns a setting of each instance of each interface; an interface whose instances do not have it is read by `file` of sysfs.
fn settings(scope: &Scope<'_>, name: &str, file: &str) -> Vec<Reading> {
    let of = |interface: &str| -> Vec<Reading> {
        let ids = scope.host.list(&Location::of(&format!("napi:{interface}"))).into_iter().take(INSTANCES_MAX);
        let read = |id: String| {
            let location = Location::of(&format!("napi:{interface}/{id}/{name}"));
            scope.reading(format!("{interface} napi {id}"), location, Form::Text)
        };
        let own: Vec<Reading> = ids.map(read).filter(|reading| reading.value.is_ok()).collect();
        if own.is_empty() {
            return vec![scope.reading(
                interface,
                Location::of(&format!("sys:class/net/{interface}/{file}")),
                Form::Text,
            )];
        }
        own
    };
    scope.interfaces.iter().flat_map(|interface| of(&interface.name)).collect()
}

fn threaded(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|_| None)?;
    let words = |reading: Reading| {
        let shown = match reading.value.as_deref() {
            Ok("2") => Some("2, a thread that polls"),
            Ok("1") => Some("1, a thread that is woken"),
            _ => None,
        };
        Reading { shown: shown.map(str::to_owned), ..reading }
    };
    Ok(settings(scope, "threaded", "threaded").into_iter().map(words).collect())
}

fn poll_cpu(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|_| None)?;
    let polling = settings(scope, "threaded", "threaded").into_iter().filter(|one| one.value.as_deref() == Ok("2"));
    let reading = |one: Reading| {
        let location = one.location.as_ref()?.to_string();
        let pid = scope.text(&format!("{}/pid", location.strip_suffix("/threaded")?));
        let pid: u32 = pid.parse().ok()?;
        let text = scope.text(&format!("proc:{pid}/status"));
        let cpus = super::isolation::status(&text, "Cpus_allowed_list").and_then(CpuSet::list)?;
        let word = if cpus.iter().count() == 1 { "pinned" } else { "free" };
        Some(Reading::of(one.subject, word).shown(format!("{word}: CPU {cpus}")))
    };
    Ok(polling.filter_map(reading).collect())
}

fn deferral(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    scope.each_interface(|_| None)?;
    let defers = settings(scope, "defer-hard-irqs", "napi_defer_hard_irqs");
    let judge = |reading: Reading| {
        let location = reading.location.as_ref()?.to_string();
        let timeout = match location.strip_suffix("/defer-hard-irqs") {
            Some(instance) => scope.text(&format!("{instance}/gro-flush-timeout")),
            None => scope.text(&format!("sys:class/net/{}/gro_flush_timeout", reading.subject)),
        };
        let (defer, timeout): (u64, u64) = (reading.value.as_ref().ok()?.parse().ok()?, timeout.parse().ok()?);
        let word = match (defer > 0, timeout > 0) {
            (false, false) => "off",
            (true, true) => "on",
            _ => "half",
        };
        let shown = format!("{word}: {defer} interrupts deferred, flush timeout {timeout} ns");
        Some(Reading::of(reading.subject, word).shown(shown))
    };
    Ok(defers.into_iter().filter_map(judge).collect())
}
