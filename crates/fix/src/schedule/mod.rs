//! Times at which a session is open, and boundaries of sessions: StartTime, EndTime, StartDay, EndDay, Weekdays,
//! TimeZone, NonStopSession, with QuickFIX's meanings.
//!
//! Sequence numbers live as long as one session of the schedule: when a new one has begun, both become 1.

mod parse;

#[cfg(test)]
mod tests;

use jiff::civil::{Date, DateTime};
pub use jiff::civil::{Time, Weekday};
pub use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
pub use parse::ScheduleText;
use std::fmt;

/// Days searched back for the beginning of a session: a week, and one more for sessions that end on a later day.
const DAYS_BACK: i64 = 8;

/// Days searched ahead for the next beginning: a weekly session begins within seven.
const DAYS_AHEAD: i64 = 8;

/// The times at which sessions begin and end.
#[derive(Clone, PartialEq, Eq)]
pub struct Schedule {
    days: Days,
    start: Time,
    end: Time,
    zone: TimeZone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Days {
    /// One session that never ends.
    NonStop,
    /// A session begins on each of these days; bit 0 is Monday.
    Daily(u8),
    /// A session begins on the first and ends on the second.
    Weekly(Weekday, Weekday),
}

/// All seven days of [`Days::Daily`].
const EVERY_DAY: u8 = 0x7f;

/// The state of a schedule at one moment, and the time for which it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// A session is open.
    pub open: bool,
    /// The start of the latest session, ns since 1970: identifies the session. `i64::MIN` for one without a start.
    pub session_utc_ns: i64,
    /// From when this holds, ns since 1970.
    pub from_utc_ns: i64,
    /// Until when this holds (excluded). `i64::MAX` for ever.
    pub until_utc_ns: i64,
}

impl Window {
    /// Open from ever and for ever.
    pub const NON_STOP: Self =
        Self { open: true, session_utc_ns: i64::MIN, from_utc_ns: i64::MIN, until_utc_ns: i64::MAX };

    /// Returns whether it still holds at that moment.
    #[must_use]
    pub fn holds_at(&self, utc_ns: i64) -> bool {
        (self.from_utc_ns..self.until_utc_ns).contains(&utc_ns)
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self::non_stop()
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(f, "{:?} {}..{} {zone}", self.days, self.start, self.end)
    }
}

impl Schedule {
    /// `NonStopSession=Y`: one session that never ends.
    #[must_use]
    pub fn non_stop() -> Self {
        Self { days: Days::NonStop, start: Time::midnight(), end: Time::midnight(), zone: TimeZone::UTC }
    }

    /// A session each day, from `start` to `end` in UTC; over midnight when `end` is not later. Equal times make a session of
    /// 24 hours.
    #[must_use]
    pub fn daily(start: Time, end: Time) -> Self {
        Self { days: Days::Daily(EVERY_DAY), start, end, zone: TimeZone::UTC }
    }

    /// A session that begins on `start.0` at `start.1` and ends at the next `end.0`, `end.1`, in UTC. Equal ends make a
    /// session of a week.
    #[must_use]
    pub fn weekly(start: (Weekday, Time), end: (Weekday, Time)) -> Self {
        Self { days: Days::Weekly(start.0, end.0), start: start.1, end: end.1, zone: TimeZone::UTC }
    }

    /// The same in another time zone. Times that a clock change leaves out are moved behind it; of times that come twice the
    /// first one counts.
    #[must_use]
    pub fn in_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Daily sessions begin on these days only.
    #[must_use]
    pub fn on_weekdays(mut self, days: &[Weekday]) -> Self {
        if matches!(self.days, Days::Daily(_)) {
            self.days = Days::Daily(days.iter().fold(0, |set, day| set | bit(*day)));
        }
        self
    }

    /// The window that holds at that moment, ns since 1970, UTC.
    #[must_use]
    pub fn window(&self, utc_ns: i64) -> Window {
        if self.days == Days::NonStop {
            return Window::NON_STOP;
        }
        let today = self.zone.to_datetime(timestamp(utc_ns)).date();
        let next_utc_ns = self.next_start(today, utc_ns);
        let latest = (-1..=DAYS_BACK).filter_map(|back| self.session_of(day(today, -back))).find(|it| it.0 <= utc_ns);
        let Some((start, end)) = latest else {
            return Window { open: false, session_utc_ns: i64::MIN, from_utc_ns: utc_ns, until_utc_ns: next_utc_ns };
        };
        let open = utc_ns < end;
        let (from_utc_ns, until_utc_ns) = if open { (start, end.min(next_utc_ns)) } else { (end, next_utc_ns) };
        Window { open, session_utc_ns: start, from_utc_ns, until_utc_ns }
    }

    /// Returns whether no session began between the two moments.
    #[must_use]
    pub fn same_session(&self, one_utc_ns: i64, other_utc_ns: i64) -> bool {
        self.window(one_utc_ns).session_utc_ns == self.window(other_utc_ns).session_utc_ns
    }

    fn next_start(&self, today: Date, utc_ns: i64) -> i64 {
        let starts = (-1..=DAYS_AHEAD).filter_map(|ahead| self.session_of(day(today, ahead)));
        starts.map(|(start, _)| start).find(|start| *start > utc_ns).unwrap_or(i64::MAX)
    }

    /// Beginning and end of the session that begins on that day, ns since 1970.
    fn session_of(&self, date: Option<Date>) -> Option<(i64, i64)> {
        let date = date?;
        let later = i64::from(self.end <= self.start);
        let days = match self.days {
            Days::NonStop => return None,
            Days::Daily(set) => (set & bit(date.weekday()) != 0).then_some(later)?,
            Days::Weekly(first, last) => {
                let days = i64::from(first.until(last));
                (date.weekday() == first).then_some(if days == 0 { 7 * later } else { days })?
            }
        };
        let start = self.utc_ns(date.to_datetime(self.start))?;
        let end = self.utc_ns(day(date, days)?.to_datetime(self.end))?;
        Some((start, end.max(start)))
    }

    fn utc_ns(&self, local: DateTime) -> Option<i64> {
        let timestamp = self.zone.to_ambiguous_timestamp(local).compatible().ok()?;
        i64::try_from(timestamp.as_nanosecond()).ok()
    }
}

fn timestamp(utc_ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(utc_ns)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn day(date: Date, days: i64) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

fn bit(day: Weekday) -> u8 {
    1 << day.to_monday_zero_offset()
}
