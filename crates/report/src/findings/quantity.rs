//! Numbers for people: few digits, the unit that fits, never an exponent.
//!
//! Headings, tiles and charts have two digits, rounded to the nearest. Tables have three, rounded so that they never flatter: times up.
//! Factors are rounded down and intervals grow, in both.

use crate::number::NO_BREAK;

/// What was not measured.
pub const ABSENT: &str = "–";

/// Rounding noise of `f64` arithmetic.
const ARITHMETIC_ERROR: f64 = 1e-9;

/// Beyond this a time is no measurement, and its digits would break a page.
const SECONDS_MAX: f64 = 1e6;

/// From here on a factor is no measurement.
const FACTOR_MAX: f64 = 1e6;

/// Digits that count in a heading, a tile or a chart.
const BRIEF: i32 = 2;

/// Digits that count in a table.
const PRECISE: i32 = 3;

/// The units of time.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Nearest,
    Up,
}

/// A time with two digits: `4.9 µs`.
pub fn brief(ns: f64) -> String {
    time(ns, BRIEF, Rounding::Nearest)
}

/// A time with three digits, rounded up: `4.92 µs`.
pub fn precise(ns: f64) -> String {
    time(ns, PRECISE, Rounding::Up)
}

/// [`brief`] of a time that may not have been measured.
pub fn brief_or_absent(ns: Option<f64>) -> String {
    ns.map_or_else(|| ABSENT.into(), brief)
}

/// [`precise`] of a time that may not have been measured.
pub fn precise_or_absent(ns: Option<f64>) -> String {
    ns.map_or_else(|| ABSENT.into(), precise)
}

/// A tick of an axis: a round number, its zeros cut (`5 µs`).
pub fn tick(ns: f64) -> String {
    let (value, unit) = scaled(ns, PRECISE, Rounding::Nearest);
    if !(0.0..SECONDS_MAX).contains(&value) {
        return time(ns, PRECISE, Rounding::Nearest);
    }
    let text = if value.fract() == 0.0 { format!("{value:.0}") } else { trimmed(value) };
    format!("{}{NO_BREAK}{unit}", grouped(&text))
}

/// An interval of times: the unit once where both ends share it, grown on both sides.
pub fn interval([low, high]: [f64; 2]) -> String {
    let (low, high) = (time(low, PRECISE, Rounding::Down), time(high, PRECISE, Rounding::Up));
    match (low.split_once(NO_BREAK), high.split_once(NO_BREAK)) {
        (Some((number, one)), Some((_, other))) if one == other => format!("{number}–{high}"),
        _ => format!("{low}–{high}"),
    }
}

/// A factor of two times, 1 or more, rounded down: `2.0×`.
pub fn factor(times: f64) -> String {
    sized(times, Rounding::Down, "×")
}

/// An interval of factors, grown on both sides: `1.9–2.2×`.
pub fn factors(low: f64, high: f64) -> String {
    format!("{}–{}", sized(low, Rounding::Down, ""), sized(high, Rounding::Up, "×"))
}

/// How far a factor is above 1, as per cent, rounded down: 1.123 is `12 %`.
pub fn percent_above(times: f64) -> String {
    percent((times - 1.0) * 100.0, Rounding::Down)
}

/// An interval of [`percent_above`], grown on both sides: `8–17 %`.
pub fn percents_above(low: f64, high: f64) -> String {
    let text = percent((low - 1.0) * 100.0, Rounding::Down);
    let number = text.split(NO_BREAK).next().unwrap_or_default();
    format!("{number}–{}", percent((high - 1.0) * 100.0, Rounding::Up))
}

/// A share, 0..1, as per cent, rounded up: `0.03 %`.
pub fn share(part: f64) -> String {
    percent(part * 100.0, Rounding::Up)
}

/// A count with three digits: `61.2 k`, `1.01 M`; small ones whole.
pub fn samples(count: u64) -> String {
    let value = count as f64;
    match count {
        0..10_000 => grouped(&count.to_string()),
        _ => large(value, PRECISE),
    }
}

