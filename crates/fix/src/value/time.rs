//! `UTCTimestamp`, `UTCTimeOnly`, `UTCDateOnly`.

use super::number::{two_digits, unsigned};

const NS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const NS_PER_DAY: i64 = SECONDS_PER_DAY * NS_PER_SECOND;

/// The number of digits after the seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// `HH:MM:SS`: all that FIX 4.0 and 4.1 know.
    Seconds,
    /// `HH:MM:SS.sss`.
    #[default]
    Millis,
    /// `HH:MM:SS.ssssss` (FIX 5.0 SP2 and by agreement).
    Micros,
    /// `HH:MM:SS.sssssssss`.
    Nanos,
}

impl Precision {
    /// The number of digits after the point.
    pub const fn digits(self) -> usize {
        match self {
            Self::Seconds => 0,
            Self::Millis => 3,
            Self::Micros => 6,
            Self::Nanos => 9,
        }
    }
}

/// A date of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcDate {
    /// 0 to 9999.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

impl UtcDate {
    /// Reads `YYYYMMDD` (`UTCDateOnly`, `LocalMktDate`) that is a day of the calendar.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; 8] = text.try_into().ok()?;
        let year = u16::try_from(unsigned(&text[..4])?).ok()?;
        let (month, day) = (pair(text[4], text[5])?, pair(text[6], text[7])?);
        let is_day = (1..=12).contains(&month) && day >= 1 && day <= days_of(year, month);
        is_day.then_some(Self { year, month, day })
    }

    /// The date as FIX writes it.
    pub fn text(self) -> [u8; 8] {
        let century = two_digits(usize::from(self.year / 100));
        let year = two_digits(usize::from(self.year % 100));
        let (month, day) = (two_digits(usize::from(self.month)), two_digits(usize::from(self.day)));
        [century[0], century[1], year[0], year[1], month[0], month[1], day[0], day[1]]
    }

    /// Days since 1970-01-01 (H. Hinnant's algorithm: years begin in March, so that the leap day is the last).
    pub(crate) fn days_since_epoch(self) -> i64 {
        let month = i64::from(self.month);
        let year = i64::from(self.year) - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// The date that many days after 1970-01-01; held within the years 0 to 9999.
    pub(crate) fn from_days(days: i64) -> Self {
        let shifted = days.clamp(-719_528, 2_932_896) + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year: year as u16, month: month as u8, day: (day_of_year - (153 * march_month + 2) / 5 + 1) as u8 }
    }
}

/// A time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime {
    /// ns since midnight. A leap second (`23:59:60`) counts as the first second of the next day.
    pub ns: i64,
}

impl UtcTime {
    /// Parses `HH:MM:SS`, optionally with a point and 3, 6, 9 or 12 digits after it. Picoseconds are truncated.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let [h1, h2, b':', m1, m2, b':', s1, s2, fraction @ ..] = text else { return None };
        let (hour, minute, second) = (pair(*h1, *h2)?, pair(*m1, *m2)?, pair(*s1, *s2)?);
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Some(Self { ns: seconds * NS_PER_SECOND + fraction_ns(fraction)? })
    }
}

/// A moment: ns since 1970-01-01 UTC, leap seconds not counted (years 1677 to 2262).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UtcTimestamp {
    /// ns since 1970-01-01 UTC.
    pub ns: i64,
}

/// Bytes of the longest timestamp: `YYYYMMDD-HH:MM:SS.nnnnnnnnn`.
pub(crate) const TIMESTAMP_BYTES_MAX: usize = 27;

impl UtcTimestamp {
    /// Parses `YYYYMMDD-HH:MM:SS`, optionally with a point and 3, 6, 9 or 12 digits after it. `None` also beyond the
    /// years that the type holds.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (date, rest) = text.split_at_checked(8)?;
        let days = UtcDate::parse(date)?.days_since_epoch();
        let time = UtcTime::parse(rest.strip_prefix(b"-")?)?;
        // The first moments that an i64 holds belong to a day whose beginning it does not hold: counted back from its end.
        let (days, ns) = if days < 0 { (days + 1, time.ns - NS_PER_DAY) } else { (days, time.ns) };
        days.checked_mul(NS_PER_DAY)?.checked_add(ns).map(|ns| Self { ns })
    }

    /// The date in UTC.
    pub fn date(self) -> UtcDate {
        UtcDate::from_days(self.ns.div_euclid(NS_PER_DAY))
    }

    /// Writes the moment as FIX does; returns the bytes used.
    pub fn write(self, precision: Precision, buffer: &mut [u8; 27]) -> usize {
        buffer[..17].copy_from_slice(&seconds_text(self.ns.div_euclid(NS_PER_SECOND)));
        17 + write_fraction(self.ns, precision, &mut buffer[17..])
    }
}

/// `YYYYMMDD-HH:MM:SS`.
fn seconds_text(seconds: i64) -> [u8; 17] {
    let mut text = *b"00000000-00:00:00";
    text[..8].copy_from_slice(&UtcDate::from_days(seconds.div_euclid(SECONDS_PER_DAY)).text());
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY) as usize;
    text[9..11].copy_from_slice(&two_digits(of_day / 3600));
    text[12..14].copy_from_slice(&two_digits(of_day / 60 % 60));
    text[15..17].copy_from_slice(&two_digits(of_day % 60));
    text
}

