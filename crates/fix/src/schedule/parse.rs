//! The schedule's settings as text, in the form of a `.cfg`.

use super::{Days, EVERY_DAY, Schedule, Time, Weekday, bit};
use jiff::tz::TimeZone;
use sidestep_sys::Problem;

/// Settings of a schedule as they are written, each by its QuickFIX name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScheduleText<'a> {
    /// `StartTime=08:00:00`, a time zone may follow (`08:00:00 Europe/Berlin`).
    pub start_time: Option<&'a str>,
    /// `EndTime=17:00:00`, in StartTime's zone.
    pub end_time: Option<&'a str>,
    /// `StartDay=mon`
    pub start_day: Option<&'a str>,
    /// `EndDay=fri`
    pub end_day: Option<&'a str>,
    /// `Weekdays=mon,tue,wed`
    pub weekdays: Option<&'a str>,
    /// `TimeZone=America/New_York`; without it UTC, or the host's zone with `UseLocalTime=Y`.
    pub time_zone: Option<&'a str>,
    /// `UseLocalTime=Y`
    pub use_local_time: bool,
    /// `NonStopSession=Y`
    pub non_stop_session: bool,
}

impl Schedule {
    /// Reads the settings. Without any of them the session never ends.
    ///
    /// # Errors
    /// An unknown time, day or zone, or settings that contradict each other.
    pub fn from_text(text: &ScheduleText<'_>) -> Result<Self, Problem> {
        if text.non_stop_session {
            // "The same as 00:00:00 for both": QuickFIX/J's own examples set all three.
            let is_whole_day = matches!((text.start_time, text.end_time), (Some(start), Some(end)) if start == end);
            let times = if is_whole_day { ScheduleText { start_time: None, end_time: None, ..*text } } else { *text };
            return no_times(&times).map(|()| Self::non_stop());
        }
        let (start, end) = match (text.start_time, text.end_time) {
            (None, None) => return no_times(text).map(|()| Self::non_stop()),
            (Some(start), Some(end)) => (start, end),
            _ => return Err(problem("StartTime, EndTime", "only one of them is set", "set both, or NonStopSession=Y")),
        };
        let (start, start_zone) = time("StartTime", start)?;
        let (end, end_zone) = time("EndTime", end)?;
        if end_zone.is_some() && end_zone != start_zone {
            return Err(problem("EndTime", "its time zone is not StartTime's", "use one zone for both"));
        }
        let days = days(text)?;
        let zone = zone(start_zone.or(text.time_zone), text.use_local_time)?;
        Ok(Self { days, start, end, zone })
    }
}

fn days(text: &ScheduleText<'_>) -> Result<Days, Problem> {
    match (text.start_day, text.end_day, text.weekdays) {
        (None, None, None) => Ok(Days::Daily(EVERY_DAY)),
        (Some(start), Some(end), None) => Ok(Days::Weekly(weekday("StartDay", start)?, weekday("EndDay", end)?)),
        (None, None, Some(list)) => {
            let mut days = list.split(',').map(|day| weekday("Weekdays", day));
            days.try_fold(0, |set, day| Ok(set | bit(day?))).map(Days::Daily)
        }
        (_, _, Some(_)) => Err(problem("Weekdays", "StartDay or EndDay is set, too", "set one or the other")),
        _ => Err(problem("StartDay, EndDay", "only one of them is set", "set both or none")),
    }
}

fn no_times(text: &ScheduleText<'_>) -> Result<(), Problem> {
    let set = [text.start_time, text.end_time, text.start_day, text.end_day, text.weekdays];
    if set.iter().all(Option::is_none) {
        return Ok(());
    }
    let reason =
        if text.non_stop_session { "NonStopSession=Y, yet times or days are set" } else { "days, yet no times" };
    Err(problem("schedule", reason, "set StartTime and EndTime, or NonStopSession=Y alone"))
}

/// Parses `08:00:00`, with or without a zone after it.
fn time<'a>(name: &str, text: &'a str) -> Result<(Time, Option<&'a str>), Problem> {
    let (time, zone) = match text.trim().split_once(' ') {
        Some((time, zone)) => (time, Some(zone.trim())),
        None => (text.trim(), None),
    };
    let mut parts = time.split(':').map(|part| part.parse::<i8>().ok().filter(|_| part.len() <= 2));
    let parsed = match (parts.next().flatten(), parts.next().flatten(), parts.next(), parts.next()) {
        (Some(hour), Some(minute), None, None) => Time::new(hour, minute, 0, 0).ok(),
        (Some(hour), Some(minute), Some(Some(second)), None) => Time::new(hour, minute, second, 0).ok(),
        _ => None,
    };
    let thing = format!("{name}={text}");
    parsed.map(|time| (time, zone)).ok_or_else(|| problem(thing, "it is no time of day", "write HH:MM:SS"))
}

/// A day by its name or its first two letters or more, in either case, as QuickFIX takes it.
fn weekday(name: &str, text: &str) -> Result<Weekday, Problem> {
    let asked = text.trim().to_ascii_lowercase();
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let found = names.iter().position(|day| asked.len() >= 2 && day.starts_with(&asked));
    let day = found.and_then(|index| Weekday::from_monday_zero_offset(i8::try_from(index).ok()?).ok());
    day.ok_or_else(|| {
        problem(format!("{name}={text}"), "it is no day of the week", "write mon, tue, wed, thu, fri, sat or sun")
    })
}

fn zone(name: Option<&str>, use_local_time: bool) -> Result<TimeZone, Problem> {
    match name {
        None if use_local_time => Ok(TimeZone::system()),
        None => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name.trim()).map_err(|_| {
            problem(format!("TimeZone={name}"), "there is no such time zone", "use an IANA name like America/New_York")
        }),
    }
}

fn problem(thing: impl Into<String>, reason: &str, next: &str) -> Problem {
    Problem::usage(thing, reason).next(next)
}
