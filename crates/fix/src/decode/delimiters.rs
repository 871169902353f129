//! The places of a message's delimiters: 64 bytes at a time, a bit for each.
//!
//! Fields end at unforeseeable distances, so a loop that searches for each delimiter ends after an unforeseeable number of iterations, and the processor
//! guesses wrong for every other field. Here it does so once in 64 bytes.

use crate::SOH;
use sidestep_sys::scan::{BLOCK, places};

/// The delimiters of a message in order.
pub(super) struct Delimiters<'a> {
    raw: &'a [u8],
    /// The end of the search.
    end: usize,
    /// The current block.
    base: usize,
    /// Its delimiters that are not returned yet.
    mask: u64,
}

impl<'a> Delimiters<'a> {
    /// The delimiters of the first `end` bytes of `raw`, which has no fewer.
    #[inline]
    pub(super) fn new(raw: &'a [u8], end: usize) -> Self {
        let mut delimiters = Self { raw, end, base: 0, mask: 0 };
        delimiters.look(0);
        delimiters
    }

    /// The place of the next one.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        while self.mask == 0 {
            let next = self.base + BLOCK;
            if next >= self.end {
                return None;
            }
            self.look(next);
        }
        let place = self.base + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(place)
    }

    /// Skips those up to and including `place`, which is not before the last one returned.
    pub(super) fn pass(&mut self, place: usize) {
        let base = place / BLOCK * BLOCK;
        if base != self.base {
            self.look(base);
        }
        self.mask &= (!0 << (place % BLOCK)) << 1;
    }

    #[inline]
    fn look(&mut self, base: usize) {
        self.base = base;
        let rest = self.end - base;
        let mask = mask_at(self.raw, base);
        self.mask = if rest < BLOCK { mask & !(!0 << rest) } else { mask };
    }
}

/// Finds the delimiters of one block of `raw`, from `base` on.
#[inline]
fn mask_at(raw: &[u8], base: usize) -> u64 {
    if let Some(block) = raw.get(base..).and_then(|rest| rest.first_chunk()) {
        return places(block, SOH);
    }
    match raw.last_chunk() {
        // The last block is shorter: its bytes are read as the end of a whole block.
        Some(block) => places(block, SOH) >> (base + BLOCK - raw.len()),
        None => {
            let mut block = [0; BLOCK];
            block[..raw.len()].copy_from_slice(raw);
            places(&block, SOH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = u8> {
        // Delimiters often, and the bytes that differ from one by a bit.
        prop_oneof![Just(SOH), Just(0), Just(0x81), Just(3), any::<u8>()]
    }

    proptest! {
        #[test]
        fn delimiters_come_in_order(raw in proptest::collection::vec(bytes(), 1..300), cut: prop::sample::Index) {
            let end = cut.index(raw.len()) + 1;
            let mut delimiters = Delimiters::new(&raw, end);
            let found: Vec<usize> = std::iter::from_fn(|| delimiters.next()).collect();
            let expected: Vec<usize> = (0..end).filter(|at| raw[*at] == SOH).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_is_passed_over_is_not_told(
            raw in proptest::collection::vec(bytes(), 1..300),
            told in 0usize..5,
            to: prop::sample::Index,
        ) {
            let mut delimiters = Delimiters::new(&raw, raw.len());
            let last = (0..told).map_while(|_| delimiters.next()).last().unwrap_or(0);
            let place = last + to.index(raw.len() - last);
            delimiters.pass(place);
            let found: Vec<usize> = std::iter::from_fn(|| delimiters.next()).collect();
            let expected: Vec<usize> = (place + 1..raw.len()).filter(|at| raw[*at] == SOH).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
