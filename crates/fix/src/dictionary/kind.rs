//! Data types of fields, and the format of their values.

use crate::value::{self, UtcDate, UtcTime, UtcTimestamp, is_float, is_int};

/// A data type of the FIX specification; those that are written alike are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `int`.
    Int,
    /// `Length`, `SeqNum`, `TagNum`: digits.
    Unsigned,
    /// `NumInGroup`: digits; opens a repeating group.
    NumInGroup,
    /// `DayOfMonth`: 1 to 31.
    DayOfMonth,
    /// `float`, `Qty`, `Price`, `PriceOffset`, `Amt`, `Percentage`.
    Float,
    /// `char`.
    Char,
    /// `Boolean`.
    Boolean,
    /// `String` and what is written like one: `Currency`, `Country`, `Exchange`, `Language`, `Tenor`.
    Text,
    /// `MultipleCharValue`, `MultipleStringValue`: texts with blanks between them.
    Multiple,
    /// `MonthYear`: `YYYYMM`, `YYYYMMDD` or `YYYYMMwN`.
    MonthYear,
    /// `UTCTimestamp`.
    UtcTimestamp,
    /// `UTCTimeOnly`.
    UtcTimeOnly,
    /// `UTCDateOnly`, `LocalMktDate`.
    Date,
    /// `LocalMktTime`: `HH:MM:SS`.
    LocalTime,
    /// `TZTimeOnly`: `HH:MM[:SS][Z|+hh[:mm]|-hh[:mm]]`.
    TzTimeOnly,
    /// `TZTimestamp`: a date, and a time of the above kind.
    TzTimestamp,
    /// `data`, `XMLData`: any bytes; the field before holds their number.
    Data,
}

impl Kind {
    /// The kind of a data type by its name in FIX Orchestra or in QuickFIX's files; `None` for a name in neither. FIX 4.0
    /// and 4.1 called a text of any length `char`.
    pub(crate) fn by_name(name: &str, is_before_4_2: bool) -> Option<Self> {
        // QuickFIX/J's files write some with hyphens (MONTH-YEAR).
        Some(match name.replace('-', "").to_ascii_uppercase().as_str() {
            "CHAR" if is_before_4_2 => Self::Text,
            "CHAR" => Self::Char,
            "INT" => Self::Int,
            "LENGTH" | "SEQNUM" | "TAGNUM" => Self::Unsigned,
            "NUMINGROUP" => Self::NumInGroup,
            "DAYOFMONTH" => Self::DayOfMonth,
            "FLOAT" | "QTY" | "QUANTITY" | "PRICE" | "PRICEOFFSET" | "AMT" | "PERCENTAGE" => Self::Float,
            "BOOLEAN" => Self::Boolean,
            "STRING" | "CURRENCY" | "COUNTRY" | "EXCHANGE" | "LANGUAGE" | "TENOR" | "PATTERN" | "XID" | "XIDREF"
            | "RESERVED100PLUS" | "RESERVED1000PLUS" | "RESERVED4000PLUS" | "UNKNOWN" => Self::Text,
            "MULTIPLEVALUESTRING" | "MULTIPLESTRINGVALUE" | "MULTIPLECHARVALUE" => Self::Multiple,
            "MONTHYEAR" => Self::MonthYear,
            "UTCTIMESTAMP" | "TIME" => Self::UtcTimestamp,
            "UTCTIMEONLY" => Self::UtcTimeOnly,
            "UTCDATE" | "UTCDATEONLY" | "LOCALMKTDATE" | "DATE" => Self::Date,
            "LOCALMKTTIME" => Self::LocalTime,
            "TZTIMEONLY" => Self::TzTimeOnly,
            "TZTIMESTAMP" => Self::TzTimestamp,
            "DATA" | "XMLDATA" => Self::Data,
            _ => return None,
        })
    }

    /// Returns whether a value has the form of its type (SessionRejectReason 6 if not).
    pub fn accepts(self, text: &[u8]) -> bool {
        match self {
            Self::Int => is_int(text),
            Self::Unsigned | Self::NumInGroup => value::unsigned(text).is_some(),
            Self::DayOfMonth => value::unsigned(text).is_some_and(|day| (1..=31).contains(&day)),
            Self::Float => is_float(text),
            Self::Char => text.len() == 1,
            Self::Boolean => value::boolean(text).is_some(),
            Self::Text | Self::Multiple | Self::Data => true,
            Self::MonthYear => is_month_year(text),
            Self::UtcTimestamp => UtcTimestamp::parse(text).is_some(),
            Self::UtcTimeOnly | Self::LocalTime => UtcTime::parse(text).is_some(),
            Self::Date => UtcDate::parse(text).is_some(),
            Self::TzTimeOnly => is_tz_time(text),
            Self::TzTimestamp => is_tz_timestamp(text),
        }
    }
}