/// Messages per second with two digits: `42 M`.
pub fn per_second(rate: f64) -> String {
    if rate.is_finite() && rate >= 0.0 { large(rate, BRIEF) } else { ABSENT.into() }
}

/// A message size: `1,472 B`.
pub fn bytes(size: u32) -> String {
    format!("{}{NO_BREAK}B", grouped(&size.to_string()))
}

/// The pace of round trips, to follow a title: `, one due every 1.0 ms`; empty for a closed loop.
pub fn pace(per_second: Option<f64>) -> String {
    let each = per_second.filter(|rate| *rate > 0.0).map(|rate| brief(1e9 / rate));
    each.map(|each| format!(", one due every {each}")).unwrap_or_default()
}

/// Parts of a whole as per cent, rounded to the nearest.
pub fn part(share: f64) -> String {
    if share.is_finite() { format!("{:.0}{NO_BREAK}%", share.clamp(0.0, 1.0) * 100.0) } else { ABSENT.into() }
}

/// A whole number with its thousands apart.
pub fn whole(value: f64) -> String {
    if value.is_finite() && value.abs() < 1e15 { grouped(&format!("{value:.0}")) } else { ABSENT.into() }
}

fn large(value: f64, digits: i32) -> String {
    let value = rounded(value, digits, Rounding::Nearest);
    let (scaled, suffix) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => return grouped(&format!("{value:.0}")),
    };
    if scaled >= FACTOR_MAX {
        return ABSENT.into();
    }
    format!("{}{NO_BREAK}{suffix}", fixed(scaled, digits))
}

fn percent(value: f64, rounding: Rounding) -> String {
    let value = if value.is_finite() { value } else { return ABSENT.into() };
    let shown = if value.abs() < 10.0 {
        rounded(value, if value.abs() < 1.0 { 1 } else { 2 }, rounding)
    } else {
        at(value, rounding)
    };
    if shown.abs() >= FACTOR_MAX {
        return ABSENT.into();
    }
    let text = if shown.fract() == 0.0 { format!("{shown:.0}") } else { trimmed(shown) };
    format!("{}{NO_BREAK}%", grouped(&text))
}

/// A factor: one decimal below 10, none above.
fn sized(value: f64, rounding: Rounding, unit: &str) -> String {
    match value {
        value if !value.is_finite() || value < 0.0 => ABSENT.into(),
        value if value >= FACTOR_MAX => format!("over{NO_BREAK}1,000,000{unit}"),
        value if value < 10.0 => {
            let tenths = at(value * 10.0, rounding) / 10.0;
            format!("{tenths:.1}{unit}")
        }
        value => format!("{}{unit}", grouped(&format!("{:.0}", at(value, rounding)))),
    }
}

fn time(ns: f64, digits: i32, rounding: Rounding) -> String {
    if !ns.is_finite() || ns < 0.0 {
        return ABSENT.into();
    }
    let (value, unit) = scaled(ns, digits, rounding);
    if unit == "s" && value >= SECONDS_MAX {
        return format!("over{NO_BREAK}1,000,000{NO_BREAK}s");
    }
    format!("{}{NO_BREAK}{unit}", grouped(&fixed(value, digits)))
}

/// The value in the unit that fits it after rounding.
fn scaled(ns: f64, digits: i32, rounding: Rounding) -> (f64, &'static str) {
    let inside = |(_, size): &&(&str, f64)| rounded(ns / size, digits, rounding) < 1e3;
    let (unit, size) = UNITS.iter().find(inside).unwrap_or(&UNITS[3]);
    (rounded(ns / size, digits, rounding), unit)
}

/// `value` with so many digits that count.
fn rounded(value: f64, digits: i32, rounding: Rounding) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let place = (digits - 1 - value.abs().log10().floor() as i32).clamp(-300, 9);
    let scale = 10_f64.powi(place);
    at(value * scale, rounding) / scale
}

/// `value` as a whole number.
fn at(value: f64, rounding: Rounding) -> f64 {
    let error = value.abs() * ARITHMETIC_ERROR;
    match rounding {
        Rounding::Down => (value + error).floor(),
        Rounding::Nearest => value.round(),
        Rounding::Up => (value - error).ceil(),
    }
}

