//! Received sequence numbers: gaps, duplicates, reordering.

/// Window in which a late message is told from a duplicate: at a million messages per second, a sixteenth of a second.
const WINDOW: u64 = 1 << 16;

/// Watches the sequence numbers of a stream of datagrams.
pub(super) struct Sequence {
    /// The number after the highest seen.
    next: u64,
    /// One bit for each of the last [`WINDOW`] numbers: has it come?
    seen: Vec<u64>,
    pub(super) received: u64,
    pub(super) gaps: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
}

impl Sequence {
    pub(super) fn new() -> Self {
        Self { next: 0, seen: vec![0; (WINDOW / 64) as usize], received: 0, gaps: 0, duplicates: 0, reordered: 0 }
    }

    /// Records that `number` has arrived.
    #[inline]
    pub(super) fn note(&mut self, number: u64) {
        if number == self.next {
            self.mark(number);
            self.next += 1;
            self.received += 1;
        } else if number > self.next {
            self.skip_to(number);
        } else {
            self.late(number);
        }
    }

    fn skip_to(&mut self, number: u64) {
        self.gaps += 1;
        let from = self.next.max(number.saturating_sub(WINDOW));
        for missing in from..number {
            self.unmark(missing);
        }
        self.mark(number);
        self.next = number.saturating_add(1);
        self.received += 1;
    }

    /// Comes after a later one: late, or a duplicate. What is older than the window counts as late.
    fn late(&mut self, number: u64) {
        let is_recent = self.next - number <= WINDOW;
        if is_recent && self.is_marked(number) {
            self.duplicates += 1;
            return;
        }
        if is_recent {
            self.mark(number);
        }
        self.reordered += 1;
        self.received += 1;
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] |= bit;
    }

    fn unmark(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        self.seen[word] &= !bit;
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn of(numbers: &[u64]) -> Sequence {
        let mut sequence = Sequence::new();
        numbers.iter().for_each(|number| sequence.note(*number));
        sequence
    }

    #[test]
    fn tells_gap_duplicate_and_reorder_apart() {
        let sequence = of(&[0, 1, 4, 3, 3, 5, 9]);
        assert_eq!((sequence.received, sequence.gaps), (6, 2));
        assert_eq!((sequence.duplicates, sequence.reordered), (1, 1));
    }

    #[test]
    fn a_leap_is_one_gap_and_takes_no_time() {
        let sequence = of(&[0, u64::MAX / 2, u64::MAX - 1]);
        assert_eq!((sequence.received, sequence.gaps), (3, 2));
    }

    #[test]
    fn the_window_forgets() {
        let numbers: Vec<u64> = (1..WINDOW * 2).chain([WINDOW + 5, 0]).collect();
        let sequence = of(&numbers);
        assert_eq!((sequence.duplicates, sequence.reordered), (1, 1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(numbers in prop::collection::vec(0_u64..300, 0..400)) {
            let sequence = of(&numbers);
            let (mut seen, mut high) = (HashSet::new(), None);
            let (mut duplicates, mut reordered) = (0, 0);
            for number in numbers {
                let is_new = seen.insert(number);
                duplicates += u64::from(!is_new);
                reordered += u64::from(is_new && high.is_some_and(|high| number < high));
                high = high.max(Some(number));
            }
            prop_assert_eq!(sequence.received, seen.len() as u64);
            prop_assert_eq!((sequence.duplicates, sequence.reordered), (duplicates, reordered));
        }
    }
}