fn is_month_year(text: &[u8]) -> bool {
    let month = |text: &[u8]| UtcDate::parse(&[text, b"01"].concat()).is_some();
    match text.len() {
        6 => month(text),
        8 if text[6] == b'w' => month(&text[..6]) && (b'1'..=b'5').contains(&text[7]),
        8 => UtcDate::parse(text).is_some(),
        _ => false,
    }
}

fn is_tz_timestamp(text: &[u8]) -> bool {
    text.split_at_checked(8)
        .is_some_and(|(date, rest)| UtcDate::parse(date).is_some() && rest.strip_prefix(b"-").is_some_and(is_tz_time))
}

/// `HH:MM[:SS[.fraction]]` and perhaps `Z`, `+hh`, `-hh`, `+hh:mm` or `-hh:mm`.
fn is_tz_time(text: &[u8]) -> bool {
    let zone = text.iter().position(|byte| matches!(byte, b'Z' | b'+' | b'-')).unwrap_or(text.len());
    let (time, zone) = text.split_at(zone);
    let clock = |text: &[u8], hours: u64| value::unsigned(text).is_some_and(|hour| hour < hours);
    let minutes = |text: &[u8]| matches!(text, [b':', b'0'..=b'5', b'0'..=b'9']);
    let is_time = match time.len() {
        5 => clock(&time[..2], 24) && minutes(&time[2..]),
        _ => UtcTime::parse(time).is_some(),
    };
    let is_zone = match zone {
        [] | [b'Z'] => true,
        [b'+' | b'-', h1, h2] => clock(&[*h1, *h2], 15),
        [b'+' | b'-', h1, h2, rest @ ..] => clock(&[*h1, *h2], 15) && minutes(rest),
        _ => false,
    };
    is_time && is_zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_knows_its_values() {
        let cases: &[(Kind, &[&str], &[&str])] = &[
            (Kind::Int, &["1", "-1", "007"], &["+1", "1.0", "x"]),
            (Kind::Unsigned, &["0", "17"], &["-1", "", "1 "]),
            (Kind::DayOfMonth, &["1", "31"], &["0", "32", "-1"]),
            (Kind::Float, &["1", "-1.5", "002000.00"], &["+200.00", "1e3", "."]),
            (Kind::Char, &["1", "A"], &["12", ""]),
            (Kind::Boolean, &["Y", "N"], &["y", "1"]),
            (
                Kind::MonthYear,
                &["202611", "20261121", "202611w3"],
                &["202613", "2026", "202611w6", "202611w", "20261131"],
            ),
            (Kind::UtcTimestamp, &["20261121-23:50:00", "20261121-23:50:00.123456"], &["20261121", "2026-11-21"]),
            (Kind::UtcTimeOnly, &["23:50:00", "23:50:00.001"], &["23:50", "24:00:00"]),
            (Kind::Date, &["20261121"], &["20261131", "2026112"]),
            (
                Kind::TzTimeOnly,
                &["07:39Z", "02:39-05", "15:39+08", "13:09+05:30", "07:39", "07:39:12"],
                &["7:39", "07:60", "07:39+15", "07:39+05:3"],
            ),
            (
                Kind::TzTimestamp,
                &["20060901-07:39Z", "20060901-13:09:00.123+05:30"],
                &["20060901", "20060901-7:39Z", "20060931-07:39"],
            ),
        ];
        for (kind, good, bad) in cases {
            for text in *good {
                assert!(kind.accepts(text.as_bytes()), "{kind:?} {text}");
            }
            for text in *bad {
                assert!(!kind.accepts(text.as_bytes()), "{kind:?} {text}");
            }
        }
    }

    #[test]
    fn a_char_was_once_a_text() {
        assert_eq!(Kind::by_name("CHAR", true), Some(Kind::Text));
        assert_eq!(Kind::by_name("char", false), Some(Kind::Char));
        assert_eq!(Kind::by_name("nothing", false), None);
        assert_eq!(Kind::by_name("MONTH-YEAR", false), Some(Kind::MonthYear));
        assert_eq!(Kind::by_name("DAY-OF-MONTH", false), Some(Kind::DayOfMonth));
    }
}
