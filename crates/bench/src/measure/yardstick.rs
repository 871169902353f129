//! The machine's own speed during a measurement.
//!
//! A hypervisor moves virtual CPUs between cores, and a core is shared with other work on its sibling thread. Then every
//! path is slower or faster at once, and two runs differ without any change of ours: here a cache line was seen to take
//! 130 ns in one run and 430 ns in the next, and TCP with it 7 us and 11 us. The yardsticks tell such runs apart.

use super::{Bench, floor};
use sidestep_report::schema::Yardstick;
use sidestep_sys::clock::Clock;
use std::time::Duration;

/// System calls in one reading: about 20 us.
const CALLS: u32 = 200;
/// Duration of the cache line bounces for one reading.
const BOUNCE: Duration = Duration::from_millis(1);

/// Readings of one run.
#[derive(Debug, Default)]
pub(crate) struct Yardsticks {
    syscall_ns: Vec<f64>,
    cache_line_ns: Vec<f64>,
}

impl Yardsticks {
    /// Takes a reading on the calling thread, and with one on `other_cpu`; meant for the pauses between slices.
    pub(crate) fn take(&mut self, clock: &Clock, other_cpu: Option<u32>) {
        let begin = clock.start();
        for _ in 0..CALLS {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        let ticks = clock.stop() - begin;
        self.syscall_ns.push(clock.ns(ticks) as f64 / f64::from(CALLS));
        let Some(other_cpu) = other_cpu else { return };
        let mut samples = Vec::new();
        if floor::bounce(clock, other_cpu, BOUNCE, &mut samples).is_ok() {
            let ns: Vec<f64> = samples.iter().map(|ticks| clock.ns(*ticks) as f64).collect();
            self.cache_line_ns.extend(median(ns));
        }
    }

    /// Medians over the run.
    pub(crate) fn medians(&self) -> Yardstick {
        Yardstick { syscall_ns: median(self.syscall_ns.clone()), cache_line_ns: median(self.cache_line_ns.clone()) }
    }
}

impl Bench {
    /// Takes a reading; meant for the pauses between slices.
    pub(crate) fn take_yardstick(&mut self) {
        // A failure to pin shows in the measurement; a missing reading does no harm.
        if self.place_thread(true).is_ok() {
            let other_cpu = self.other_cpu();
            self.yardsticks.take(&self.clock, other_cpu);
        }
    }

    /// The peer's CPU, or where the peer is elsewhere any other one of this host.
    fn other_cpu(&self) -> Option<u32> {
        let others = || self.allowed.iter().copied().filter(|cpu| *cpu != self.cpus.client);
        others().find(|cpu| self.ends.same_host && Some(*cpu) == self.cpus.server).or_else(|| others().next_back())
    }

    /// Medians over the run.
    pub(crate) fn yardstick(&self) -> Yardstick {
        self.yardsticks.medians()
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
