//! Waiting for asynchronous events.

use std::thread;
use std::time::{Duration, Instant};

/// Far above the time of anything that tests wait for: an event that has not happened by then never will. Not a
/// measurement.
pub const WATCHDOG: Duration = Duration::from_secs(120);
/// The polling interval: short for the waiter, long for the CPU that others need meanwhile.
const POLL: Duration = Duration::from_millis(2);

/// Tries until `attempt` returns a value: for actions of another thread, process, or the kernel.
///
/// # Panics
/// Panics if it returns nothing for [`WATCHDOG`].
pub fn wait<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    attempts(what, attempt, || thread::sleep(POLL))
}

/// Waits until a condition holds.
///
/// # Panics
/// Panics if it does not hold for [`WATCHDOG`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait(what, || holds().then_some(()));
}

/// Tries until `attempt` returns a value, if the attempts themselves do the work, so that there is nothing to sleep
/// for. It yields the CPU in between, as there may be more spinning threads than CPUs.
///
/// # Panics
/// Panics if it returns nothing for [`WATCHDOG`].
pub fn drive<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    attempts(what, attempt, thread::yield_now)
}

fn attempts<T>(what: &str, mut attempt: impl FnMut() -> Option<T>, pause: impl Fn()) -> T {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_waited_for() {
        let mut left = 3;
        let mut count = || {
            left -= 1;
            (left == 0).then_some("there")
        };
        assert_eq!(wait("the third", &mut count), "there");
        assert_eq!((drive("what is there", || Some(7)), left), (7, 0));
        wait_until("the end", || true);
    }
}
