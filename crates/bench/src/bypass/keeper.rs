//! The keeper of the control plane that this process has started: its sessions share it.

use super::control_plane::Started;
use sidestep_sys::Problem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The control plane may be taken off the interface so often at once: the rounds of a measurement take turns with it.
const EXCHANGES_MAX: u32 = 32;
/// And once more in this time.
const EXCHANGE_TIME: Duration = Duration::from_secs(10);

/// The started control plane of this process, which outlives the sessions of a server: however often strangers connect, or ask for a
/// program of their own in its place, its program is attached and detached no more than once in ten seconds, but for the first
/// times. Dropping the last clone ends it.
#[derive(Clone, Debug, Default)]
pub struct Keeper(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    started: Option<Started>,
    users: usize,
    exchanges: Exchanges,
}

impl Keeper {
    fn held(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a session as a user of the control plane, until the value is dropped.
    pub(super) fn begin_use(&self) -> Use {
        self.held().users += 1;
        Use(self.clone())
    }

    pub(super) fn keep(&self, started: Started) {
        // The one before has ended, or this one would not have been started.
        self.held().started = Some(started);
    }

    pub(super) fn has(&self, pid: u32) -> bool {
        self.held().started.as_ref().is_some_and(|started| started.process.pid == pid)
    }

    /// Ends it, if there is one.
    pub(crate) fn end(&self) {
        self.held().started = None;
    }

    /// Ends it for a program of a session's own. It waits where that has been too often, up to ten seconds.
    ///
    /// # Errors
    /// Refuses while a session uses it.
    pub(crate) fn leave(&self) -> Result<(), Problem> {
        loop {
            let mut kept = self.held();
            if kept.users > 0 {
                return Err(Problem::failed(
                    "cannot attach the program of xdp-raw",
                    "another session uses the control plane",
                )
                .next("measure again when that session is over"));
            }
            if kept.started.is_none() {
                return Ok(());
            }
            let wait = kept.exchanges.wait(Instant::now());
            if wait.is_zero() {
                kept.exchanges.count(Instant::now());
                kept.started = None;
                return Ok(());
            }
            drop(kept);
            std::thread::sleep(wait);
        }
    }
}

/// A session's use of the control plane.
#[derive(Debug)]
pub(crate) struct Use(Keeper);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.held().users -= 1;
    }
}

/// Exchanges of the control plane for a program of a session's own.
#[derive(Debug, Default)]
struct Exchanges {
    /// When all of them are allowed again.
    restored: Option<Instant>,
}

impl Exchanges {
    /// Returns the time until the next one is allowed.
    fn wait(&self, now: Instant) -> Duration {
        let owed = self.restored.map_or(Duration::ZERO, |restored| restored.saturating_duration_since(now));
        owed.saturating_sub(EXCHANGE_TIME * (EXCHANGES_MAX - 1))
    }

    fn count(&mut self, now: Instant) {
        self.restored = Some(self.restored.map_or(now, |restored| restored.max(now)) + EXCHANGE_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_it_from_a_session_that_uses_it() {
        let keeper = Keeper::default();
        let (one, two) = (keeper.begin_use(), keeper.clone().begin_use());
        drop(one);
        assert!(keeper.leave().unwrap_err().to_string().contains("another session"));
        drop(two);
        keeper.leave().unwrap();
    }

    #[test]
    fn exchanges_are_bounded_by_time() {
        let (mut exchanges, now) = (Exchanges::default(), Instant::now());
        for _ in 0..EXCHANGES_MAX {
            assert_eq!(exchanges.wait(now), Duration::ZERO);
            exchanges.count(now);
        }
        assert_eq!(exchanges.wait(now), EXCHANGE_TIME);
        let later = now + EXCHANGE_TIME;
        assert_eq!(exchanges.wait(later), Duration::ZERO);
        exchanges.count(later);
        assert_eq!(exchanges.wait(later), EXCHANGE_TIME, "one for each ten seconds");
        let much_later = now + EXCHANGE_TIME * (2 * EXCHANGES_MAX);
        (0..EXCHANGES_MAX).for_each(|_| exchanges.count(much_later));
        assert_eq!(exchanges.wait(much_later), EXCHANGE_TIME, "no more than so many at once");
    }
}
