//! Disturbances of the host: counted during the measurement, and hiccups measured before it.

use sidestep_report::schema::{Hiccups, Noise};
use sidestep_sys::clock::Clock;
use sidestep_sys::proc::{CpuCounters, Roots};
use sidestep_sys::{Problem, cpu};
use std::time::Duration;

/// A clock tick of /proc/stat.
const TICK_MS: f64 = 10.0;
/// A pause of a loop that only reads the clock counts when it is longer: well above the loop's own 20 ns, below the
/// shortest interrupt.
const HICCUP: Duration = Duration::from_micros(1);

/// Counts disturbances from `start` to `stop`.
pub(crate) struct Meter {
    cpus: Vec<u32>,
    counters: Vec<CpuCounters>,
    switches: u64,
}

impl Meter {
    /// Begins counting for the calling thread and `cpus`.
    pub(crate) fn start(cpus: Vec<u32>) -> Self {
        let counters = Roots::default().cpu_counters(&cpus);
        Self { cpus, counters, switches: cpu::involuntary_switches() }
    }

    /// Returns the disturbances since the start.
    pub(crate) fn stop(self) -> Noise {
        let switches = cpu::involuntary_switches() - self.switches;
        let now = Roots::default().cpu_counters(&self.cpus);
        let grown = |of: fn(&CpuCounters) -> u64| -> u64 {
            now.iter().zip(&self.counters).map(|(now, before)| of(now).saturating_sub(of(before))).sum()
        };
        Noise {
            steal_ms: grown(|counters| counters.steal_ticks) as f64 * TICK_MS,
            involuntary_switches: switches,
            interrupts: grown(|counters| counters.interrupts),
        }
    }
}

/// Adds up disturbances.
pub(crate) fn add(total: &mut Noise, more: &Noise) {
    total.steal_ms += more.steal_ms;
    total.involuntary_switches += more.involuntary_switches;
    total.interrupts += more.interrupts;
}

/// Measures the hiccups of all `cpus` at once for `duration`, with a thread pinned to each.
pub(crate) fn hiccups(clock: &Clock, cpus: &[u32], duration: Duration) -> Result<Vec<Hiccups>, Problem> {
    let failed = || Problem::failed("cannot listen for hiccups", "a thread died");
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            cpus.iter().map(|cpu| scope.spawn(move || watch(clock, *cpu, duration, |_| ()))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| failed())?).collect()
    })
}

/// Watches one CPU, to which the calling thread is pinned from now on; `each` is told the length of every pause, ns.
pub(crate) fn watch(
    clock: &Clock,
    cpu: u32,
    duration: Duration,
    mut each: impl FnMut(u64),
) -> Result<Hiccups, Problem> {
    cpu::restrict(&[cpu])?;
    let threshold = clock.ticks(HICCUP);
    let (mut count, mut max, mut lost) = (0, 0, 0);
    let begin = clock.stop();
    let (mut last, end) = (begin, begin + clock.ticks(duration));
    while last < end {
        let now = clock.stop();
        let pause = now.saturating_sub(last);
        if pause > threshold {
            count += 1;
            lost += pause;
            max = max.max(pause);
            each(clock.ns(pause));
        }
        last = now;
    }
    Ok(Hiccups {
        cpu,
        watched_ms: clock.ns(last - begin) as f64 / 1e6,
        threshold_ns: HICCUP.as_nanos() as f64,
        count,
        max_ns: clock.ns(max) as f64,
        lost_share: lost as f64 / (last - begin) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::clock::Choice;

    #[test]
    fn listens_on_each_cpu() {
        let clock = Clock::calibrate(Choice::Auto);
        let cpus = cpu::allowed();
        let heard = hiccups(&clock, &cpus, Duration::from_millis(20)).expect("the CPUs are allowed");
        assert_eq!(heard.iter().map(|heard| heard.cpu).collect::<Vec<_>>(), cpus);
        assert!(heard.iter().all(|heard| heard.watched_ms >= 20.0 && (0.0..=1.0).contains(&heard.lost_share)));
        assert!(hiccups(&clock, &[1021], Duration::from_millis(1)).is_err());
    }

    #[test]
    fn a_busy_while_brings_interrupts() {
        let meter = Meter::start(cpu::allowed());
        std::thread::sleep(Duration::from_millis(100));
        let mut total = Noise::default();
        add(&mut total, &meter.stop());
        assert!(total.interrupts > 0, "the timer alone interrupts");
    }
}
