//! Frequency, clock and machine.

use super::ROW;
use crate::check::{Check, Effect, Hosts, Read, Risk, Set};
use crate::cpus::CpuSet;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::{Scope, flags};
use std::collections::BTreeMap;

const NO_CPUFREQ: &str = "no frequency control here; in a virtual machine the hypervisor has it";
const CPU: &str = "sys:devices/system/cpu";

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "cpu-governor",
        title: "frequency governor",
        read: Read::Setting("sys:devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
        absent: NO_CPUFREQ,
        why: "Other governors lower the frequency of an idle CPU, which then ramps up while the packet waits.",
        source: "tuned latency-performance; Linux admin-guide/pm/cpufreq",
        effect: Effect::Tens,
        how: "cpupower frequency-set -g performance",
        harm: "more power and heat",
        ..ROW
    },
    // Before the lowest: the driver bounds that one by this one (intel_pstate.c, store_min_perf_pct).
    Check {
        id: "cpu-max-perf",
        title: "highest performance of intel_pstate",
        read: Read::Setting("sys:devices/system/cpu/intel_pstate/max_perf_pct"),
        absent: "the frequency is not driven by intel_pstate",
        why: "Below 100 the CPU never reaches its highest frequency.",
        source: "tuned latency-performance",
        effect: Effect::Units,
        how: "echo 100 > /sys/devices/system/cpu/intel_pstate/max_perf_pct",
        harm: "more power and heat",
        ..ROW
    },
    Check {
        id: "cpu-min-perf",
        title: "lowest performance of intel_pstate",
        read: Read::Setting("sys:devices/system/cpu/intel_pstate/min_perf_pct"),
        absent: "the frequency is not driven by intel_pstate",
        why: "Below 100 the driver may lower the frequency although the governor is performance.",
        source: "tuned latency-performance; Linux admin-guide/pm/intel_pstate",
        effect: Effect::Units,
        how: "echo 100 > /sys/devices/system/cpu/intel_pstate/min_perf_pct",
        harm: "more power and heat",
        ..ROW
    },
    Check {
        id: "cpu-energy-bias",
        title: "energy performance bias",
        read: Read::Setting("sys:devices/system/cpu/cpu{cpu}/power/energy_perf_bias"),
        absent: "this CPU has no energy performance bias",
        why: "The hint (0 performance, 15 power saving) lets the CPU itself trade speed for power.",
        source: "tuned latency-performance; Linux admin-guide/pm/intel_epb",
        effect: Effect::Units,
        how: "cpupower set -b 0",
        harm: "more power and heat",
        ..ROW
    },
    Check {
        id: "cpu-energy-preference",
        title: "energy performance preference",
        read: Read::Setting("sys:devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference"),
        absent: "the frequency driver takes no preference",
        why: "With hardware-driven frequencies this hint decides how eagerly the CPU clocks up.",
        source: "tuned throughput-performance; Linux admin-guide/pm/intel_pstate, amd-pstate",
        effect: Effect::Units,
        how: "echo performance > .../cpufreq/energy_performance_preference, for each CPU",
        harm: "more power and heat",
        ..ROW
    },
    Check {
        id: "cpu-turbo",
        title: "turbo, by any driver",
        read: Read::Derived("/sys/devices/system/cpu/cpufreq/boost, intel_pstate/no_turbo", turbo),
        absent: NO_CPUFREQ,
        why: "Turbo is faster and has more jitter: tuned leaves it on, Solarflare's guide of 2014 switches it off. Measure both.",
        source: "tuned (boost=1); Solarflare Server Adapter User Guide",
        effect: Effect::Units,
        set: Set::Never,
        how: "echo 0 or 1 > /sys/devices/system/cpu/cpufreq/boost (intel_pstate/no_turbo: the reverse), and measure",
        ..ROW
    },
    Check {
        id: "cpu-uncore",
        title: "uncore frequency held at its maximum",
        read: Read::Derived("/sys/devices/system/cpu/intel_uncore_frequency/*/{min,max}_freq_khz", uncore),
        absent: "no Intel uncore frequency control here",
        why: "The mesh and the last-level cache have a clock of their own, which drops when few cores work.",
        source: "Linux admin-guide/pm/intel_uncore_frequency_scaling",
        effect: Effect::Fractions,
        how: "write max_freq_khz into min_freq_khz of each package",
        harm: "more power; less of it left for turbo",
        ..ROW
    },
    Check {
        id: "cpu-smt",
        title: "hot CPU without an active sibling thread",
        read: Read::Derived("/sys/devices/system/cpu/cpuN/topology/thread_siblings_list", siblings),
        absent: "the kernel reports no topology",
        why: "A sibling thread shares the core's caches and execution units: its work delays the hot CPU.",
        source: "rigtorp.se/low-latency-guide",
        effect: Effect::Units,
        set: Set::Service,
        how: "echo off > /sys/devices/system/cpu/smt/control, or leave the siblings of hot CPUs idle",
        risk: Risk::Medium,
        harm: "half as many CPUs",
        ..ROW
    },
    Check {
        id: "cpu-clocksource",
        title: "clock source",
        read: Read::Derived("current_clocksource of /sys/devices/system/clocksource/clocksource0", clock_source),
        why: "Only with tsc (or kvm-clock, hyperv) is the time read without a system call; hpet and acpi_pm cost microseconds.",
        source: "Linux admin-guide/kernel-parameters (clocksource=, tsc=)",
        effect: Effect::Units,
        how: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource; if available_clocksource lacks tsc, dmesg says \
              why the kernel rejected it",
        risk: Risk::Medium,
        harm: "if the kernel has found the TSC unstable, its time is wrong",
        ..ROW
    },
    Check {
        id: "cpu-tsc",
        title: "TSC runs at one rate in every state",
        read: Read::Derived("flags of /proc/cpuinfo: constant_tsc, nonstop_tsc", tsc),
        absent: "/proc/cpuinfo has no flags (not an x86 CPU)",
        why: "Without both, times read from the TSC are wrong, and so are all measurements with it.",
        source: "Intel SDM volume 3, 19.17.1 (invariant TSC)",
        effect: Effect::Indirect,
        set: Set::Never,
        how: "use CLOCK_MONOTONIC_RAW: sidestep bench --clock monotonic",
        ..ROW
    },
    Check {
        id: "cpu-steal",
        title: "CPU time taken by the hypervisor",
        read: Read::Derived("steal time of each CPU in /proc/stat, since boot, in tenths of a percent", steal),
        hosts: Hosts::Guest,
        why: "While the hypervisor runs another guest, nothing runs here: each time is a stall.",
        source: "Linux filesystems/proc, admin-guide trace/osnoise-tracer",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "ask for dedicated (pinned) CPUs, or a bare-metal instance",
        volatile: true,
        ..ROW
    },
    Check {
        id: "cpu-throttled",
        title: "thermal throttling since boot",
        read: Read::Setting("sys:devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"),
        absent: "the CPU counts no throttling",
        why: "A throttled CPU runs slower: measurements during that time are not representative.",
        source: "Linux ABI testing/sysfs-devices-system-cpu",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "check the cooling and the firmware's power limits",
        volatile: true,
        ..ROW
    },
    Check {
        id: "cpu-mitigations",
        title: "mitigations of CPU vulnerabilities",
        read: Read::Boot("mitigations"),
        why: "They make system calls more expensive. Switch them off only where every program on the host is trusted.",
        source: "Linux admin-guide/kernel-parameters (mitigations=)",
        effect: Effect::Fractions,
        set: Set::Boot("mitigations=off"),
        how: "boot with mitigations=off, if all programs there are trusted",
        risk: Risk::High,
        harm: "any program on the host may read any other's memory",
        dangerous: true,
        ..ROW
    },
    Check {
        id: "cpu-split-lock",
        title: "split locks",
        read: Read::Boot("split_lock_detect"),
        hosts: Hosts::Metal,
        why: "By default a program that locks across cache lines is slowed down on purpose; the right remedy is to fix it.",
        source: "Linux admin-guide/kernel-parameters (split_lock_detect=)",
        effect: Effect::Stalls,
        set: Set::Boot("split_lock_detect=off"),
        how: "look for split lock messages in dmesg, and repair the program",
        harm: "a split lock then stalls every CPU, and nothing reports it",
        ..ROW
    },
    Check {
        id: "cpu-platform-profile",
        title: "platform profile of the firmware",
        read: Read::Setting("sys:firmware/acpi/platform_profile"),
        absent: "the firmware offers no profiles",
        why: "The firmware has its own limits for power and fans.",
        source: "tuned latency-performance; Linux userspace-api/sysfs-platform_profile",
        effect: Effect::Units,
        how: "echo performance > /sys/firmware/acpi/platform_profile",
        harm: "more power and noise",
        ..ROW
    },
    Check {
        id: "cpu-aspm",
        title: "power saving of PCIe links",
        read: Read::Setting("sys:module/pcie_aspm/parameters/policy"),
        form: Form::Choice,
        hosts: Hosts::Metal,
        absent: "the kernel does not manage PCIe link power",
        why: "A sleeping link takes microseconds to wake before the first packet after a pause can pass.",
        source: "Solarflare Server Adapter User Guide; Linux PCI/aspm",
        effect: Effect::Units,
        how: "echo performance > /sys/module/pcie_aspm/parameters/policy (the firmware may have decided already)",
        harm: "more power",
        ..ROW
    },
];