/// The decimals that so many digits need, trailing zeros kept: `2.0`.
fn fixed(value: f64, digits: i32) -> String {
    let whole = if value >= 1.0 { value.log10().floor() as i32 + 1 } else { 1 };
    let decimals = (digits - whole).clamp(0, 3) as usize;
    format!("{value:.decimals$}")
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A comma before every group of three digits, from 1,000 on.
fn grouped(text: &str) -> String {
    let (whole, rest) = text.split_once('.').map_or((text, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: impl AsRef<str>) -> String {
        text.as_ref().replace(NO_BREAK, " ")
    }

    #[test]
    fn the_unit_is_that_of_the_rounded_value() {
        let times = [0.0, 0.34, 7.0, 370.2, 999.4, 999.6, 4_919.0, 5_107.0, 20_079.0, 434_987_260.0, 61e9, 1e14];
        let shown: Vec<String> = times.iter().map(|ns| plain(brief(*ns))).collect();
        let expected = [
            "0.0 ns",
            "0.3 ns",
            "7.0 ns",
            "370 ns",
            "1.0 µs",
            "1.0 µs",
            "4.9 µs",
            "5.1 µs",
            "20 µs",
            "430 ms",
            "61 s",
            "100,000 s",
        ];
        assert_eq!(shown, expected);
        assert_eq!(plain(precise(434_987_260.0)), "435 ms");
        assert_eq!((plain(precise(4_911.0)), plain(precise(999_001.0))), ("4.92 µs".into(), "1.00 ms".into()));
        assert_eq!(plain(tick(5_000.0)) + &plain(tick(2_500.0)), "5 µs2.5 µs");
    }

    #[test]
    fn intervals_grow_and_name_the_unit_once() {
        assert_eq!(plain(interval([3_893.0, 6_963.0])), "3.89–6.97 µs");
        assert_eq!(plain(interval([893.0, 6_963.0])), "893 ns–6.97 µs");
        assert_eq!((factors(1.87, 2.23), factors(13.59, 14.2)), ("1.8–2.3×".into(), "13–15×".into()));
        assert_eq!(
            (factor(2.09), factor(46.9), factor(1e9)),
            ("2.0×".into(), "46×".into(), "over\u{a0}1,000,000×".into())
        );
        assert_eq!(
            (plain(percent_above(1.129)), plain(percents_above(1.082, 1.163))),
            ("12 %".into(), "8.2–17 %".into())
        );
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(
            (samples(9_603), plain(samples(61_234)), plain(samples(1_013_000))),
            ("9,603".into(), "61.2 k".into(), "1.01 M".into())
        );
        assert_eq!((plain(per_second(41_901_756.0)), whole(65_115.2)), ("42 M".into(), "65,115".into()));
        assert_eq!((plain(share(0.000_299)), plain(share(0.4077))), ("0.03 %".into(), "41 %".into()));
    }

    proptest! {
        #[test]
        fn any_bits_have_a_short_form(bits: u64, other: u64) {
            let (a, b) = (f64::from_bits(bits), f64::from_bits(other));
            let texts = [
                brief(a), precise(a), tick(a), interval([a, b]), factor(a), factors(a, b), percent_above(a), percents_above(a, b),
                share(a), per_second(a), whole(a), samples(bits),
            ];
            for text in texts {
                prop_assert!(text.chars().count() < 50, "{text}");
                prop_assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains('e'.to_string().repeat(2).as_str()));
            }
        }

        #[test]
        fn a_table_never_flatters(ns in 1.0_f64..1e13) {
            let text = plain(precise(ns)).replace(',', "");
            let (value, unit) = text.split_once(' ').unwrap();
            let size = UNITS.iter().find(|(name, _)| *name == unit).unwrap().1;
            let shown = value.parse::<f64>().unwrap() * size;
            prop_assert!(shown >= ns * (1.0 - 1e-6) && shown <= ns * 1.0101);
        }
    }
}
