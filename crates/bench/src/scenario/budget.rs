//! A run that has to end at a time: each scenario gets its share of what is left, and ends when that is used up.

use std::time::{Duration, Instant};

/// The share of a scenario's time that all warm-ups together may take.
const WARM_UP_SHARE: u32 = 4;

/// The end of a scenario; none: it takes what it takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    end: Option<Instant>,
}

impl Budget {
    /// Gives the first of `planned` its share of the time until `end`. What it leaves, or takes too much, the others share.
    pub(crate) fn share(now: Instant, end: Option<Instant>, planned: &[Duration]) -> Self {
        let all: Duration = planned.iter().sum();
        let share = match planned.first() {
            Some(first) if !all.is_zero() => first.as_secs_f64() / all.as_secs_f64(),
            _ => 0.0,
        };
        Self { end: end.map(|end| now + end.saturating_duration_since(now).mul_f64(share)) }
    }

    /// Returns the time that is left; none where there is no limit.
    pub(crate) fn left(self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Returns whether something that takes so long still fits.
    pub(crate) fn has_room_for(self, time: Duration) -> bool {
        self.left().is_none_or(|left| left >= time)
    }

    /// Returns the longest warm-up of one of so many arms, if there is a limit.
    pub(crate) fn warm_up(self, arms: usize) -> Option<Duration> {
        self.left().map(|left| left / WARM_UP_SHARE / u32::try_from(arms.max(1)).unwrap_or(u32::MAX))
    }

    /// Returns the part of `planned` ms that fits, for a progress bar.
    pub(crate) fn expected_ms(self, planned: u64) -> u64 {
        self.left().map_or(planned, |left| planned.min(left.as_millis() as u64))
    }

    /// Returns the length of a slice of which so many are to be made, `around` each: `usual`, or what there is time for.
    pub(crate) fn slice(self, usual: Duration, slices: usize, around: Duration) -> Duration {
        let Some(left) = self.left() else { return usual };
        let each = left / u32::try_from(slices.max(1)).unwrap_or(u32::MAX);
        each.saturating_sub(around).clamp(SLICE_MIN.min(usual), usual)
    }
}

/// The shortest slice that a budget makes.
pub(super) const SLICE_MIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn scenarios_share_what_is_left() {
        let now = Instant::now() + s(1000);
        let share = |end: u64, planned: &[Duration]| Budget::share(now, Some(now + s(end)), planned).end;
        assert_eq!(share(60, &[s(30), s(10), s(20)]), Some(now + s(30)));
        assert_eq!(share(30, &[s(10), s(20)]), Some(now + s(10)), "the next ones share the rest");
        assert_eq!(share(60, &[s(20)]), Some(now + s(60)), "the last one has all of it");
        assert_eq!(share(60, &[]), Some(now));
        assert_eq!(Budget::share(now, None, &[s(1)]).end, None);
        assert_eq!(Budget::share(now, now.checked_sub(s(5)), &[s(1)]).end, Some(now), "it is over");
    }

    #[test]
    fn without_a_limit_everything_is_as_planned() {
        let none = Budget::default();
        assert!(none.has_room_for(s(3600)) && none.warm_up(3).is_none());
        assert_eq!((none.expected_ms(7), none.slice(s(1), 100, s(1))), (7, s(1)));
    }

    #[test]
    fn with_a_limit_slices_get_shorter_and_then_there_are_no_more() {
        let ended = Budget { end: Some(Instant::now()) };
        assert!(!ended.has_room_for(Duration::from_nanos(1)));
        assert_eq!((ended.expected_ms(7), ended.slice(s(1), 10, s(0))), (0, SLICE_MIN));
        assert_eq!(ended.slice(Duration::from_millis(5), 10, s(0)), Duration::from_millis(5));
        let long = Budget { end: Some(Instant::now() + s(3600)) };
        assert_eq!((long.slice(s(1), 10, s(0)), long.expected_ms(7)), (s(1), 7));
        assert!(long.warm_up(10).is_some_and(|time| (s(80)..=s(90)).contains(&time)));
    }
}
