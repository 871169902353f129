//! Exact decimal quantities of an impairment: shares and bit rates, as text and back without loss.

use std::fmt;

/// A share of frames in parts per million: exact in text, the same on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

const PARTS_PER_PERCENT: u64 = 10_000;
const PARTS: u32 = 1_000_000;

impl Share {
    /// No frame.
    pub const NONE: Self = Self(0);

    /// Makes a share; `None` above one million.
    pub(crate) fn from_parts_per_million(parts: u32) -> Option<Self> {
        (parts <= PARTS).then_some(Self(parts))
    }

    /// Draws: true for this share of the calls. An empty share draws nothing, so that one impairment is independent of
    /// those that are off.
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> bool {
        self.0 > 0 && random.u32(0..PARTS) < self.0
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').ok_or("a share is written in percent, as 0.5%")?;
        let parts = parse_decimal(percent, PARTS_PER_PERCENT).map_err(|reason| format!("{reason}, in percent"))?;
        u32::try_from(parts).ok().and_then(Self::from_parts_per_million).ok_or_else(|| "more than 100%".to_owned())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (u64::from(self.0) / PARTS_PER_PERCENT, u64::from(self.0) % PARTS_PER_PERCENT);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{rest:04}").trim_end_matches('0'))
    }
}

/// The units of tc(8), largest first: bits per second, powers of ten.
const RATE_UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// Parses bits per second from text such as `100mbit`.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    let unit = RATE_UNITS.iter().find_map(|&(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (number, bits) = unit.ok_or("a rate is written in bit, kbit, mbit or gbit per second, as 100mbit")?;
    match parse_decimal(number, bits)? {
        0 => Err("a rate of 0 would never deliver; leave the key out for an unlimited wire".to_owned()),
        rate_bps => Ok(rate_bps),
    }
}

/// The shortest exact text of a rate.
pub(crate) fn format_rate(rate_bps: u64) -> String {
    let exact = RATE_UNITS.iter().find(|(_, bits)| rate_bps.is_multiple_of(*bits));
    exact.map_or_else(|| format!("{rate_bps}bit"), |(unit, bits)| format!("{}{unit}", rate_bps / bits))
}

/// `text` x `scale`, exactly: `1.5` x 1,000 is 1,500, and `0.0001` x 1,000 is refused.
fn parse_decimal(text: &str, scale: u64) -> Result<u64, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return Err(format!("'{text}' is not a number"));
    }
    let too_large = || format!("'{text}' is too large");
    let mut value = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale)).ok_or_else(too_large)?;
    let mut digit_value = scale;
    for digit in fraction.bytes().map(|byte| u64::from(byte - b'0')) {
        if digit != 0 && !digit_value.is_multiple_of(10) {
            return Err(format!("'{text}' has more decimals than can be kept"));
        }
        digit_value /= 10;
        value = value.checked_add(digit * digit_value).ok_or_else(too_large)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        for (text, parts) in [("0%", 0), ("1%", 10_000), ("0.1%", 1_000), ("0.0001%", 1), ("100%", 1_000_000)] {
            let share = Share::parse(text).unwrap();
            assert_eq!(share.0, parts);
            assert_eq!(share.to_string(), text);
        }
        for bad in ["", "1", "%", "101%", "100.0001%", "-1%", "0.00001%", "1e2%", "99999999999999999999%", ".5%"] {
            assert!(Share::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_exact() {
        for (text, rate_bps) in
            [("100mbit", 100_000_000), ("1500kbit", 1_500_000), ("7bit", 7), ("10gbit", 10_000_000_000)]
        {
            let parsed = parse_rate(text).unwrap();
            assert_eq!(parsed, rate_bps);
            assert_eq!(format_rate(parsed), text);
        }
        assert_eq!(parse_rate("1.5gbit"), Ok(1_500_000_000));
        for bad in ["", "0bit", "0.0001kbit", "mbit", "1mb", "10", "99999999999gbit"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
