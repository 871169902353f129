//! The two clocks that a session is told: one for what it writes, one for how long it waits.

use crate::value::UtcTimestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_SECOND: i64 = 1_000_000_000;

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
    pub fn system() -> Self {
        Self { utc_ns: nanoseconds(clock_gettime(ClockId::Realtime)), mono_ns: Self::system_mono_ns() }
    }

    /// The second of them alone: half of the cost.
    #[inline]
    pub fn system_mono_ns() -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic)).cast_unsigned()
    }

    /// The wall clock as FIX writes it.
    pub fn utc(self) -> UtcTimestamp {
        UtcTimestamp { ns: self.utc_ns }
    }
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
}
