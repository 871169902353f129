//! A set of descriptor numbers.

use crate::descriptors::NUMBERS_MAX;
use libc::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each number. In zeroed memory, of which only the pages that are touched exist.
pub(crate) struct Bits {
    words: [AtomicU64; NUMBERS_MAX / WORD_BITS],
    /// One more than the last word that ever had a bit.
    end: AtomicUsize,
}

impl Bits {
    pub(crate) const fn new() -> Self {
        Self { words: [const { AtomicU64::new(0) }; NUMBERS_MAX / WORD_BITS], end: AtomicUsize::new(0) }
    }

    pub(crate) fn insert(&self, number: c_int) {
        if let Some((word, bit)) = place(number).filter(|(word, _)| *word < self.words.len()) {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
            self.end.fetch_max(word + 1, Ordering::AcqRel);
        }
    }

    #[inline]
    pub(crate) fn has(&self, number: c_int) -> bool {
        let word =
            |(word, bit)| self.words.get(word).is_some_and(|word: &AtomicU64| word.load(Ordering::Relaxed) & bit != 0);
        place(number).is_some_and(word)
    }

    /// Returns whether it was there.
    #[inline]
    pub(crate) fn remove(&self, number: c_int) -> bool {
        self.has(number)
            && place(number).is_some_and(|(word, bit)| self.words[word].fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }

    /// Those that are there, the lowest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = c_int> {
        let words = (0..self.end.load(Ordering::Acquire)).filter(|word| self.words[*word].load(Ordering::Relaxed) != 0);
        let numbers = words.flat_map(|word| word * WORD_BITS..(word + 1) * WORD_BITS);
        numbers.filter_map(|number| c_int::try_from(number).ok()).filter(|number| self.has(*number))
    }
}

#[inline]
fn place(number: c_int) -> Option<(usize, u64)> {
    let number = usize::try_from(number).ok()?;
    Some((number / WORD_BITS, 1 << (number % WORD_BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_until_they_are_removed() {
        static BITS: Bits = Bits::new();
        let numbers = [0, 63, 64, 1000, NUMBERS_MAX as c_int - 1];
        assert_eq!(BITS.all().next(), None);
        numbers.iter().for_each(|number| BITS.insert(*number));
        [-1, c_int::MIN, c_int::MAX, NUMBERS_MAX as c_int].iter().for_each(|number| BITS.insert(*number));
        assert!(BITS.all().eq(numbers) && !BITS.has(-1) && !BITS.has(1) && !BITS.remove(c_int::MAX));
        assert!(BITS.remove(64) && !BITS.remove(64) && !BITS.has(64) && BITS.has(63));
    }
}
