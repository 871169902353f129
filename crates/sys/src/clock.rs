//! The clock of every measurement: the TSC where it is reliable, CLOCK_MONOTONIC_RAW elsewhere.
//!
//! The TSC is used if the CPU reports it as invariant (CPUID 80000007H EDX bit 8) and the kernel has not rejected it
//! (`clocksource` lists it). Its frequency is calibrated against CLOCK_MONOTONIC_RAW: a kernel reading is bracketed
//! between two TSC readings, and the tightest bracket is kept. The width of the brackets at both ends over the time
//! between them bounds the error.
//!
//! CPUID is never used as a fence: in a virtual machine it traps (6.9 us measured).

use std::path::Path;
use std::time::Duration;

/// The clock that the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The TSC if it is reliable, else CLOCK_MONOTONIC_RAW.
    #[default]
    Auto,
    /// CLOCK_MONOTONIC_RAW.
    Monotonic,
}

/// A calibrated clock. Readings of copies can be compared.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// Nanoseconds per tick.
    ns_per_tick: f64,
    error_ppm: f64,
    refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Tsc,
    Monotonic,
}

/// A reading of a clock and of CLOCK_MONOTONIC_RAW at the same moment, as nearly as can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// The reading of the clock.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, nanoseconds.
    pub raw_ns: u64,
    /// Bound on the time between the two readings, nanoseconds.
    pub error_ns: f64,
}

/// The cost of reading the clock, and its resolution.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Median of `stop - start` around nothing, ns: part of every sample.
    pub pair_ns: f64,
    /// Smallest non-zero step between successive readings, ns.
    pub resolution_ns: f64,
}

/// The time for which calibration compares both clocks.
const CALIBRATION: Duration = Duration::from_millis(120);
/// Brackets tried at each end. The tightest is kept, so that an interrupt during one of them does not matter.
const BRACKETS: usize = 200;

impl Clock {
    /// Chooses the clock and calibrates it; takes about 0.12 s for the TSC.
    pub fn calibrate(choice: Choice) -> Self {
        match (choice, tsc_refusal(Path::new("/sys"))) {
            (Choice::Monotonic, _) => Self::monotonic(Some("asked for".into())),
            (Choice::Auto, Some(reason)) => Self::monotonic(Some(reason)),
            (Choice::Auto, None) => Self::tsc(),
        }
    }

    /// A clock that reads as a calibrated one of another process on this machine, by its name and rate.
    pub fn like(name: &str, ns_per_tick: f64) -> Self {
        let source = if name == "tsc" { Source::Tsc } else { Source::Monotonic };
        Self { source, ns_per_tick, error_ppm: 0.0, refusal: None }
    }

    /// Nanoseconds per tick.
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    fn monotonic(refusal: Option<String>) -> Self {
        Self { source: Source::Monotonic, ns_per_tick: 1.0, error_ppm: 0.0, refusal }
    }

    fn tsc() -> Self {
        let first = bracket();
        std::thread::sleep(CALIBRATION);
        let last = bracket();
        let ticks = (last.tsc - first.tsc) as f64;
        let elapsed_ns = (last.ns - first.ns) as f64;
        let error = (first.width_ticks + last.width_ticks) as f64 / ticks;
        Self { source: Source::Tsc, ns_per_tick: elapsed_ns / ticks, error_ppm: error * 1e6, refusal: None }
    }

    /// Calibrates again and returns the distance between the two calibrations, parts per million.
    pub fn drift_ppm(&self) -> f64 {
        match self.source {
            Source::Tsc => ((Self::tsc().ns_per_tick / self.ns_per_tick) - 1.0).abs() * 1e6,
            Source::Monotonic => 0.0,
        }
    }

    /// `tsc` or `monotonic`.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Tsc => "tsc",
            Source::Monotonic => "monotonic",
        }
    }

    /// The reason why the TSC is not used, if it is not.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Bound on the calibration error, parts per million.
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// TSC frequency, if the TSC is the source.
    pub fn tsc_hz(&self) -> Option<f64> {
        (self.source == Source::Tsc).then(|| 1e9 / self.ns_per_tick)
    }

    /// Reads the clock before the measured code: none of it executes earlier.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        match self.source {
            Source::Tsc => arch::start(),
            Source::Monotonic => monotonic_raw_ns(),
        }
    }

    /// Reads the clock after the measured code: all of it has executed.
    #[inline(always)]
    pub fn stop(&self) -> u64 {
        match self.source {
            Source::Tsc => arch::stop(),
            Source::Monotonic => monotonic_raw_ns(),
        }
    }

    /// Converts ticks to nanoseconds.
    #[inline(always)]
    pub fn ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }

    /// Converts a duration to ticks.
    #[inline]
    pub fn ticks(&self, duration: Duration) -> u64 {
        (duration.as_nanos() as f64 / self.ns_per_tick) as u64
    }

    /// Reads this clock and CLOCK_MONOTONIC_RAW together; takes some microseconds.
    pub fn anchor(&self) -> Anchor {
        match self.source {
            Source::Tsc => {
                let bracket = bracket();
                let error_ns = bracket.width_ticks as f64 / 2.0 * self.ns_per_tick;
                Anchor { ticks: bracket.tsc, raw_ns: bracket.ns, error_ns }
            }
            Source::Monotonic => {
                let now = monotonic_raw_ns();
                Anchor { ticks: now, raw_ns: now, error_ns: 0.0 }
            }
        }
    }

    /// Measures the cost of reading the clock on this machine.
    pub fn cost(&self) -> Cost {
        let mut pairs: Vec<u64> = (0..20_001)
            .map(|_| {
                let begin = self.start();
                self.stop().saturating_sub(begin)
            })
            .collect();
        let steps = (0..20_000).filter_map(|_| {
            let begin = self.stop();
            Some(self.stop().saturating_sub(begin)).filter(|step| *step > 0)
        });
        let resolution = steps.min().unwrap_or(1);
        pairs.sort_unstable();
        Cost {
            pair_ns: pairs[pairs.len() / 2] as f64 * self.ns_per_tick,
            resolution_ns: resolution as f64 * self.ns_per_tick,
        }
    }
}

