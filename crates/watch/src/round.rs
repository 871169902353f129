//! The beat of a watch: when a thread has its turn within an interval, and the end that wakes all of them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wakes sleeping threads at the end.
#[derive(Debug, Default)]
pub(crate) struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Ends the watch.
    pub(crate) fn call(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Sleeps until then; false at the end of the watch.
    pub(crate) fn sleep_until(&self, time: Instant) -> bool {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if *is_over || left.is_zero() {
                return !*is_over;
            }
            is_over = self.changed.wait_timeout(is_over, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The turns of one thread. Each comes at a random moment of its part of the interval, so that a watch does not keep step with
/// other work that comes at fixed times.
#[derive(Debug)]
pub(crate) struct Beat {
    begin: Instant,
    every: Duration,
    /// The begin of its part, in eighths of the interval; it is two eighths long.
    eighth: u32,
    /// The number of the next turn.
    next: u64,
    random: fastrand::Rng,
}

impl Beat {
    pub(crate) fn new(begin: Instant, every: Duration, eighth: u32) -> Self {
        Self { begin, every, eighth, next: 0, random: fastrand::Rng::new() }
    }

    /// The time of the next turn, and the number of turns for which it is too late at `now`.
    pub(crate) fn turn(&mut self, now: Instant) -> (Instant, u64) {
        let gone = now.saturating_duration_since(self.begin).as_nanos() / self.every.as_nanos().max(1);
        let moment = (self.every / 4).mul_f64(self.random.f64());
        let mut due = u64::try_from(gone).unwrap_or(u64::MAX).max(self.next);
        if self.start(due) + moment < now {
            // Its moment is gone. One that began at once would follow the turn before too closely.
            due = due.saturating_add(1);
        }
        let missed = due - self.next;
        self.next = due.saturating_add(1);
        (self.start(due) + moment, missed)
    }

    /// The begin of this thread's part of an interval.
    fn start(&self, turn: u64) -> Instant {
        // In nanoseconds: the number of a turn passes 32 bits.
        let since = u64::try_from(self.every.as_nanos() * u128::from(turn)).unwrap_or(u64::MAX);
        self.begin + Duration::from_nanos(since) + self.every / 8 * self.eighth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn turns_come_once_in_each_interval_and_late_ones_are_counted() {
        let (begin, every) = (Instant::now(), Duration::from_secs(8));
        let mut beat = Beat::new(begin, every, 4);
        for number in 0..100 {
            let (time, missed) = beat.turn(begin + every * number);
            let since = time - (begin + every * number);
            assert!((Duration::from_secs(4)..=Duration::from_secs(6)).contains(&since), "{since:?}");
            assert_eq!(missed, 0);
        }
        let (time, missed) = beat.turn(begin + every * 105);
        assert_eq!((missed, time >= begin + every * 105), (5, true));
        let (late, missed) = beat.turn(begin + every * 106 + Duration::from_secs(7));
        assert!(missed == 1 && late >= begin + every * 107 + Duration::from_secs(4), "no two turns in a row");
        let year = Duration::from_secs(365 * 24 * 3600);
        let (time, missed) = beat.turn(begin + year);
        assert!(time >= begin + year - every && missed > 3_000_000, "numbers of years fit");
    }

    #[test]
    fn the_end_wakes_who_sleeps() {
        let end = Arc::new(End::default());
        assert!(end.sleep_until(Instant::now()), "nothing is over");
        let sleeper = {
            let end = Arc::clone(&end);
            std::thread::spawn(move || end.sleep_until(Instant::now() + Duration::from_secs(3600)))
        };
        end.call();
        assert!(!sleeper.join().expect("it wakes"));
        assert!(!end.sleep_until(Instant::now()));
    }
}
