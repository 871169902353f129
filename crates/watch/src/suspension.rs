//! Suspension of the host: the time that CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A difference that two readings of the clocks make by themselves, with room for a thread that was off its CPU between them.
const SLACK: Duration = Duration::from_millis(100);

/// Time that the host has been suspended since it booted.
fn suspended() -> Duration {
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
    };
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(monotonic)
}

/// Sees whether the host was suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspension(Duration);

impl Suspension {
    pub(crate) fn look() -> Self {
        Self(suspended())
    }

    /// The time that the host was suspended since then; none if it was not.
    pub(crate) fn since(self) -> Option<Duration> {
        self.between(suspended())
    }

    fn between(self, now: Duration) -> Option<Duration> {
        let slept = now.saturating_sub(self.0);
        (slept > SLACK).then_some(slept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_suspension_is_one() {
        let before = Suspension::look();
        assert_eq!(before.since(), None, "this host is awake");
        assert_eq!(before.between(before.0 + SLACK), None);
        assert_eq!(before.between(before.0 + Duration::from_secs(5)), Some(Duration::from_secs(5)));
        assert_eq!(before.between(Duration::ZERO), None);
    }
}
