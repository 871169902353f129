//! What firmware and memory controllers do behind the kernel's back: SMIs, C1E, fabric clocks, error polling, split locks.

use super::ROW;
use crate::check::{Check, Effect, Hosts, Read, Risk, Set};
use crate::host::Absence;
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;

const NO_REGISTER: &str = "the module msr is not loaded (modprobe msr), or this CPU has no such register";
/// C1E Enable of MSR_POWER_CTL (Intel SDM volume 4).
const C1E_ENABLE: u64 = 1 << 1;

pub(super) const ROWS: &[Check] = &[
    Check {
        id: "cpu-smi",
        title: "system management interrupts per hour since boot",
        read: Read::Derived("MSR_SMI_COUNT (0x34) of each CPU, over /proc/uptime of a day or more", smi),
        hosts: Hosts::Metal,
        absent: NO_REGISTER,
        why: "In system management mode the firmware holds every CPU, for up to milliseconds, and no kernel sees it. The count includes those \
              of the firmware's own start, and so means nothing in the first day. Reading it interrupts the CPU once.",
        source: "Intel SDM volume 4 (MSR_SMI_COUNT); Linux arch/x86/kernel/msr.c; hwlatdetect(8)",
        effect: Effect::Stalls,
        set: Set::Firmware,
        how: "switch off in the firmware what causes them: USB legacy emulation, error logging, power capping, patrol scrub reports",
        harm: "what the firmware did is no longer done: error logs, power limits",
        volatile: true,
        ..ROW
    },
    Check {
        id: "cpu-c1e-promotion",
        title: "C1 promoted to C1E by the CPU",
        read: Read::Derived("bit 1 of MSR_POWER_CTL (0x1fc)", c1e),
        hosts: Hosts::Metal,
        absent: NO_REGISTER,
        why: "With promotion the CPU lowers voltage and frequency when all of its cores are in C1, and no switch of cpuidle shows it: \
              the wake-up then takes as long as from C1E.",
        source: "Intel SDM volume 4 (MSR_POWER_CTL); Linux drivers/idle/intel_idle.c (disable_promotion_to_c1e)",
        effect: Effect::Units,
        set: Set::Firmware,
        how: "disable C1E in the firmware; intel_idle switches the promotion off by itself where it has C1E as a state of its own",
        harm: "more power and heat",
        ..ROW
    },
    Check {
        id: "cpu-fabric",
        title: "clock of AMD's data fabric, in MHz",
        read: Read::Derived("fclk_input of AMDI0097 devices (amd_hsmp)", fabric),
        hosts: Hosts::Metal,
        absent: "the kernel does not report it: the driver amd_hsmp is not loaded, or the kernel is older than 6.16",
        why: "The fabric has P-states of its own. At low load it slows down, and with it every access to memory and PCIe. A fact: take \
              it idle and under load, and compare.",
        source: "Linux arch/x86/amd_hsmp; AMD EPYC tuning guides (APBDIS, fixed SOC P-state)",
        effect: Effect::Units,
        set: Set::Never,
        how: "in the firmware: APBDIS 1 and fixed SOC P-state P0",
        volatile: true,
        ..ROW
    },
    Check {
        id: "cpu-split-lock-wait",
        title: "programs with split locks slowed down",
        read: Read::Setting("proc:sys/kernel/split_lock_mitigate"),
        absent: "the kernel has no such setting (before 6.2), or the CPU does not report split locks",
        why: "1: a thread that locks across cache lines waits 10 ms, one such thread at a time. It protects the others, as a split \
              lock stops the memory of all CPUs. 0 lets it run. A fact: repair the program that dmesg names.",
        source: "Linux admin-guide/sysctl/kernel (split_lock_mitigate)",
        effect: Effect::Stalls,
        set: Set::Never,
        how: "repair the program; else sysctl kernel.split_lock_mitigate=0, and measure",
        ..ROW
    },
    Check {
        id: "mem-error-polling",
        title: "interval at which memory controllers are polled for errors, in ms",
        read: Read::Derived(
            "edac_mc_poll_msec of edac_core, if a mc_name below /sys/devices/system/edac/mc is of a driver that polls",
            polling,
        ),
        absent: "no memory controller reports errors to the kernel (EDAC)",
        why: "Drivers without an error interrupt (ie31200 of Xeon E3 and E) read the controllers' registers at this interval, which may take \
              long. Those of larger servers (amd64, skx, i10nm, sb) do not poll, whatever the interval.",
        source: "Linux drivers/edac/edac_mc.c (edac_check), edac_mc_sysfs.c (1000 by default, 1000 the least)",
        effect: Effect::Stalls,
        how: "echo 60000 > /sys/module/edac_core/parameters/edac_mc_poll_msec",
        risk: Risk::Medium,
        harm: "corrected memory errors are reported later",
        ..ROW
    },
];

