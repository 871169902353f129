use super::*;

/// `2024-03-08T12:00:00Z` as ns since 1970.
fn at(text: &str) -> i64 {
    i64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
}

fn schedule(text: ScheduleText<'_>) -> Schedule {
    Schedule::from_text(&text).unwrap()
}

fn hours(start: &'static str, end: &'static str) -> ScheduleText<'static> {
    ScheduleText { start_time: Some(start), end_time: Some(end), ..ScheduleText::default() }
}

#[test]
fn without_times_one_session_never_ends() {
    let schedule = schedule(ScheduleText::default());
    assert_eq!(schedule.window(0), Window::NON_STOP);
    assert!(schedule.same_session(0, at("2200-01-01T00:00:00Z")));
}

#[test]
fn a_day_session_is_open_from_start_to_end() {
    let schedule = schedule(hours("08:00:00", "17:00"));
    for (moment, open) in [("07:59:59", false), ("08:00:00", true), ("16:59:59", true), ("17:00:00", false)] {
        assert_eq!(schedule.window(at(&format!("2024-03-08T{moment}Z"))).open, open, "{moment}");
    }
    let night = schedule.window(at("2024-03-08T20:00:00Z"));
    assert_eq!(night.from_utc_ns, at("2024-03-08T17:00:00Z"));
    assert_eq!(night.until_utc_ns, at("2024-03-09T08:00:00Z"));
    assert_eq!(night.session_utc_ns, at("2024-03-08T08:00:00Z"));
    assert!(!schedule.same_session(at("2024-03-08T16:00:00Z"), at("2024-03-09T08:00:00Z")));
    assert!(schedule.same_session(at("2024-03-08T08:00:00Z"), at("2024-03-09T07:59:59Z")));
}

#[test]
fn equal_times_make_a_session_of_a_day() {
    let schedule = schedule(hours("00:00:00", "00:00:00"));
    let window = schedule.window(at("2024-03-08T23:59:59Z"));
    assert!(window.open);
    assert_eq!(window.until_utc_ns, at("2024-03-09T00:00:00Z"));
    assert!(!schedule.same_session(at("2024-03-08T23:59:59Z"), at("2024-03-09T00:00:00Z")));
}

#[test]
fn a_session_over_midnight_belongs_to_the_day_it_began() {
    let schedule = schedule(hours("18:00:00", "17:00:00"));
    assert!(schedule.window(at("2024-03-08T00:30:00Z")).open);
    assert_eq!(schedule.window(at("2024-03-08T00:30:00Z")).session_utc_ns, at("2024-03-07T18:00:00Z"));
    assert!(!schedule.window(at("2024-03-08T17:30:00Z")).open);
}

#[test]
fn weekdays_leave_days_out() {
    let text = ScheduleText { weekdays: Some("mon, Tue,WED,thursday,fr"), ..hours("08:00:00", "17:00:00") };
    let schedule = schedule(text);
    assert!(schedule.window(at("2024-03-08T12:00:00Z")).open, "a Friday");
    let saturday = schedule.window(at("2024-03-09T12:00:00Z"));
    assert!(!saturday.open);
    assert_eq!(saturday.until_utc_ns, at("2024-03-11T08:00:00Z"));
}

#[test]
fn a_weekly_session_spans_days() {
    let text = ScheduleText { start_day: Some("sun"), end_day: Some("fri"), ..hours("17:00:00", "16:00:00") };
    let schedule = schedule(text);
    let wednesday = schedule.window(at("2024-03-06T03:00:00Z"));
    assert!(wednesday.open);
    assert_eq!(wednesday.session_utc_ns, at("2024-03-03T17:00:00Z"));
    assert_eq!(wednesday.until_utc_ns, at("2024-03-08T16:00:00Z"));
    assert!(!schedule.window(at("2024-03-09T03:00:00Z")).open);
    assert!(!schedule.window(at("2024-03-10T16:59:59Z")).open);
    assert!(schedule.window(at("2024-03-10T17:00:00Z")).open);
}

