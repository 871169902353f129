//! Rate limits per user, of what control does for one and others notice: resolution of neighbours, as control's privilege must not serve
//! to scan a network, and questions to all who have stacks.

use sidestep_sys::owner::Owner;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The most neighbours resolved in a second, by all programs and connections of one user.
pub(super) const RESOLVES_PER_SECOND_MAX: u32 = 64;

/// The most questions for the connection of a twin in a second, of one user: a server that forks for each connection asks once for each.
/// Every program with a stack takes less than a microsecond for one.
pub(super) const TWINS_PER_SECOND_MAX: u32 = 1000;

/// The current second of each user, from its start, with the count. A connection that ends does not reset it.
pub(super) struct Rates {
    per_second_max: u32,
    users: BTreeMap<Owner, (Instant, u32)>,
}

impl Rates {
    pub(super) fn new(per_second_max: u32) -> Self {
        Self { per_second_max, users: BTreeMap::new() }
    }

    /// Counts one more; returns false beyond the limit of a second.
    pub(super) fn count(&mut self, owner: Owner, now: Instant) -> bool {
        // Users without a request for a second are dropped, so the map is bounded by the clients of a second.
        self.users.retain(|_, (since, _)| now.duration_since(*since) < Duration::from_secs(1));
        let (_, asked) = self.users.entry(owner).or_insert((now, 0));
        *asked = asked.saturating_add(1);
        *asked <= self.per_second_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_in_a_second_and_others_have_their_own() {
        let (mut resolves, now) = (Rates::new(RESOLVES_PER_SECOND_MAX), Instant::now());
        let (seven, eight) = (Owner::User(7), Owner::User(8));
        assert_eq!((0..1000).filter(|_| resolves.count(seven, now)).count(), RESOLVES_PER_SECOND_MAX as usize);
        assert!(resolves.count(eight, now));
        assert!(!resolves.count(seven, now + Duration::from_millis(999)));
        assert!(resolves.count(seven, now + Duration::from_secs(1)));
        assert_eq!(resolves.users.len(), 1, "the other one is forgotten");
    }
}
