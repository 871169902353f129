//! The two clocks that a session is told: one for what it writes, one for how long it waits.

use crate::value::UtcTimestamp;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One moment on both clocks. The core never reads a clock: who drives it passes this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Wall clock, ns since 1970-01-01 UTC without leap seconds: SendingTime, schedules, clock tolerance.
    pub utc_ns: i64,
    /// A clock that never goes back, ns since any fixed moment: heartbeats and time-outs.
    pub mono_ns: u64,
}

impl Now {
    /// Reads the system's clocks. For drivers that have no cheaper clock of their own.
    pub fn system() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            utc_ns: i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX),
            mono_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The wall clock as FIX writes it.
    pub fn utc(self) -> UtcTimestamp {
        UtcTimestamp { ns: self.utc_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_is_of_this_century_and_never_goes_back() {
        let first = Now::system();
        let second = Now::system();
        assert!(first.utc_ns > 1_700_000_000_000_000_000);
        assert!(second.mono_ns >= first.mono_ns);
    }
}