#[test]
fn a_weekly_session_may_last_the_whole_week_or_one_day() {
    let week = ScheduleText { start_day: Some("sun"), end_day: Some("sun"), ..hours("00:00:00", "00:00:00") };
    let window = schedule(week).window(at("2024-03-09T23:59:59Z"));
    assert!(window.open && window.until_utc_ns == at("2024-03-10T00:00:00Z"));
    let day = ScheduleText { start_day: Some("tue"), end_day: Some("tue"), ..hours("08:00:00", "09:00:00") };
    assert!(schedule(day).window(at("2024-03-05T08:30:00Z")).open);
    assert!(!schedule(day).window(at("2024-03-05T09:00:00Z")).open);
}

#[test]
fn clock_changes_move_the_session_with_the_wall_clock() {
    let text = ScheduleText { time_zone: Some("America/New_York"), ..hours("09:30:00", "16:00:00") };
    let schedule = schedule(text);
    assert_eq!(schedule.window(at("2024-03-08T15:00:00Z")).session_utc_ns, at("2024-03-08T14:30:00Z"));
    assert_eq!(schedule.window(at("2024-03-11T15:00:00Z")).session_utc_ns, at("2024-03-11T13:30:00Z"));
}

#[test]
fn a_time_that_a_clock_change_leaves_out_or_repeats_still_begins_one_session() {
    let text = hours("02:30:00 America/New_York", "02:30:00");
    let schedule = schedule(text);
    let spring = schedule.window(at("2024-03-10T12:00:00Z"));
    assert_eq!(spring.session_utc_ns, at("2024-03-10T07:30:00Z"), "02:30 does not exist: 03:30 EDT");
    let autumn = schedule.window(at("2024-11-03T12:00:00Z"));
    assert!(autumn.open && autumn.until_utc_ns == at("2024-11-04T07:30:00Z"));
}

#[test]
fn windows_follow_each_other_without_gap_or_overlap() {
    let texts = [
        ScheduleText { time_zone: Some("Europe/Berlin"), ..hours("22:00:00", "21:00:00") },
        ScheduleText { time_zone: Some("America/New_York"), ..hours("01:30:00", "01:15:00") },
        ScheduleText { weekdays: Some("mon,wed"), ..hours("10:00:00", "09:00:00") },
        ScheduleText { start_day: Some("sun"), end_day: Some("fri"), ..hours("17:00:00", "17:00:00") },
    ];
    for text in texts {
        let schedule = schedule(text);
        let (mut moment, end) = (at("2024-01-01T00:00:00Z"), at("2025-01-01T00:00:00Z"));
        let mut session = i64::MIN;
        while moment < end {
            let window = schedule.window(moment);
            assert!(window.holds_at(moment) && window.session_utc_ns >= session, "{schedule:?} {moment}: {window:?}");
            assert_eq!(schedule.window(window.until_utc_ns - 1), window, "{schedule:?}");
            (moment, session) = (window.until_utc_ns, window.session_utc_ns);
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = [
        ScheduleText { start_time: Some("08:00:00"), ..ScheduleText::default() },
        hours("24:00:00", "08:00:00"),
        hours("08:00:00:00", "09:00:00"),
        hours("8", "09:00:00"),
        hours("08:00:00 Mars/Olympus", "09:00:00"),
        hours("08:00:00 Europe/Berlin", "09:00:00 Europe/Paris"),
        ScheduleText { start_day: Some("mon"), ..hours("08:00:00", "09:00:00") },
        ScheduleText { start_day: Some("mon"), end_day: Some("x"), ..hours("08:00:00", "09:00:00") },
        ScheduleText { weekdays: Some("mon,,tue"), ..hours("08:00:00", "09:00:00") },
        ScheduleText {
            weekdays: Some("mon"),
            start_day: Some("mon"),
            end_day: Some("fri"),
            ..hours("08:00:00", "09:00:00")
        },
        ScheduleText { non_stop_session: true, ..hours("08:00:00", "09:00:00") },
        ScheduleText { weekdays: Some("mon"), ..ScheduleText::default() },
    ];
    for text in refused {
        assert!(Schedule::from_text(&text).is_err(), "{text:?}");
    }
    let whole_day = ScheduleText { non_stop_session: true, ..hours("00:00:00", "00:00:00") };
    assert_eq!(Schedule::from_text(&whole_day).unwrap(), Schedule::non_stop(), "as QuickFIX/J's examples have it");
}