/// Writes `.sss`, `.ssssss`, `.sssssssss` or nothing; returns the bytes used.
fn write_fraction(ns: i64, precision: Precision, buffer: &mut [u8]) -> usize {
    let digits = precision.digits();
    if digits == 0 {
        return 0;
    }
    let ns = ns.rem_euclid(NS_PER_SECOND) as usize;
    let millis = ns / 1_000_000;
    buffer[0] = b'.';
    buffer[1] = b'0' + (millis / 100) as u8;
    buffer[2..4].copy_from_slice(&two_digits(millis));
    for (at, value) in [(4, ns / 1000), (7, ns)].into_iter().take(digits / 3 - 1) {
        buffer[at] = b'0' + (value / 100 % 10) as u8;
        buffer[at + 1..at + 3].copy_from_slice(&two_digits(value));
    }
    digits + 1
}

/// The last second written, so that a second is turned into a date once and not per message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedTime {
    second: i64,
    text: [u8; 17],
}

impl CachedTime {
    pub(crate) fn new() -> Self {
        Self { second: 0, text: seconds_text(0) }
    }

    /// Writes the moment as FIX does; returns the bytes used.
    #[inline]
    pub(crate) fn write(
        &mut self,
        moment: UtcTimestamp,
        precision: Precision,
        to: &mut [u8; TIMESTAMP_BYTES_MAX],
    ) -> usize {
        let second = moment.ns.div_euclid(NS_PER_SECOND);
        if second != self.second {
            self.second = second;
            self.text = seconds_text(second);
        }
        to[..17].copy_from_slice(&self.text);
        17 + write_fraction(moment.ns, precision, &mut to[17..])
    }
}

fn pair(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| tens * 10 + ones)
}

fn days_of(year: u16, month: u8) -> u8 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `.sss` and its longer kin in ns; nothing is 0.
fn fraction_ns(text: &[u8]) -> Option<i64> {
    let Some((b'.', digits)) = text.split_first() else { return text.is_empty().then_some(0) };
    let by = match digits.len() {
        3 => 1_000_000,
        6 => 1_000,
        9 | 12 => 1,
        _ => return None,
    };
    let value = unsigned(digits)?;
    let ns = if digits.len() == 12 { value / 1000 } else { value * by };
    i64::try_from(ns).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_every_precision() {
        let at = |text: &str| UtcTimestamp::parse(text.as_bytes()).map(|moment| moment.ns);
        assert_eq!(at("19700101-00:00:00"), Some(0));
        assert_eq!(at("20010909-01:46:40.123"), Some(1_000_000_000_123_000_000));
        assert_eq!(at("20010909-01:46:40.123456"), Some(1_000_000_000_123_456_000));
        assert_eq!(at("20010909-01:46:40.123456789"), Some(1_000_000_000_123_456_789));
        assert_eq!(at("20010909-01:46:40.123456789012"), Some(1_000_000_000_123_456_789));
        assert_eq!(at("20161231-23:59:60"), at("20170101-00:00:00"));
        assert_eq!(at("19691231-23:59:59.999"), Some(-1_000_000));
    }

    #[test]
    fn refuses_what_is_no_moment() {
        for wrong in [
            "",
            "20010909",
            "20010909-",
            "20010909 01:46:40",
            "20010909-1:46:40",
            "20010909-24:00:00",
            "20010909-01:60:00",
            "20010909-01:46:61",
            "20010909-01:46:40.",
            "20010909-01:46:40.1",
            "20010909-01:46:40.1234",
            "20010229-00:00:00",
            "20010900-00:00:00",
            "20011309-00:00:00",
            "2001+909-00:00:00",
            "99991231-00:00:00",
            "20010909-01:46:40,123",
        ] {
            assert_eq!(UtcTimestamp::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_cache_writes_what_the_type_writes() {
        let mut cache = CachedTime::new();
        for ns in [0, 1, 999_999_999, 1_000_000_000, 951_782_400_000_000_000, -1, 1_700_000_000_987_654_321] {
            for precision in [Precision::Seconds, Precision::Millis, Precision::Micros, Precision::Nanos] {
                let mut buffer = [0; TIMESTAMP_BYTES_MAX];
                let length = UtcTimestamp { ns }.write(precision, &mut buffer);
                let mut cached = [0; TIMESTAMP_BYTES_MAX];
                assert_eq!(cache.write(UtcTimestamp { ns }, precision, &mut cached), length);
                assert_eq!(cached[..length], buffer[..length]);
            }
        }
    }

    proptest! {
        #[test]
        fn every_moment_survives(ns: i64) {
            let mut buffer = [0; TIMESTAMP_BYTES_MAX];
            let length = UtcTimestamp { ns }.write(Precision::Nanos, &mut buffer);
            prop_assert_eq!(UtcTimestamp::parse(&buffer[..length]), Some(UtcTimestamp { ns }));
        }

        #[test]
        fn the_first_and_the_last_moments_survive(after: u32, day in -1i64..=1) {
            for ns in [i64::MIN + i64::from(after) + (day + 1) * NS_PER_DAY, i64::MAX - i64::from(after)] {
                let mut buffer = [0; TIMESTAMP_BYTES_MAX];
                let length = UtcTimestamp { ns }.write(Precision::Nanos, &mut buffer);
                prop_assert_eq!(UtcTimestamp::parse(&buffer[..length]), Some(UtcTimestamp { ns }));
            }
        }

        #[test]
        fn every_day_survives(days in -719_528i64..=2_932_896) {
            let date = UtcDate::from_days(days);
            prop_assert_eq!(date.days_since_epoch(), days);
            prop_assert_eq!(UtcDate::parse(&date.text()), Some(date));
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (UtcTimestamp::parse(&text), UtcTime::parse(&text), UtcDate::parse(&text));
        }
    }
}
