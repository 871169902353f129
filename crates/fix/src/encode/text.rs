//! Tags and short texts, written without a call: most values have fewer than 16 bytes.

use crate::value::Digits;

/// Digits of the largest `u32`, and the equals sign.
pub(super) const TAG_BYTES_MAX: usize = 11;

/// `tag=` as it is written, which is known where the program is compiled if the tag is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagText {
    pub(super) number: u32,
    /// The text from the lowest byte on, and how long it is in the highest: 0 for a tag of more than five digits.
    text: u64,
}

impl TagText {
    // Without a loop, which the compiler would leave to be run.
    #[inline(always)]
    pub(super) const fn of(number: u32) -> Self {
        let (ones, tens, hundreds) = (digit(number), digit(number / 10), digit(number / 100));
        let (thousands, most) = (digit(number / 1_000), digit(number / 10_000));
        let text = match number {
            0..=9 => [ones, b'=', 0, 0, 0, 0, 0, 2],
            10..=99 => [tens, ones, b'=', 0, 0, 0, 0, 3],
            100..=999 => [hundreds, tens, ones, b'=', 0, 0, 0, 4],
            1_000..=9_999 => [thousands, hundreds, tens, ones, b'=', 0, 0, 5],
            10_000..=99_999 => [most, thousands, hundreds, tens, ones, b'=', 0, 6],
            _ => [0; 8],
        };
        Self { number, text: u64::from_le_bytes(text) }
    }

    /// Writes the text at the front of `to`, which has room for the longest one; returns its bytes.
    #[inline(always)]
    pub(super) fn write(self, to: &mut [u8]) -> usize {
        let length = (self.text >> 56) as usize;
        match to.first_chunk_mut() {
            // What stands behind the text is written over.
            Some(word) if length > 0 => *word = self.text.to_le_bytes(),
            _ => return write_long_tag(to, self.number),
        }
        length
    }
}

#[inline(always)]
const fn digit(number: u32) -> u8 {
    b'0' + (number % 10) as u8
}

#[cold]
fn write_long_tag(to: &mut [u8], number: u32) -> usize {
    let digits = Digits::of(u64::from(number));
    let end = digits.as_bytes().len();
    to[..end].copy_from_slice(digits.as_bytes());
    to[end] = b'=';
    end + 1
}

/// Copies between slices of the same length.
#[inline(always)]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    copy_text(to, from);
}

/// Copies between slices of the same length, up to 16 bytes as two words that may overlap. Returns whether there is a control
/// byte: SOH would end the field, and the others have no place in a text either. Bytes beyond ASCII pass.
#[inline(always)]
pub(super) fn copy_text(to: &mut [u8], from: &[u8]) -> bool {
    match from.len() {
        8..=16 => {
            let (Some(head), Some(tail)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) else { return false };
            to[..8].copy_from_slice(head);
            let at = to.len() - 8;
            to[at..].copy_from_slice(tail);
            controls(u64::from_le_bytes(*head)) | controls(u64::from_le_bytes(*tail)) != 0
        }
        4..=7 => {
            let (Some(head), Some(tail)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) else { return false };
            to[..4].copy_from_slice(head);
            let at = to.len() - 4;
            to[at..].copy_from_slice(tail);
            let [head, tail] = [*head, *tail].map(|half| u64::from(u32::from_le_bytes(half)));
            controls(head | tail << 32) != 0
        }
        length @ 1..=3 => [0, length / 2, length - 1].into_iter().fold(false, |found, at| {
            to[at] = from[at];
            found | is_control(from[at])
        }),
        _ => {
            to.copy_from_slice(from);
            has_control(from)
        }
    }
}

#[inline]
fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}

/// Returns whether there is a control byte.
#[inline(never)]
pub(super) fn has_control(value: &[u8]) -> bool {
    // The last word may overlap the one before it.
    let Some(last) = value.last_chunk::<8>() else { return value.iter().any(|byte| is_control(*byte)) };
    let (words, _) = value.as_chunks::<8>();
    let in_last = controls(u64::from_le_bytes(*last));
    let found = words.iter().fold(in_last, |found, word| found | controls(u64::from_le_bytes(*word)));
    found != 0
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
            prop_assert_eq!(copy_text(&mut vec![0; text.len()], &text), expected);
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
        fn tags_are_written(tag: u32, longer in 0u32..200_000_000, small in 0u32..20_000) {
            for tag in [tag, longer, small] {
                let mut buffer = [0; 16];
                let end = TagText::of(tag).write(&mut buffer);
                prop_assert_eq!(String::from_utf8_lossy(&buffer[..end]), format!("{tag}="));
            }
        }
    }
}
