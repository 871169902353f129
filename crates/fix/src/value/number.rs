//! `int`, `char`, `Boolean`.

/// Digits of the largest `u64`.
const U64_DIGITS_MAX: usize = 20;

/// `00`, `01` ... `99`, so that two digits cost one look-up.
static PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut value = 0;
    while value < 100 {
        pairs[2 * value] = b'0' + (value / 10) as u8;
        pairs[2 * value + 1] = b'0' + (value % 10) as u8;
        value += 1;
    }
    pairs
};

/// Both digits of a number below 100.
#[inline]
pub(crate) fn two_digits(value: usize) -> [u8; 2] {
    let at = 2 * (value % 100);
    [PAIRS[at], PAIRS[at + 1]]
}

/// Reads digits only: a `SeqNum`, `Length`, `NumInGroup`. Leading zeros are allowed, a sign is not; `None` beyond a `u64`.
#[inline]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    if text.len() < U64_DIGITS_MAX {
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Reads an `int`: digits with or without a leading minus. A plus is no part of FIX's `int`; `None` beyond an `i64`.
pub fn integer(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// Reads a `Boolean`: `Y` or `N`.
pub fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"Y" => Some(true),
        b"N" => Some(false),
        _ => None,
    }
}

/// Reads a `char`: one byte that is neither a control byte nor beyond ASCII.
pub fn character(text: &[u8]) -> Option<u8> {
    match text {
        [byte @ b' '..=b'~'] => Some(*byte),
        _ => None,
    }
}

/// The digits of a number, right-aligned in a small buffer.
pub(crate) struct Digits {
    text: [u8; U64_DIGITS_MAX],
    start: usize,
}

impl Digits {
    pub(crate) fn of(value: u64) -> Self {
        let mut digits = Self { text: [0; U64_DIGITS_MAX], start: 0 };
        digits.start = write_left(&mut digits.text, U64_DIGITS_MAX, value);
        digits
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Writes a number so that it ends before `end`; returns where it starts. There is room for its digits before that.
#[inline]
pub(crate) fn write_left(buffer: &mut [u8], end: usize, mut value: u64) -> usize {
    let mut at = end;
    while value >= 100_000_000 {
        at -= 8;
        buffer[at..at + 8].copy_from_slice(&eight_digits((value % 100_000_000) as u32));
        value /= 100_000_000;
    }
    while value >= 100 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&two_digits((value % 100) as usize));
        value /= 100;
    }
    if value >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&two_digits(value as usize));
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    at
}

/// The digits of a number below 10^8: halves of four, then pairs, then single digits, each in a lane of its own.
#[inline]
fn eight_digits(value: u32) -> [u8; 8] {
    let halves = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    (digits + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(unsigned(b"007"), Some(7));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"00000000000000000000000000000042"), Some(42));
        for wrong in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"1.0", b"0x1", b"18446744073709551616", b"\xff"] {
            assert_eq!(unsigned(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_int_has_no_plus() {
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        for wrong in [&b"+1"[..], b"-", b"--1", b"9223372036854775808", b"-9223372036854775809"] {
            assert_eq!(integer(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn booleans_and_characters_are_one_byte() {
        assert_eq!([boolean(b"Y"), boolean(b"N"), boolean(b"y"), boolean(b"")], [Some(true), Some(false), None, None]);
        assert_eq!(
            [character(b"1"), character(b"12"), character(b"\x02"), character(b"")],
            [Some(b'1'), None, None, None]
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u64, small in 0u64..10_000, middle in 0u64..1_000_000_000) {
            for value in [value, middle, small] {
                let digits = Digits::of(value);
                prop_assert_eq!(String::from_utf8_lossy(digits.as_bytes()), value.to_string());
                prop_assert_eq!(unsigned(digits.as_bytes()), Some(value));
            }
        }
    }
}
