//! The greatest value of the last minutes: a gauge that a scrape cannot miss, and that comes down again.

use std::time::{Duration, Instant};

/// Half of the time that is remembered at most; at least as long is.
const EPOCH: Duration = Duration::from_secs(60);

/// The greatest value of the last one to two minutes, if there was one.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    began: Instant,
    now: Option<u64>,
    before: Option<u64>,
}

impl Recent {
    pub(crate) fn new(at: Instant) -> Self {
        Self { began: at, now: None, before: None }
    }

    pub(crate) fn record(&mut self, at: Instant, value: u64) {
        self.turn(at);
        self.now = self.now.max(Some(value));
    }

    pub(crate) fn max(&self, at: Instant) -> Option<u64> {
        let mut turned = self.clone();
        turned.turn(at);
        turned.now.max(turned.before)
    }

    fn turn(&mut self, at: Instant) {
        let epochs = at.saturating_duration_since(self.began).as_secs() / EPOCH.as_secs();
        match epochs {
            0 => return,
            1 => self.before = self.now,
            _ => self.before = None,
        }
        self.now = None;
        self.began += EPOCH * u32::try_from(epochs).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_remembered_for_one_to_two_minutes() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut recent = Recent::new(begin);
        recent.record(at(50), 7);
        recent.record(at(55), 3);
        assert_eq!((recent.max(at(59)), recent.max(at(119)), recent.max(at(120))), (Some(7), Some(7), None));
        recent.record(at(119), 2);
        assert_eq!((recent.max(at(119)), recent.max(at(120)), recent.max(at(180))), (Some(7), Some(2), None));
        recent.record(at(100_000), 1);
        assert_eq!(recent.max(at(100_000)), Some(1));
        assert_eq!(recent.max(begin), Some(1), "a clock that goes back is none");
    }
}
