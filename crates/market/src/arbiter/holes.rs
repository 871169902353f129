//! Ranges of sequences that are missing, in ascending order, a bounded number of them.

use std::ops::Range;

/// Ranges that are remembered. A line that has lost more at once is broken; the oldest is forgotten and stays lost.
const HOLES_MAX: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct Holes {
    ranges: [(u64, u64); HOLES_MAX],
    count: usize,
}

impl Default for Holes {
    fn default() -> Self {
        Self { ranges: [(0, 0); HOLES_MAX], count: 0 }
    }
}

impl Holes {
    /// One past the last sequence of the last range; 0 if there is none.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.count.checked_sub(1).map_or(0, |last| self.ranges[last].1)
    }

    /// Adds a range above all others.
    pub(super) fn open(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.insert(self.count, (range.start, range.end));
    }

    /// Takes the sequences of `range` out, and tells how many of them were missing.
    pub(super) fn fill(&mut self, range: &Range<u64>) -> u64 {
        let (mut filled, mut at) = (0, 0);
        while at < self.count {
            let (start, end) = self.ranges[at];
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from >= to {
                at += 1;
                continue;
            }
            filled += to - from;
            match (from > start, to < end) {
                (true, true) => {
                    self.ranges[at].1 = from;
                    self.insert(at + 1, (to, end));
                    break;
                }
                (true, false) => self.ranges[at].1 = from,
                (false, true) => self.ranges[at].0 = to,
                (false, false) => {
                    self.ranges.copy_within(at + 1..self.count, at);
                    self.count -= 1;
                    continue;
                }
            }
            at += 1;
        }
        filled
    }

    fn insert(&mut self, at: usize, range: (u64, u64)) {
        if self.count < HOLES_MAX {
            self.ranges.copy_within(at..self.count, at + 1);
            self.ranges[at] = range;
            self.count += 1;
        } else if at > 0 {
            self.ranges.copy_within(1..at, 0);
            self.ranges[at - 1] = range;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_oldest_range_is_forgotten() {
        let mut holes = Holes::default();
        (0..HOLES_MAX as u64 + 1).for_each(|at| holes.open(at * 10..at * 10 + 5));
        assert_eq!((holes.count, holes.ranges[0]), (HOLES_MAX, (10, 15)));
        assert_eq!(holes.fill(&(0..10)), 0);
        assert_eq!(holes.fill(&(12..13)), 1, "a split forgets the oldest, too");
        assert_eq!((holes.count, holes.end()), (HOLES_MAX, 325));
    }

    proptest! {
        #[test]
        fn holes_are_a_set_of_sequences(steps in prop::collection::vec((0..60_u64, 0..12_u64), 0..12)) {
            let (mut holes, mut set) = (Holes::default(), BTreeSet::new());
            for (at, range) in (0_u64..).map(|at| at * 8..at * 8 + 6).enumerate().take(8) {
                holes.open(range.clone());
                set.extend(range);
                prop_assert_eq!(holes.count, at + 1);
            }
            for (first, count) in steps {
                let filled = (first..first + count).filter(|one| set.remove(one)).count() as u64;
                prop_assert_eq!(holes.fill(&(first..first + count)), filled);
                let left: Vec<u64> = holes.ranges[..holes.count].iter().flat_map(|(from, to)| *from..*to).collect();
                prop_assert_eq!(left, set.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
