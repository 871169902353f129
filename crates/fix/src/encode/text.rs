//! Short texts, copied and looked at without a call: most values have fewer than 16 bytes.

use crate::value::{Digits, two_digits};

/// Digits of the largest `u32`, and the equals sign.
pub(super) const TAG_BYTES_MAX: usize = 11;

/// Writes `tag=` at `at`; returns where it ends.
#[inline]
pub(super) fn write_tag(buffer: &mut [u8], at: usize, tag: u32) -> usize {
    let [low, high] = [two_digits(tag as usize % 100), two_digits(tag as usize / 100)];
    let (text, length) = match tag {
        0..=9 => ([low[1], b'=', 0, 0, 0], 2),
        10..=99 => ([low[0], low[1], b'=', 0, 0], 3),
        100..=999 => ([high[1], low[0], low[1], b'=', 0], 4),
        1000..=9999 => ([high[0], high[1], low[0], low[1], b'='], 5),
        _ => return write_long_tag(buffer, at, tag),
    };
    // Room for the longest tag is checked by the caller; what stands behind is written over.
    buffer[at..at + 5].copy_from_slice(&text);
    at + length
}

#[cold]
fn write_long_tag(buffer: &mut [u8], at: usize, tag: u32) -> usize {
    let digits = Digits::of(u64::from(tag));
    let end = at + digits.as_bytes().len();
    buffer[at..end].copy_from_slice(digits.as_bytes());
    buffer[end] = b'=';
    end + 1
}

/// Copies between slices of the same length; up to 16 bytes as two words that may overlap.
#[inline]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=16 => {
            let (Some(head), Some(tail)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) else { return };
            to[..8].copy_from_slice(head);
            let at = to.len() - 8;
            to[at..].copy_from_slice(tail);
        }
        4..=7 => {
            let (Some(head), Some(tail)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) else { return };
            to[..4].copy_from_slice(head);
            let at = to.len() - 4;
            to[at..].copy_from_slice(tail);
        }
        1..=3 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        _ => to.copy_from_slice(from),
    }
}

/// Whether there is a control byte: SOH would end the field, and the others have no place in a text either. Bytes beyond
/// ASCII pass.
#[inline]
pub(super) fn has_control(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    let in_words = words.iter().fold(0, |found, word| found | controls(u64::from_le_bytes(*word)));
    let in_rest = rest.iter().fold(false, |found, byte| found | (*byte < b' ') | (*byte == 0x7f));
    in_words != 0 || in_rest
}

/// Not zero if a byte of the word is below a blank or is DEL.
#[inline]
fn controls(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let delete = word ^ (ONES * 0x7f);
    let low = word.wrapping_sub(ONES * 0x20) & !word;
    let del = delete.wrapping_sub(ONES) & !delete;
    (low | del) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn control_bytes_are_found(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let expected = text.iter().any(|byte| *byte < 32 || *byte == 127);
            prop_assert_eq!(has_control(&text), expected);
            let harmless: Vec<u8> = text.iter().map(|byte| if *byte < 32 || *byte == 127 { b'x' } else { *byte }).collect();
            prop_assert!(!has_control(&harmless));
        }

        #[test]
        fn copies_are_whole(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut to = vec![0; text.len()];
            copy(&mut to, &text);
            prop_assert_eq!(to, text);
        }

        #[test]
        fn tags_are_written(tag: u32, small in 0u32..20_000) {
            for tag in [tag, small] {
                let mut buffer = [0; 16];
                let end = write_tag(&mut buffer, 2, tag);
                prop_assert_eq!(String::from_utf8_lossy(&buffer[2..end]), format!("{tag}="));
            }
        }
    }
}
