//! Hiccups of a host, as jHiccup and cyclictest see them: a thread sleeps for a short time and measures how late it wakes. That costs some
//! microseconds per look and takes no CPU from anyone for longer, whereas a loop that spins would.
//!
//! A late wake-up has been delayed by interrupts that were off, an idle state that is slow to leave, the hypervisor, or tasks that
//! had the CPU. A pause between two looks, or one of a thread that spins, is not seen.

use crate::event;
use crate::round::{Beat, End};
use crate::state::{Shared, with};
use crate::suspension::Suspension;
use sidestep_sys::cpu;
use sidestep_sys::process::minimize_timer_slack;
use std::time::{Duration, Instant};

/// Wake-ups of a look at one CPU.
const WAKE_UPS: u32 = 20;
/// Sleep before each.
const SLEEP: Duration = Duration::from_micros(500);

/// Looks at the CPUs in each interval, until the end.
pub(crate) fn watch(shared: &Shared, end: &End, every: Duration, cpus: &[u32]) {
    prepare();
    let mut beat = Beat::new(Instant::now(), every, 4);
    let mut from = 0;
    while end.sleep_until(beat.turn(Instant::now()).0) {
        // Not longer than an eighth of the interval; then the next turn goes on with the CPUs that are left.
        from = look(shared, cpus, from, Instant::now() + every / 8);
    }
}

/// Looks once at each CPU.
pub(crate) fn once(shared: &Shared, cpus: &[u32]) {
    prepare();
    let far = Instant::now() + Duration::from_secs(3600);
    look(shared, cpus, 0, far);
}

fn prepare() {
    // With the usual slack a wake-up is 50 us late by itself. Where it cannot be set, all are: the figures say so.
    if let Err(error) = minimize_timer_slack() {
        event::tell(format_args!("hiccups: wake-ups are up to 50 us late by themselves: {error}"));
    }
}

/// Looks at CPUs from the one at `from` on. Returns where the next look begins.
fn look(shared: &Shared, cpus: &[u32], from: usize, until: Instant) -> usize {
    let whole = cpu::allowed();
    let mut at = from;
    for _ in 0..cpus.len() {
        let index = at % cpus.len();
        at = index + 1;
        let seen = wake_ups(cpus[index]);
        with(shared, |state| state.hiccups(index, Instant::now(), seen.as_deref()));
        if Instant::now() >= until {
            break;
        }
    }
    // So that the thread does not stay on the last one.
    let _ = cpu::restrict(&whole);
    at
}

/// How late each wake-up of a look was, ns; none if the CPU cannot be had.
fn wake_ups(cpu: u32) -> Option<Vec<u64>> {
    cpu::restrict(&[cpu]).ok()?;
    let suspension = Suspension::look();
    let mut late = Vec::with_capacity(WAKE_UPS as usize);
    for _ in 0..WAKE_UPS {
        let begin = Instant::now();
        std::thread::sleep(SLEEP);
        late.push(u64::try_from(begin.elapsed().saturating_sub(SLEEP).as_nanos()).unwrap_or(u64::MAX));
    }
    // A suspension is no hiccup.
    Some(if suspension.since().is_some() { Vec::new() } else { late })
}
