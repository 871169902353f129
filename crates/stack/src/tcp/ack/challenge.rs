//! The limit of challenge ACKs (RFC 5961 section 7).

use crate::tcp::time::{Instant, SECOND_NS};

/// The limit is per connection, not per host: a shared counter tells a stranger about other connections (CVE-2016-5696).
#[derive(Clone, Debug, Default)]
pub(crate) struct ChallengeLimit {
    since: Instant,
    sent: u32,
}

impl ChallengeLimit {
    /// Returns whether one more may be sent at `now`.
    pub(crate) fn allows(&mut self, now: Instant, per_second: u32) -> bool {
        if now.since_ns(self.since) >= SECOND_NS {
            *self = Self { since: now, sent: 0 };
        }
        self.sent = self.sent.saturating_add(1);
        self.sent <= per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_per_second() {
        let mut challenge = ChallengeLimit::default();
        let allowed = |challenge: &mut ChallengeLimit, ns| challenge.allows(Instant::from_nanos(ns), 2);
        assert!(allowed(&mut challenge, 0) && allowed(&mut challenge, 1) && !allowed(&mut challenge, SECOND_NS - 1));
        assert!(allowed(&mut challenge, SECOND_NS));
    }
}
