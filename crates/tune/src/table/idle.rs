//! Idle states, from which a waiting CPU has to wake.

use super::ROW;
use crate::check::{Check, Effect, Hosts, Read, Risk, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const NO_CPUIDLE: &str = "no idle states here; in a virtual machine the hypervisor has them";

/// The longest wake-up of a hot CPU: C1 on all CPUs of the last decade (tuned's force_latency is between 1 and 3 us).
const WAKE_US_MAX: u64 = 2;

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "cpu-idle-states",
        title: "deep idle states switched off",
        read: Read::Derived(
            "/sys/devices/system/cpu/cpuN/cpuidle/stateM/{name,latency,disable}, C1E and states above 2 us",
            deep_states,
        ),
        absent: NO_CPUIDLE,
        why: "A CPU in a deep state takes up to hundreds of microseconds to wake before it handles the interrupt. In C1E all cores \
              also lower their frequency and voltage, so it counts as deep whatever its latency says.",
        source: "tuned latency-performance (force_latency); Linux admin-guide/pm/cpuidle; drivers/idle/intel_idle.c (C1E of 2 to 10 us)",
        effect: Effect::Tens,
        how: "echo 1 > /sys/devices/system/cpu/cpuN/cpuidle/stateM/disable for C1E and those above 2 us (cpupower idle-set -D 3 leaves \
              C1E of 2 us, -D 2 takes C1 of 2 us, too), or hold /dev/cpu_dma_latency (sidestep tune run does)",
        risk: Risk::Medium,
        harm: "more power and heat; less turbo for the other cores",
        ..ROW
    },
    Check {
        id: "cpu-latency-qos",
        title: "wake-up latency asked for, in us",
        read: Read::Setting("dev:cpu_dma_latency"),
        absent: "the kernel has no /dev/cpu_dma_latency",
        why: "While a program holds this file open with a small number, no CPU uses a slower idle state. Closing it ends that.",
        source: "Linux power/pm_qos_interface",
        effect: Effect::Tens,
        set: Set::Program,
        how: "sidestep tune run -- PROGRAM holds it open as long as PROGRAM runs",
        risk: Risk::Medium,
        harm: "more power and heat while it is held",
        ..ROW
    },
    Check {
        id: "cpu-resume-latency",
        title: "wake-up latency limit per CPU, in us",
        read: Read::Setting("sys:devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"),
        absent: NO_CPUIDLE,
        why: "The limit of one CPU. n/a forbids idle states that take any time; 0 means no limit at all, a trap.",
        source: "Linux ABI testing/sysfs-devices-power",
        effect: Effect::Tens,
        how: "echo n/a > /sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us",
        risk: Risk::Medium,
        harm: "the CPU polls while idle: more power, and its sibling thread is slower",
        ..ROW
    },
    Check {
        id: "cpu-idle-governor",
        title: "idle governor of a guest",
        read: Read::Setting("sys:devices/system/cpu/cpuidle/current_governor_ro"),
        hosts: Hosts::Guest,
        why: "haltpoll spins for a while before the virtual CPU returns to the hypervisor, from where a wake-up is expensive.",
        source: "Linux virt/guest-halt-polling",
        effect: Effect::Tens,
        set: Set::Boot("cpuidle_haltpoll.force=1"),
        how: "modprobe cpuidle-haltpoll force=1, or build it in and boot with cpuidle_haltpoll.force=1",
        harm: "an idle guest uses some of the host's CPU time",
        ..ROW
    },
    Check {
        id: "cpu-halt-poll",
        title: "polling time of a guest before it halts, in ns",
        read: Read::Setting("sys:module/haltpoll/parameters/guest_halt_poll_ns"),
        hosts: Hosts::Guest,
        absent: "the kernel has no haltpoll governor",
        why: "Within this time a wake-up costs no exit to the hypervisor; 0 switches the polling off.",
        source: "Linux virt/guest-halt-polling (default 200000)",
        effect: Effect::Tens,
        how: "echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns",
        harm: "an idle guest uses some of the host's CPU time",
        ..ROW
    },
    Check {
        id: "cpu-max-cstate",
        title: "deepest idle state by boot parameter",
        read: Read::Boot("intel_idle.max_cstate"),
        hosts: Hosts::Metal,
        why: "The irreversible form of cpu-idle-states: needed only where neither that nor a latency limit can be used.",
        source: "AWS ENA best practices; Linux admin-guide/kernel-parameters",
        effect: Effect::Tens,
        set: Set::Boot("intel_idle.max_cstate=1 processor.max_cstate=1"),
        how: "prefer cpu-idle-states; else boot with intel_idle.max_cstate=1 processor.max_cstate=1",
        risk: Risk::Medium,
        harm: "every CPU is kept awake until the next boot",
        ..ROW
    },
    Check {
        id: "cpu-idle-poll",
        title: "idle loop that never sleeps",
        read: Read::Boot("idle"),
        why: "idle=poll keeps every CPU busy, prevents turbo and slows sibling threads; the kernel's documentation advises against it.",
        source: "Linux admin-guide/kernel-parameters (idle=)",
        effect: Effect::Units,
        set: Set::Boot("remove idle=poll"),
        how: "remove idle=poll; hold /dev/cpu_dma_latency at 0 instead",
        harm: "none known",
        ..ROW
    },
];

fn deep_states(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let switches = scope.expand("sys:devices/system/cpu/cpu{cpu}/cpuidle/state*/disable", Form::Text)?;
    let found = !switches.is_empty();
    let readings: Vec<Reading> = switches.into_iter().filter_map(|reading| deep(scope, reading)).collect();
    Ok(match (readings.is_empty(), found) {
        (true, true) => vec![Reading::of("", "1").shown(format!("no state takes more than {WAKE_US_MAX} us"))],
        _ => readings,
    })
}

/// Returns the `disable` switch of a state that takes too long to leave, or lowers the frequency.
fn deep(scope: &Scope<'_>, reading: Reading) -> Option<Reading> {
    let location = reading.location.as_ref()?.to_string();
    let folder = location.strip_suffix("/disable")?;
    let latency_us: u64 = scope.text(&format!("{folder}/latency")).parse().ok()?;
    let name = scope.text(&format!("{folder}/name"));
    let shown = reading.value.as_ref().ok().map(|value| {
        let state = if value == "0" { "enabled" } else { "disabled" };
        format!("{name} ({latency_us} us) {state}")
    });
    (latency_us > WAKE_US_MAX || name.starts_with("C1E")).then(|| Reading {
        shown,
        location: Some(Location::of(&location)),
        ..reading
    })
}