fn turbo(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let (boost, none) =
        (scope.text(&format!("{CPU}/cpufreq/boost")), scope.text(&format!("{CPU}/intel_pstate/no_turbo")));
    Ok(match (boost.as_str(), none.as_str()) {
        ("1", _) | (_, "0") => vec![Reading::of("", "on")],
        ("0", _) | (_, "1") => vec![Reading::of("", "off")],
        _ => Vec::new(),
    })
}

fn uncore(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let minima = scope.expand("sys:devices/system/cpu/intel_uncore_frequency/*/min_freq_khz", Form::Text)?;
    let compare = |reading: Reading| {
        let location = reading.location.as_ref()?.to_string();
        let highest: u64 = scope.text(&location.replace("min_freq", "max_freq")).parse().ok()?;
        let lowest: u64 = reading.value.as_ref().ok()?.parse().ok()?;
        let word = if lowest == highest { "held" } else { "varies" };
        Some(Reading::of(reading.subject, word).shown(format!("{lowest} to {highest} kHz")))
    };
    Ok(minima.into_iter().filter_map(compare).collect())
}

fn siblings(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let location = |cpu| format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
    let reading = |cpu: u32| {
        let core = CpuSet::list(&scope.text(&location(cpu))).filter(|core| !core.is_empty())?;
        let others = core.without(&[cpu].into_iter().collect());
        let used = others.touches(&scope.cpus.online);
        let (word, shown) = match used {
            false => ("alone", "no sibling on line".to_owned()),
            true => ("shared", format!("shares its core with cpu{others}")),
        };
        Some(Reading::of(format!("cpu{cpu}"), word).shown(shown))
    };
    Ok(scope.watched().iter().filter_map(reading).collect())
}

