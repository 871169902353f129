//! Formatting of numbers. One rule: **rounding never flatters**.
//!
//! Times, ratios of times and losses are rounded up, never down; a rate, or how many times one time lies below another,
//! is rounded down; an interval grows on both sides.

/// Rounding noise of `f64` arithmetic, so that 5.60 computed as 5.600000000000001 does not become 5.61.
const ARITHMETIC_ERROR: f64 = 1e-9;

/// Below this two decimals of a microsecond would be less than two digits.
const FINE_BELOW_NS: f64 = 100.0;

/// The text for a missing number.
pub(crate) const MISSING: &str = "n/a";

/// The space between a number and its unit: no line breaks there.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// The unit and the digits of all times in one table or chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Its symbol.
    pub(crate) name: &'static str,
    /// Nanoseconds in one.
    pub(crate) ns: f64,
    digits: usize,
}

impl Unit {
    const NS: Self = Self { name: "ns", ns: 1.0, digits: 0 };
    const NS_FINE: Self = Self { name: "ns", ns: 1.0, digits: 1 };
    const US: Self = Self { name: "µs", ns: 1e3, digits: 2 };
    const US_FINE: Self = Self { name: "µs", ns: 1e3, digits: 3 };
    const MS: Self = Self { name: "ms", ns: 1e6, digits: 3 };

    /// The unit in which all of these times (typical ones: medians) can be read and compared.
    pub(crate) fn for_times(times_ns: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for ns in times_ns.into_iter().filter(|ns| ns.is_finite() && *ns > 0.0) {
            (low, high) = (low.min(ns), high.max(ns));
        }
        match (low, high) {
            (_, high) if high < 1e3 => Self::NS,
            (low, _) if low < FINE_BELOW_NS => Self::US_FINE,
            (low, _) if low < 1e7 => Self::US,
            _ => Self::MS,
        }
    }

    /// The unit of times per message at full speed: a decimal is needed where some are a few nanoseconds.
    pub(crate) fn for_messages(times_ns: impl IntoIterator<Item = f64>) -> Self {
        match Self::for_times(times_ns) {
            Self::NS => Self::NS_FINE,
            unit => unit,
        }
    }

    /// A time, rounded up.
    pub(crate) fn time(self, ns: f64) -> String {
        up(ns / self.ns, self.digits)
    }

    /// An interval of times, grown on both sides.
    pub(crate) fn interval(self, [low, high]: [f64; 2]) -> String {
        format!("{}..{}", down(low / self.ns, self.digits), self.time(high))
    }

    /// A time that may be missing, rounded up.
    pub(crate) fn time_or_missing(self, ns: Option<f64>) -> String {
        ns.map_or_else(|| MISSING.into(), |ns| self.time(ns))
    }
}

/// One time with a unit of its own.
pub(crate) fn time(ns: f64) -> String {
    let unit = Unit::for_times([ns]);
    format!("{}{NO_BREAK}{}", unit.time(ns), unit.name)
}

/// A number rounded up at `digits` decimals.
pub(crate) fn up(value: f64, digits: usize) -> String {
    let steps = 10_f64.powi(digits as i32);
    let exact = value * steps;
    plain((exact - exact.abs() * ARITHMETIC_ERROR).ceil() / steps, digits)
}

/// A number rounded down at `digits` decimals.
pub(crate) fn down(value: f64, digits: usize) -> String {
    let steps = 10_f64.powi(digits as i32);
    let exact = value * steps;
    plain((exact + exact.abs() * ARITHMETIC_ERROR).floor() / steps, digits)
}

fn plain(value: f64, digits: usize) -> String {
    match value {
        value if !value.is_finite() => MISSING.into(),
        // Beyond this the digits behind the point are noise, and the number would break a table.
        value if value.abs() >= 1e15 => format!("{value:.2e}"),
        value => format!("{:.digits$}", value + 0.0),
    }
}

/// A message size with its unit.
pub(crate) fn bytes(size: u32) -> String {
    format!("{size}{NO_BREAK}B")
}

/// A ratio of two times, rounded up.
pub(crate) fn ratio(value: f64) -> String {
    up(value, ratio_digits(value))
}

/// An interval of ratios, grown on both sides.
pub(crate) fn ratio_interval([low, high]: [f64; 2]) -> String {
    format!("{}..{}", down(low, ratio_digits(low)), ratio(high))
}

/// Enough for three digits that count, down to a thousandth.
fn ratio_digits(value: f64) -> usize {
    match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        _ => 5,
    }
}

/// Formats the factor by which one time lies below another, rounded down.
pub(crate) fn times(value: f64) -> String {
    down(value, if value < 10.0 { 2 } else { 1 })
}

/// A share as per cent, rounded up.
pub(crate) fn percent(share: f64) -> String {
    up(share * 100.0, if share != 0.0 && share < 0.001 { 4 } else { 2 })
}

