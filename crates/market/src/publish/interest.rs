//! The instruments that a reader wants, one bit each.

use crate::units::Locate;

const WORDS: usize = (u16::MAX as usize + 1) / 64;

/// A set of instruments: 8 KiB. Locate 0, the channel, is always in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    bits: Box<[u64; WORDS]>,
}

impl Interest {
    /// No instrument.
    pub fn none() -> Self {
        let mut none = Self { bits: Box::new([0; WORDS]) };
        none.insert(Locate(0));
        none
    }

    /// Every instrument.
    pub fn all() -> Self {
        Self { bits: Box::new([u64::MAX; WORDS]) }
    }

    /// Adds an instrument.
    pub fn insert(&mut self, locate: Locate) {
        self.bits[usize::from(locate.0) / 64] |= 1 << (locate.0 % 64);
    }

    /// Takes an instrument out; the channel stays.
    pub fn remove(&mut self, locate: Locate) {
        if locate != Locate(0) {
            self.bits[usize::from(locate.0) / 64] &= !(1 << (locate.0 % 64));
        }
    }

    /// Returns whether it is in the set.
    #[inline]
    pub fn contains(&self, locate: Locate) -> bool {
        self.bits[usize::from(locate.0) / 64] >> (locate.0 % 64) & 1 == 1
    }

    /// The first one that is not before `from`; nothing if there is none.
    pub(super) fn first_from(&self, from: u32) -> Option<u32> {
        let at = from as usize / 64;
        let first = self.bits.get(at)? & u64::MAX << (from % 64);
        let rest = self.bits[at + 1..].iter().copied();
        let (skipped, word) = std::iter::once(first).chain(rest).enumerate().find(|(_, word)| *word != 0)?;
        Some(((at + skipped) * 64) as u32 + word.trailing_zeros())
    }
}

impl FromIterator<Locate> for Interest {
    fn from_iter<I: IntoIterator<Item = Locate>>(locates: I) -> Self {
        let mut interest = Self::none();
        locates.into_iter().for_each(|locate| interest.insert(locate));
        interest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_has_what_was_put_in_and_always_the_channel() {
        let mut some: Interest = [Locate(63), Locate(64), Locate(u16::MAX)].into_iter().collect();
        some.remove(Locate(0));
        let walk: Vec<u32> = std::iter::successors(some.first_from(0), |last| some.first_from(last + 1)).collect();
        assert_eq!(walk, [0, 63, 64, 65535]);
        some.remove(Locate(64));
        assert!(some.contains(Locate(63)) && !some.contains(Locate(64)) && some.contains(Locate(0)));
        assert_eq!(Interest::all().first_from(77), Some(77));
        assert_eq!(Interest::none().first_from(1), None);
    }
}
