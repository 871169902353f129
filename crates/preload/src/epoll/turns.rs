//! Which of a set's two sides a call asks, and how many events each may tell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A call that has events of ours asks the kernel's set no sooner than this after the last time it was asked: that costs a system call. A
/// call that has none asks it always.
pub(super) const KERNEL_INTERVAL: Duration = Duration::from_micros(20);

/// Turns of the two sides.
#[derive(Debug)]
pub(super) struct Turns {
    since: Instant,
    /// When the kernel's set is to be asked by a call that has events of ours, in ns from `since`.
    kernel_is_due_ns: AtomicU64,
    /// The side that gets the odd place.
    is_odd_ours: AtomicBool,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, kernel_is_due_ns: AtomicU64::new(0), is_odd_ours: AtomicBool::new(false) }
    }

    pub(super) fn is_kernel_due(&self, now: Instant) -> bool {
        self.ns(now) >= self.kernel_is_due_ns.load(Ordering::Relaxed)
    }

    /// The kernel's set has been asked.
    pub(super) fn note_kernel(&self, now: Instant) {
        self.kernel_is_due_ns.store(self.ns(now + KERNEL_INTERVAL), Ordering::Relaxed);
    }

    /// The places of a list of `places` that are kept for `listed` items of ours. Of an odd number, each side gets one more in its turn.
    pub(super) fn kept_for_ours(&self, places: usize, listed: usize) -> usize {
        if listed == 0 {
            return 0;
        }
        let odd = usize::from(self.is_odd_ours.fetch_xor(true, Ordering::Relaxed)) & places;
        listed.min(places / 2 + odd)
    }

    fn ns(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.since).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_its_places() {
        let turns = Turns::new(Instant::now());
        let kept: Vec<usize> = (0..4).map(|_| turns.kept_for_ours(1, 9)).collect();
        assert_eq!(kept, [0, 1, 0, 1]);
        let kept: Vec<usize> = (0..4).map(|_| turns.kept_for_ours(5, 9)).collect();
        assert_eq!(kept, [2, 3, 2, 3]);
        assert_eq!((turns.kept_for_ours(8, 9), turns.kept_for_ours(8, 2), turns.kept_for_ours(8, 0)), (4, 2, 0));
    }

    #[test]
    fn the_kernel_is_due_at_first_and_after_its_interval() {
        let start = Instant::now();
        let turns = Turns::new(start);
        assert!(turns.is_kernel_due(start));
        turns.note_kernel(start);
        assert!(!turns.is_kernel_due(start + KERNEL_INTERVAL / 2));
        assert!(turns.is_kernel_due(start + KERNEL_INTERVAL));
    }
}
