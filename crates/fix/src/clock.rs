//! The two clocks of a session: one for what it writes, one for how long it waits.

use crate::value::UtcTimestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::Cell;

const NS_PER_SECOND: i64 = 1_000_000_000;

/// The interval at which the difference of the two clocks is read again, and so the delay before a change of the wall
/// clock is seen.
const DIFFERENCE_NS: u64 = 1_000_000;
/// The longest time that one reading of both clocks may take.
const DIFFERENCE_ERROR_NS: u64 = 1_000;

thread_local! {
    /// Wall clock minus monotonic clock, ns, and until when that is used, on the latter.
    static DIFFERENCE: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
}

/// One moment on both clocks. The core never reads a clock: who drives it passes this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Wall clock, ns since 1970-01-01 UTC without leap seconds: SendingTime, schedules, clock tolerance.
    pub utc_ns: i64,
    /// A clock that never goes back, ns since any fixed moment: heartbeats and time-outs.
    pub mono_ns: u64,
}

impl Now {
    /// Reads the system's clocks, CLOCK_REALTIME and CLOCK_MONOTONIC. For drivers that have no cheaper clock of their own.
    ///
    /// Only the second is read each time, as the two advance together: their difference changes when the wall clock is set, and is
    /// looked at every millisecond.
    #[inline]
    pub fn system() -> Self {
        let mono_ns = Self::system_mono_ns();
        let (difference_ns, until_ns) = DIFFERENCE.get();
        let difference_ns = if mono_ns < until_ns { difference_ns } else { look_at_difference(mono_ns) };
        Self { utc_ns: mono_ns.cast_signed().saturating_add(difference_ns), mono_ns }
    }

    /// Reads CLOCK_MONOTONIC alone.
    #[inline]
    pub(crate) fn system_mono_ns() -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic)).cast_unsigned()
    }

    /// The wall clock as FIX writes it.
    pub fn utc(self) -> UtcTimestamp {
        UtcTimestamp { ns: self.utc_ns }
    }
}

#[cold]
fn look_at_difference(mono_ns: u64) -> i64 {
    let difference_ns = nanoseconds(clock_gettime(ClockId::Realtime)).saturating_sub(mono_ns.cast_signed());
    // One that was taken across an interruption is good for this moment only.
    if Now::system_mono_ns().saturating_sub(mono_ns) <= DIFFERENCE_ERROR_NS {
        DIFFERENCE.set((difference_ns, mono_ns.saturating_add(DIFFERENCE_NS)));
    }
    difference_ns
}

/// Since the clock's beginning; 64 bits last until the year 2262.
fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(NS_PER_SECOND).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_of_this_century_and_never_goes_back() {
        let first = Now::system();
        let second = Now::system();
        assert!(first.utc_ns > 1_700_000_000_000_000_000);
        assert!(second.mono_ns >= first.mono_ns && first.mono_ns > 0);
        assert!(Now::system_mono_ns() >= second.mono_ns, "one clock, however it is read");
    }

    #[test]
    fn the_wall_clock_is_that_of_the_system() {
        for _ in 0..1000 {
            let before = nanoseconds(clock_gettime(ClockId::Realtime));
            let now = Now::system();
            let after = nanoseconds(clock_gettime(ClockId::Realtime));
            let error_ns = DIFFERENCE_ERROR_NS.cast_signed();
            assert!((before - error_ns..=after + error_ns).contains(&now.utc_ns), "{before} {now:?} {after}");
        }
    }
}
