//! Deferral of users with long requests: making the memory of a stack takes about a second per gibibyte, and one thread
//! serves all.

use sidestep_sys::owner::Owner;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A request of this length delays others.
const LONG: Duration = Duration::from_millis(20);

/// Users with long requests, each with the time until which others are served first. A user is deferred for as long as
/// its request took, so it gets at most half of the time, however many clients it has.
#[derive(Debug, Default)]
pub(super) struct Rest(BTreeMap<Owner, Instant>);

impl Rest {
    /// Records a request of this user from `begun` to `now`; returns whether it was long.
    pub(super) fn note(&mut self, owner: Owner, begun: Instant, now: Instant) -> bool {
        let took = now.duration_since(begun);
        if took >= LONG {
            self.0.insert(owner, now + took);
        }
        took >= LONG
    }

    /// Returns whether others are served first.
    pub(super) fn has(&self, owner: Owner, now: Instant) -> bool {
        self.0.get(&owner).is_some_and(|until| *until > now)
    }

    /// The time at which the first of them is served again.
    pub(super) fn end(&mut self, now: Instant) -> Option<Instant> {
        self.0.retain(|_, until| *until > now);
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVEN: Owner = Owner::User(7);
    const EIGHT: Owner = Owner::User(8);

    #[test]
    fn who_takes_long_rests_as_long_and_nobody_else_does() {
        let (mut rest, begun) = (Rest::default(), Instant::now());
        assert!(!rest.note(SEVEN, begun, begun + LONG / 2));
        assert!(!rest.has(SEVEN, begun) && rest.end(begun).is_none());
        let now = begun + 3 * LONG;
        assert!(rest.note(SEVEN, begun, now));
        assert!(rest.has(SEVEN, now) && rest.has(SEVEN, now + 2 * LONG) && !rest.has(EIGHT, now));
        assert!(rest.note(EIGHT, now, now + LONG));
        assert_eq!(rest.end(now + LONG), Some(now + 2 * LONG));
        assert!(!rest.has(SEVEN, now + 3 * LONG));
        assert_eq!(rest.end(now + 4 * LONG), None);
    }
}