/// Returns a register of each watched CPU.
fn registers(scope: &Scope<'_>, name: &str, of: impl Fn(u64) -> Reading) -> Vec<Reading> {
    let read = |cpu: u32| {
        let reading = scope.reading(format!("cpu{cpu}"), Location::of(&format!("msr:{cpu}/{name}")), Form::Text);
        let number = reading.value.as_ref().ok().and_then(|value| value.parse().ok());
        match (number, &reading.value) {
            (Some(number), _) => Reading { subject: reading.subject, ..of(number) },
            (None, Err(_)) => reading,
            (None, Ok(_)) => Reading { value: Err(Absence::Missing), ..reading },
        }
    };
    scope.watched().iter().map(read).collect()
}

/// Seconds from which on the interrupts of the firmware's start no longer show in the rate.
const LONG_ENOUGH: u64 = 24 * 3600;

fn smi(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let uptime = scope.text("proc:uptime");
    let Some(seconds) = uptime.split('.').next().and_then(|whole| whole.parse::<u64>().ok()).filter(|s| *s > 0) else {
        return Ok(Vec::new());
    };
    let readings = registers(scope, "smi-count", |count| {
        let per_hour = (u128::from(count) * 3600).div_ceil(u128::from(seconds));
        Reading::of("", per_hour.to_string()).shown(format!("{per_hour} an hour ({count} in {seconds} s)"))
    });
    if seconds < LONG_ENOUGH && readings.iter().any(|one| one.value.is_ok()) {
        return Err(format!(
            "the count includes the firmware's start, and the host is up for {seconds} s, less than a day"
        ));
    }
    Ok(readings)
}

fn c1e(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    Ok(registers(scope, "power-control", |bits| Reading::of("", if bits & C1E_ENABLE != 0 { "on" } else { "off" })))
}

fn fabric(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    if !scope.text("proc:cpuinfo").contains("AuthenticAMD") {
        return Err("only AMD's servers have such a fabric".into());
    }
    scope.expand("sys:bus/platform/devices/AMDI0097*/fclk_input", Form::Text)
}

/// Names of controllers (mci->ctl_name) whose drivers poll: ie31200, x38, r82600, loongson.
const POLLED: [&str; 4] = ["IE31200", "x38", "R82600", "loongson_edac_ctl"];

fn polling(scope: &Scope<'_>) -> Result<Vec<Reading>, String> {
    let names = scope.expand("sys:devices/system/edac/mc/mc*/mc_name", Form::Text)?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.value.as_deref().ok()).collect();
    let location = Location::of("sys:module/edac_core/parameters/edac_mc_poll_msec");
    let interval = scope.reading("", location, Form::Text);
    match names.first() {
        None => Ok(Vec::new()),
        Some(_) if names.iter().any(|name| POLLED.iter().any(|known| name.starts_with(known))) => Ok(vec![interval]),
        Some(name) => Err(format!("the driver of the controller {name} is not known to poll")),
    }
}