/// How far a path differs from itself: as per cent, above 100 % as a factor, rounded up.
pub(crate) fn difference(share: f64) -> String {
    match share {
        share if share <= 1.0 => format!("{} %", percent(share)),
        share => format!("a factor of {}", grouped(&up(share + 1.0, if share < 9.0 { 1 } else { 0 }))),
    }
}

/// Shares of a whole as per cent, with one decimal: they add up as the shares do.
pub(crate) fn parts(shares: impl IntoIterator<Item = f64>) -> Vec<String> {
    let (mut sum, mut before) = (0.0, 0.0);
    let mut part = |share: f64| {
        sum += share;
        let (upto, last) = ((sum * 1e3).round(), before);
        before = upto;
        plain((upto - last) / 10.0, 1)
    };
    shares.into_iter().map(&mut part).collect()
}

/// A rate in messages per second, rounded down, with its thousands apart.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        value if !value.is_finite() => MISSING.into(),
        value if value.abs() < 10.0 => down(value, 2),
        value => grouped(&down(value, 0)),
    }
}

/// A time or a number of cycles rounded up to a whole one, its thousands apart.
pub(crate) fn grouped_up(value: f64) -> String {
    grouped(&up(value, 0))
}

/// A count, its thousands apart.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A comma before every group of three digits; what is not a whole number stays as it is.
fn grouped(digits: &str) -> String {
    if digits.len() < 5 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.into();
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size or a rate on an axis: as short as it can be said exactly enough (`250k`, `1.5M`).
pub(crate) fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_up_never_down() {
        assert_eq!(Unit::US.time(3_601.0), "3.61");
        assert_eq!(Unit::US.time(3_600.0), "3.60");
        assert_eq!(Unit::NS.time(280.2), "281");
        assert_eq!(up(0.1 + 0.2, 1), "0.3");
        assert_eq!(ratio(0.93701), "0.938");
        assert_eq!(ratio(0.070_11), "0.0702");
        assert_eq!(percent(0.0), "0.00");
        assert_eq!(percent(0.000_000_1), "0.0001");
    }

    #[test]
    fn gains_are_rounded_down_and_intervals_grow() {
        assert_eq!(times(13.59), "13.5");
        assert_eq!(rate(249_999.9), "249,999");
        assert_eq!(Unit::US.interval([5_569.0, 5_571.0]), "5.56..5.58");
        assert_eq!(ratio_interval([0.9879, 1.0111]), "0.987..1.012");
        assert_eq!(ratio_interval([0.000_021, 36_167.955]), "0.00002..36168");
        assert_eq!(ratio_interval([0.0512, 0.0533]), "0.0512..0.0533");
    }

    #[test]
    fn a_wide_difference_is_a_factor_and_parts_make_a_whole() {
        assert_eq!((difference(0.031), difference(0.9)), ("3.10 %".into(), "90.00 %".into()));
        assert_eq!((difference(1.5), difference(35.2)), ("a factor of 2.5".into(), "a factor of 37".into()));
        assert_eq!(difference(36_166.0), "a factor of 36,167");
        assert_eq!(parts([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]), ["33.3", "33.4", "33.3"]);
        assert_eq!(parts([0.125, 0.875]), ["12.5", "87.5"]);
    }

    #[test]
    fn unit_fits_the_times() {
        assert_eq!(Unit::for_times([281.0]), Unit::NS);
        assert_eq!(Unit::for_times([281.0, 76_000.0]), Unit::US);
        assert_eq!(Unit::for_times([41.0, 76_000.0]), Unit::US_FINE);
        assert_eq!(Unit::for_times([5_600.0, 76_000.0]), Unit::US);
        assert_eq!(Unit::for_times([2e7]), Unit::MS);
        assert_eq!(Unit::for_times([f64::NAN, -1.0]), Unit::NS);
        assert_eq!(time(75_912.3), "75.92\u{a0}µs");
    }

    #[test]
    fn counts_and_axes() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(1_234), "1234");
        assert_eq!(short(250_000.0), "250k");
        assert_eq!(short(1_472.0), "1472");
        assert_eq!(short(0.2), "0.2");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_never_less(ns in 0.0_f64..1e12) {
            for unit in [Unit::NS, Unit::US, Unit::MS] {
                let shown: f64 = unit.time(ns).parse().unwrap();
                prop_assert!(shown * unit.ns >= ns * (1.0 - 2e-9));
                prop_assert!(shown * unit.ns <= ns + unit.ns);
            }
        }

        #[test]
        fn any_bits_have_a_form(bits: u64) {
            let value = f64::from_bits(bits);
            for text in [up(value, 2), down(value, 2), short(value), rate(value), percent(value), times(value)] {
                prop_assert!(text.len() < 400);
            }
        }
    }
}
