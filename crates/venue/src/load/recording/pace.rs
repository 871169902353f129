//! When a recorded message is due.

use crate::exchange::OPENING_RATE;

/// Messages come at [`OPENING_RATE`] until the clock of the recording starts, then at their times. Times that go back are those of the
/// message before.
#[derive(Debug)]
pub(super) struct Pace {
    speed: u64,
    from_ns: Option<u64>,
    /// Where the clock has started: ns since midnight, and ns since the start of the load.
    origin: Option<(u64, u64)>,
    due_ns: u64,
    has_seen: bool,
}

impl Pace {
    /// The clock starts at a time of day, or else with the first order.
    pub(super) fn new(speed: u64, from_ns: Option<u64>) -> Self {
        Self { speed: speed.max(1), from_ns, origin: None, due_ns: 0, has_seen: false }
    }

    /// The next message has this time.
    pub(super) fn see(&mut self, time_ns: u64, is_order: bool) {
        self.has_seen = true;
        let starts = self.from_ns.map_or(is_order, |from_ns| time_ns >= from_ns);
        match self.origin {
            Some((from_ns, since_ns)) => {
                self.due_ns = self.due_ns.max(since_ns + time_ns.saturating_sub(from_ns) / self.speed);
            }
            None if starts => self.origin = Some((time_ns, self.due_ns)),
            None => self.due_ns += 1_000_000_000 / OPENING_RATE,
        }
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    pub(super) fn has_seen(&self) -> bool {
        self.has_seen
    }

    pub(super) fn has_started(&self) -> bool {
        self.origin.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_NS: u64 = 1_000_000_000 / OPENING_RATE;

    fn dues(mut pace: Pace, messages: &[(u64, bool)]) -> Vec<u64> {
        let due = |(time_ns, is_order): &(u64, bool)| {
            pace.see(*time_ns, *is_order);
            pace.due_ns()
        };
        messages.iter().map(due).collect()
    }

    #[test]
    fn times_count_from_the_first_order_on_divided_by_the_speed() {
        let messages = [(0, false), (9_000, false), (1_000_000, true), (1_008_000, false), (1_000_000, true)];
        let opening = 2 * STEP_NS;
        let expected = [STEP_NS, opening, opening, opening + 2_000, opening + 2_000];
        assert_eq!(dues(Pace::new(4, None), &messages), expected);
    }

    #[test]
    fn what_is_before_a_time_of_day_is_not_waited_for() {
        let messages = [(0, false), (10, true), (1_000, true), (5_000, true)];
        let opening = 2 * STEP_NS;
        assert_eq!(dues(Pace::new(1, Some(1_000)), &messages), [STEP_NS, opening, opening, opening + 4_000]);
    }

    #[test]
    fn the_last_time_that_a_message_can_have_is_a_time() {
        let messages = [(0, true), ((1 << 48) - 1, true)];
        assert_eq!(dues(Pace::new(1, None), &messages), [0, (1 << 48) - 1]);
    }
}
