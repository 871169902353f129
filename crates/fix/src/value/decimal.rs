//! `float`, `Price`, `Qty`, `Amt`: fixed point, because binary fractions are not prices.

use super::number::{Digits, unsigned};
use std::cmp::Ordering;
use std::fmt;

/// The most digits after the point that are read or written.
const SCALE_MAX: u8 = 18;

/// Digits that an `i64` always holds.
const DIGITS_MAX: usize = 18;

/// A decimal number, `mantissa` / 10^`scale`. Holds every number of up to 18 digits exactly, which is beyond the 15 that the
/// FIX specification asks for; more are refused when read, never rounded. Compares by value: 1.50 equals 1.5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    mantissa: i64,
    scale: u8,
}

impl Decimal {
    /// `mantissa` / 10^`scale`; `None` for a scale above 18.
    pub const fn new(mantissa: i64, scale: u8) -> Option<Self> {
        if scale > SCALE_MAX { None } else { Some(Self { mantissa, scale }) }
    }

    /// The digits without the point.
    pub const fn mantissa(self) -> i64 {
        self.mantissa
    }

    /// The number of digits after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Reads a `float`: digits, perhaps a leading minus, perhaps one point. Neither plus nor exponent (FIX data types).
    /// Leading zeros are allowed and not counted; trailing zeros are kept, so that 1.50 stays 1.50.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, digits) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
        let (mut mantissa, mut point) = (0i64, None);
        let mut count = 0;
        for (at, byte) in digits.iter().enumerate().skip(zeros) {
            match byte {
                b'0'..=b'9' if count < DIGITS_MAX => {
                    mantissa = mantissa * 10 + i64::from(byte - b'0');
                    // Zeros behind the point of 0.001 are places, not digits.
                    count += usize::from(mantissa != 0);
                }
                b'.' if point.is_none() => point = Some(at),
                _ => return None,
            }
        }
        let places = point.map_or(0, |point| digits.len() - point - 1);
        if digits.len() == usize::from(point.is_some()) || places > usize::from(SCALE_MAX) {
            return None;
        }
        Some(Self { mantissa: if is_negative { -mantissa } else { mantissa }, scale: places as u8 })
    }

    /// Writes the number as FIX does, into a buffer of the caller; returns the bytes used.
    pub fn write(self, buffer: &mut [u8; Self::BYTES_MAX]) -> usize {
        let digits = Digits::of(self.mantissa.unsigned_abs());
        let digits = digits.as_bytes();
        let scale = usize::from(self.scale);
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if self.mantissa < 0 {
            put(b"-");
        }
        if digits.len() > scale {
            put(&digits[..digits.len() - scale]);
        } else {
            put(b"0");
        }
        if scale > 0 {
            put(b".");
            put(&[b'0'; SCALE_MAX as usize][..scale.saturating_sub(digits.len())]);
            put(&digits[digits.len().saturating_sub(scale)..]);
        }
        at
    }

    /// Bytes of the longest number written: minus, 19 digits and a point, or minus, `0.` and 18 digits.
    pub const BYTES_MAX: usize = 22;

    /// The number times 10^`scale` as an integer; `None` when that is not exact or beyond an `i64`.
    pub fn scaled(self, scale: u8) -> Option<i64> {
        let by = i64::checked_pow(10, u32::from(self.scale.abs_diff(scale)))?;
        if scale >= self.scale {
            return self.mantissa.checked_mul(by);
        }
        (self.mantissa % by == 0).then_some(self.mantissa / by)
    }

    fn wide(self) -> i128 {
        i128::from(self.mantissa) * 10i128.pow(u32::from(SCALE_MAX - self.scale))
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self { mantissa: value, scale: 0 }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.wide() == other.wide()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.wide().cmp(&other.wide())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; Self::BYTES_MAX];
        let length = self.write(&mut buffer);
        f.write_str(std::str::from_utf8(&buffer[..length]).unwrap_or_default())
    }
}

impl std::str::FromStr for Decimal {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::parse(text.as_bytes()).ok_or(())
    }
}

/// Returns whether the text is a `float` of any length: validation also checks numbers longer than a [`Decimal`].
pub(crate) fn is_float(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (digits, points) = unsigned.iter().fold((0, 0), |(digits, points), byte| {
        (digits + usize::from(byte.is_ascii_digit()), points + usize::from(*byte == b'.'))
    });
    digits > 0 && points <= 1 && digits + points == unsigned.len()
}

/// Returns whether the text is an `int` of any length.
pub(crate) fn is_int(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    unsigned(digits).is_some() || (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<(i64, u8)> {
        Decimal::parse(text.as_bytes()).map(|number| (number.mantissa(), number.scale()))
    }

    #[test]
    fn reads_what_fix_allows() {
        assert_eq!(read("23"), Some((23, 0)));
        assert_eq!(read("23.23"), Some((2323, 2)));
        assert_eq!(read("-23.0"), Some((-230, 1)));
        assert_eq!(read("0023.50"), Some((2350, 2)));
        assert_eq!(read(".5"), Some((5, 1)));
        assert_eq!(read("5."), Some((5, 0)));
        assert_eq!(read("0.000000000000000001"), Some((1, 18)));
        assert_eq!(read("002000.00"), Some((200_000, 2)));
        assert_eq!(read("999999999999999999"), Some((999_999_999_999_999_999, 0)));
    }

    #[test]
    fn refuses_the_rest_and_never_rounds() {
        for wrong in [
            "",
            "-",
            ".",
            "-.",
            "+200.00",
            "1e5",
            "1.2.3",
            "1,000",
            " 1",
            "1234567890123456789",
            "0.0000000000000000001",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn compares_by_value_and_scales_exactly() {
        let number = |text: &str| text.parse::<Decimal>().unwrap();
        assert_eq!(number("1.50"), number("1.5"));
        assert!(number("-0.1") < number("0"));
        assert_eq!(number("101.25").scaled(4), Some(1_012_500));
        assert_eq!(number("101.25").scaled(1), None);
        assert_eq!(number("100.00").scaled(0), Some(100));
    }

    #[test]
    fn validation_takes_longer_numbers() {
        assert!(
            is_float(b"123456789012345678901234567890.5") && is_float(b".5") && is_int(b"-12345678901234567890123")
        );
        assert!(!is_float(b"+200.00") && !is_float(b".") && !is_float(b"1.2.3") && !is_int(b"") && !is_int(b"1.0"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mantissa in -999_999_999_999_999_999i64..=999_999_999_999_999_999, scale in 0u8..=18) {
            let number = Decimal::new(mantissa, scale).unwrap();
            let text = number.to_string();
            prop_assert_eq!(read(&text), Some((mantissa, scale)), "{}", text);
        }

        #[test]
        fn any_number_fits_its_buffer(mantissa: i64, scale in 0u8..=18) {
            let number = Decimal::new(mantissa, scale).unwrap();
            prop_assert!(is_float(number.to_string().as_bytes()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if Decimal::parse(&text).is_some() {
                prop_assert!(is_float(&text));
            }
        }
    }
}
