//! The loop around every reader of events: what it hands over is timed, counted and checked here.

use super::super::near::Found;
use crate::measure::SAMPLES_MAX;
use crate::stats::Slice;
use sidestep_kernel_ring::source::Event;
use sidestep_sys::Problem;
use sidestep_sys::clock::monotonic_ns;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep of a reader in one call: then it looks whether the slice is over.
pub(super) const SLEEP_MAX: Duration = Duration::from_millis(100);
/// A source that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// An event, and when its reader had it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) event: Event,
    pub(super) at_ns: u64,
}

impl Seen {
    /// The event of this message, had now.
    #[inline]
    pub(super) fn now(message: &[u8]) -> Option<Self> {
        let at_ns = monotonic_ns();
        Event::of(message).map(|event| Self { event, at_ns })
    }
}

/// A way to read events.
pub(super) trait Reader {
    /// Turns without an event between two looks at the clock: 1 for a reader that sleeps in its calls.
    const TURNS_PER_LOOK: u32;

    /// The next event; none if there is none yet. Waits for at most [`SLEEP_MAX`].
    fn next(&mut self) -> Result<Option<Seen>, Problem>;
}

/// The time of a slice.
pub(super) struct Plan<'a> {
    pub(super) settle: Duration,
    pub(super) duration: Duration,
    pub(super) stop: &'a AtomicBool,
}

/// Reads until the slice is over.
pub(super) fn read<R: Reader>(reader: &mut R, plan: &Plan<'_>, samples: &mut Vec<u64>) -> Result<Found, Problem> {
    samples.clear();
    let mut found = Found::default();
    let begin = monotonic_ns();
    let settled = begin + plan.settle.as_nanos() as u64;
    let end = settled + plan.duration.as_nanos() as u64;
    let (mut last, mut silent_since, mut turns) = (None::<Event>, begin, 0_u32);
    loop {
        let Some(Seen { event, at_ns }) = reader.next()? else {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(R::TURNS_PER_LOOK) {
                let now = monotonic_ns();
                if now - silent_since > SILENCE_MAX.as_nanos() as u64 {
                    return Err(silent());
                }
                if now >= end || plan.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            continue;
        };
        let missed = last.map_or(Ok(0), |last| gap(last, event))?;
        (last, silent_since) = (Some(event), at_ns);
        if at_ns < settled {
            found.settling += 1;
            continue;
        }
        found.lost += missed;
        samples.push(at_ns.saturating_sub(event.stamp_ns));
        if at_ns >= end || samples.len() >= SAMPLES_MAX {
            break;
        }
    }
    found.messages = samples.len() as u64;
    found.elapsed_s = monotonic_ns().saturating_sub(settled) as f64 / 1e9;
    found.slice = Slice::of(samples.drain(..));
    Ok(found)
}

/// The events between two that were read.
fn gap(last: Event, next: Event) -> Result<u64, Problem> {
    next.number.checked_sub(last.number + 1).ok_or_else(|| {
        let why = format!("event {} came after event {}", next.number, last.number);
        Problem::failed("the events did not come in their order", why)
    })
}

fn silent() -> Problem {
    Problem::failed("lost the source of events", format!("nothing came for {} s", SILENCE_MAX.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over events with these numbers, each a microsecond old.
    struct Scripted(Vec<u64>);

    impl Reader for Scripted {
        const TURNS_PER_LOOK: u32 = 1;

        fn next(&mut self) -> Result<Option<Seen>, Problem> {
            let Some(number) = self.0.pop() else { return Ok(None) };
            let at_ns = monotonic_ns();
            Ok(Some(Seen { event: Event { stamp_ns: at_ns - 1000, number }, at_ns }))
        }
    }

    fn read_of(mut numbers: Vec<u64>, settle: Duration) -> Result<Found, Problem> {
        numbers.reverse();
        let stop = AtomicBool::new(false);
        let plan = Plan { settle, duration: Duration::from_millis(5), stop: &stop };
        read(&mut Scripted(numbers), &plan, &mut Vec::new())
    }

    #[test]
    fn gaps_are_losses_and_disorder_is_a_failure() {
        let found = read_of(vec![5, 6, 9, 10], Duration::ZERO).unwrap();
        assert_eq!((found.messages, found.lost, found.slice.p50()), (4, 2, 1000.0));
        for numbers in [vec![5, 5], vec![5, 4]] {
            let problem = read_of(numbers, Duration::ZERO).map(drop).expect_err("it is noticed").to_string();
            assert!(problem.contains("came after event 5"), "{problem}");
        }
    }

    #[test]
    fn events_of_the_settling_time_do_not_count() {
        let found = read_of(vec![1, 2, 7], Duration::from_millis(50)).unwrap();
        assert_eq!((found.settling, found.messages, found.lost), (3, 0, 0));
        let found = read_of(Vec::new(), Duration::ZERO).unwrap();
        assert!(found.slice.is_empty() && found.lost == 0);
    }
}