/// Returns the clock source, with its location only if the kernel offers the TSC instead.
fn clock_source(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    super::needs_x86(scope)?;
    let folder = Location::of("sys:devices/system/clocksource/clocksource0");
    let reading = scope.reading("", folder.join("current_clocksource"), Form::Text);
    let available = scope.text(&folder.join("available_clocksource").to_string());
    let has_tsc = available.is_empty() || available.split_whitespace().any(|one| one == "tsc");
    Ok(vec![match &reading.value {
        Ok(now) if !has_tsc => {
            Reading::of("", now).shown(format!("{now}; the kernel does not offer tsc, only: {available}"))
        }
        _ => reading,
    }])
}

fn tsc(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let info = scope.text("proc:cpuinfo");
    if flags(&info).next().is_none() {
        return Ok(Vec::new());
    }
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|wanted| !flags(&info).any(|flag| flag == *wanted))
        .collect();
    let word = if missing.is_empty() { "invariant".to_owned() } else { format!("without {}", missing.join(" and ")) };
    Ok(vec![Reading::of("", word)])
}

fn steal(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let stat = scope.text("proc:stat");
    let lines: BTreeMap<&str, &str> = stat.lines().filter_map(|line| line.split_once(' ')).collect();
    let reading = |cpu: u32| {
        let name = format!("cpu{cpu}");
        let ticks: Vec<u64> =
            lines.get(name.as_str())?.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        let total = ticks.iter().fold(0_u64, |sum, tick| sum.saturating_add(*tick));
        let permille = u128::from(*ticks.get(7)?) * 1000 / u128::from(total.max(1));
        let shown = format!("{}.{} % stolen", permille / 10, permille % 10);
        Some(Reading::of(name, permille.to_string()).shown(shown))
    };
    Ok(scope.watched().iter().filter_map(reading).collect())
}
