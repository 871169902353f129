//! Facts about the running host.

use sidestep_report::schema::Host;
use sidestep_sys::clock::{Clock, Cost};
use sidestep_sys::cpu;
use sidestep_sys::proc::Roots;

/// Facts about the clock; all zero at the peer, which does not measure.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockFacts {
    name: String,
    refusal: Option<String>,
    tsc_hz: Option<f64>,
    error_ppm: f64,
    pair_ns: f64,
    resolution_ns: f64,
}

impl ClockFacts {
    /// Of a calibrated clock.
    pub(crate) fn of(clock: &Clock) -> Self {
        let Cost { pair_ns, resolution_ns } = clock.cost();
        Self {
            name: clock.name().into(),
            refusal: clock.refusal().map(Into::into),
            tsc_hz: clock.tsc_hz(),
            error_ppm: clock.error_ppm(),
            pair_ns,
            resolution_ns,
        }
    }
}

/// Returns the number of this boot of the kernel, which all its namespaces share; empty if it cannot be read.
pub(crate) fn boot_id() -> String {
    Roots::default().proc("sys/kernel/random/boot_id")
}

/// Returns the facts about the host; the caller fills in the noise.
pub(crate) fn facts(clock: &ClockFacts) -> Host {
    let roots = Roots::default();
    let governor = roots.sys("devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Host {
        hostname: roots.proc("sys/kernel/hostname"),
        kernel: roots.proc("sys/kernel/osrelease"),
        cpu: roots.cpu_model(),
        cpus: cpu::allowed().len() as u32,
        virtualised: cpu::hypervisor(),
        clocksource: roots.sys("devices/system/clocksource/clocksource0/current_clocksource"),
        clock: clock.name.clone(),
        clock_reason: clock.refusal.clone(),
        tsc_hz: clock.tsc_hz,
        clock_error_ppm: clock.error_ppm,
        timer_cost_ns: clock.pair_ns,
        timer_resolution_ns: clock.resolution_ns,
        governor: (!governor.is_empty()).then_some(governor),
        cmdline: roots.proc("cmdline"),
        isolated: roots.sys("devices/system/cpu/isolated"),
        ..Host::default()
    }
}