/// The reason why the TSC is not reliable on this host, or `None`.
fn tsc_refusal(sys: &Path) -> Option<String> {
    if !arch::invariant_tsc() {
        return Some("the CPU does not promise an invariant TSC (CPUID 80000007H EDX bit 8)".into());
    }
    let path = sys.join("devices/system/clocksource/clocksource0/available_clocksource");
    let available = std::fs::read_to_string(path).unwrap_or_default();
    (!available.split_whitespace().any(|name| name == "tsc"))
        .then(|| format!("the kernel does not offer the TSC as a clock source (it has: {})", available.trim()))
}

struct Bracket {
    tsc: u64,
    ns: u64,
    width_ticks: u64,
}

/// Reads the kernel's clock between two TSC readings and keeps the closest pair.
fn bracket() -> Bracket {
    let attempt = || {
        let before = arch::start();
        let ns = monotonic_raw_ns();
        let after = arch::stop();
        // A thread that is moved to a CPU whose counter is behind sees the TSC go back: that bracket counts as the
        // widest.
        let width_ticks = after.wrapping_sub(before);
        Bracket { tsc: before.wrapping_add(width_ticks / 2), ns, width_ticks }
    };
    (0..BRACKETS).map(|_| attempt()).min_by_key(|b| b.width_ticks).expect("BRACKETS is not zero")
}

/// CLOCK_MONOTONIC_RAW in nanoseconds.
pub fn monotonic_raw_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of stamps that the kernel sets (ktime_get_ns, bpf_ktime_get_ns).
#[inline]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, and both clocks exist since Linux 2.6.28.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "the clock exists on every kernel this program runs on");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

    #[inline(always)]
    pub(super) fn start() -> u64 {
        // SAFETY: LFENCE and RDTSC exist on every x86-64 CPU. The fence keeps the reading after what came before it.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    #[inline(always)]
    pub(super) fn stop() -> u64 {
        let mut cpu = 0;
        // SAFETY: RDTSCP is present wherever the invariant TSC is; `cpu` is a valid place for its third result. RDTSCP
        // waits for what came before, the fence keeps what follows from starting early.
        unsafe {
            let tsc = __rdtscp(&mut cpu);
            _mm_lfence();
            tsc
        }
    }

    pub(super) fn invariant_tsc() -> bool {
        let cpuid = raw_cpuid::CpuId::new();
        let invariant = cpuid.get_advanced_power_mgmt_info().is_some_and(|info| info.has_invariant_tsc());
        let rdtscp = cpuid.get_extended_processor_and_feature_identifiers().is_some_and(|info| info.has_rdtscp());
        invariant && rdtscp
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    pub(super) fn start() -> u64 {
        super::monotonic_raw_ns()
    }

    pub(super) fn stop() -> u64 {
        super::monotonic_raw_ns()
    }

    pub(super) fn invariant_tsc() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_on_a_sleep() {
        for choice in [Choice::Auto, Choice::Monotonic] {
            let clock = Clock::calibrate(choice);
            let apart = || {
                let (kernel, begin) = (monotonic_raw_ns(), clock.start());
                std::thread::sleep(Duration::from_millis(50));
                let (measured, elapsed) = (clock.ns(clock.stop() - begin), monotonic_raw_ns() - kernel);
                measured.abs_diff(elapsed) as f64 / elapsed as f64
            };
            // A thread that loses the CPU between two readings sees them apart: that does not happen every time.
            assert!((0..20).any(|_| apart() < 0.01), "{}", clock.name());
        }
    }

    #[test]
    fn an_anchor_is_both_clocks_at_once() {
        for choice in [Choice::Auto, Choice::Monotonic] {
            let clock = Clock::calibrate(choice);
            let (before, first, begin) = (monotonic_raw_ns(), clock.anchor(), clock.stop());
            let (last, after) = (clock.anchor(), monotonic_raw_ns());
            assert!(before <= first.raw_ns && first.raw_ns <= last.raw_ns && last.raw_ns <= after);
            assert!(first.ticks <= begin && begin <= last.ticks + clock.ticks(Duration::from_micros(1)));
            assert!(first.error_ns >= 0.0 && first.error_ns.is_finite());
        }
    }

    #[test]
    fn ticks_and_ns_are_inverse() {
        let clock = Clock::calibrate(Choice::Auto);
        let ticks = clock.ticks(Duration::from_millis(1));
        assert!(clock.ns(ticks).abs_diff(1_000_000) <= 2);
    }

    #[test]
    fn the_fallback_names_its_reason() {
        assert_eq!(Clock::calibrate(Choice::Monotonic).refusal(), Some("asked for"));
        let empty = std::env::temp_dir().join("sidestep-no-such-sys");
        assert!(tsc_refusal(&empty).is_some(), "without a kernel that lists the TSC it is refused");
    }

    #[test]
    fn cost_and_resolution_are_positive() {
        let cost = Clock::calibrate(Choice::Auto).cost();
        assert!(cost.pair_ns > 0.0 && cost.resolution_ns > 0.0);
    }
}
