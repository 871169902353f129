//! Waiting for what happens in its own time.

use std::thread;
use std::time::{Duration, Instant};

/// Far above what anything takes that tests wait for: what has not happened by then does not happen. No measurement.
pub const WATCHDOG: Duration = Duration::from_secs(120);
/// Short for who waits, long for the CPU that others need meanwhile.
const POLL: Duration = Duration::from_millis(2);

/// Tries until it gives something: what another thread, process, or the kernel does.
///
/// # Panics
/// It gives nothing for [`WATCHDOG`].
pub fn wait<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    attempts(what, attempt, || thread::sleep(POLL))
}

/// The same for what either holds or not.
///
/// # Panics
/// It does not hold for [`WATCHDOG`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait(what, || holds().then_some(()));
}

/// The same where the attempts themselves do the work, so that there is nothing to sleep for; others get the CPU in between, as
/// there may be more spinning threads than CPUs.
///
/// # Panics
/// It gives nothing for [`WATCHDOG`].
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
