//! One cache line bounced between two CPUs: the floor of every path between them.

use super::SAMPLES_MAX;
use crate::cpu_time::{Spent, SpentSince};
use sidestep_sys::clock::Clock;
use sidestep_sys::{Problem, cpu};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Round trips before counting begins.
const SETTLE: u64 = 10_000;
/// Written by the measuring end when it is done.
const STOP: u64 = u64::MAX;

/// The line, aligned to 128 bytes because the CPU prefetches lines in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// Bounces a line with a thread on `peer_cpu` and appends the ticks of each round trip to `samples`. Returns the round
/// trips made before counting, and the CPU time of this thread in the others.
pub(super) fn bounce(
    clock: &Clock,
    peer_cpu: u32,
    duration: Duration,
    samples: &mut Vec<u64>,
) -> Result<(u64, Spent), Problem> {
    let line = Line(AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (tell, told) = sync_channel(1);
        let line = &line;
        let peer = scope.spawn(move || {
            cpu::restrict(&[peer_cpu])?;
            // Whoever could not be pinned drops `tell` without a word.
            let _ = tell.send(());
            answer(line);
            Ok(())
        });
        // The thread begins on the CPU of this one. It is waited for asleep: under SCHED_FIFO a loop would keep it from it for ever.
        let measured = told.recv().ok().map(|()| measure(line, clock, duration, samples));
        line.0.store(STOP, Ordering::Release);
        let answered =
            peer.join().unwrap_or_else(|_| Err(Problem::failed("cannot bounce a cache line", "a thread died")));
        answered.and(measured.ok_or_else(|| Problem::failed("cannot bounce a cache line", "the peer ended early")))
    })
}

/// Odd numbers go out, the next even number comes back.
fn measure(line: &Line, clock: &Clock, duration: Duration, samples: &mut Vec<u64>) -> (u64, Spent) {
    let mut number = 1;
    line.0.store(number, Ordering::Release);
    while line.0.load(Ordering::Acquire) != number + 1 {}
    let mut settling = 1;
    let (mut end, mut spent) = (u64::MAX, SpentSince::now());
    while samples.len() < SAMPLES_MAX {
        number += 2;
        let begin = clock.start();
        line.0.store(number, Ordering::Release);
        while line.0.load(Ordering::Acquire) != number + 1 {}
        let now = clock.stop();
        if settling < SETTLE {
            settling += 1;
            if settling == SETTLE {
                spent = SpentSince::now();
            }
            end = now + clock.ticks(duration);
            continue;
        }
        samples.push(now - begin);
        if now >= end {
            break;
        }
    }
    (settling, spent.on(samples.len() as u64))
}

/// Answers until it is told to stop.
fn answer(line: &Line) {
    loop {
        match line.0.load(Ordering::Acquire) {
            STOP => return,
            number if number % 2 == 1 => line.0.store(number + 1, Ordering::Release),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::clock::Choice;

    #[test]
    fn bounces_and_a_missing_cpu_is_an_error() {
        let clock = Clock::calibrate(Choice::Auto);
        let mut samples = Vec::new();
        assert!(bounce(&clock, 1022, Duration::from_millis(1), &mut samples).is_err());
        let cpus = cpu::allowed();
        if let [first, .., last] = cpus[..] {
            cpu::restrict(&[first]).expect("it is allowed");
            bounce(&clock, last, Duration::from_millis(5), &mut samples).expect("both CPUs are there");
            // How many depends on who else runs.
            assert!(!samples.is_empty());
            // Under SCHED_FIFO, where that is allowed, this thread must not keep the other from the CPU that it begins on.
            if cpu::run_fifo(1).is_ok() {
                bounce(&clock, last, Duration::from_millis(1), &mut samples).expect("the other thread gets its CPU");
            }
        }
    }
}
