//! Log lines that others can cause as often as they like: at most one in a while.

use std::time::Duration;

/// The least time between two lines of one kind.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The time of the last line.
#[derive(Debug, Default)]
pub(super) struct Seldom(Option<u64>);

impl Seldom {
    /// Returns whether a line may be logged now, and then counts it as logged.
    pub(super) fn is_due(&mut self, mono_ns: u64) -> bool {
        let is_due = self.0.is_none_or(|at_ns| mono_ns >= at_ns.saturating_add(SAID_EVERY.as_nanos() as u64));
        if is_due {
            self.0 = Some(mono_ns);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_in_ten_seconds() {
        let (mut seldom, second_ns) = (Seldom::default(), 1_000_000_000);
        let said: Vec<u64> = (0..35).filter(|second| seldom.is_due(7 + second * second_ns)).collect();
        assert_eq!(said, [0, 10, 20, 30]);
    }
}
