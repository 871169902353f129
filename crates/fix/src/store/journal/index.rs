//! The places of messages: from a sequence number to its record in one step per segment, four bytes a message.

/// Consecutive numbers within one segment.
#[derive(Debug)]
struct Span {
    segment: u64,
    first: u64,
    /// Positions in the segment, of `first`, `first + 1`, ...
    positions: Vec<u32>,
}

impl Span {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.positions.len() as u64)
    }
}

/// The messages of a generation, in the order of their numbers; numbers may be missing.
#[derive(Debug, Default)]
pub(super) struct Index {
    spans: Vec<Span>,
}

impl Index {
    /// Nothing is known any more; numbers begin at 1 again. The memory of the last span is kept.
    pub(super) fn clear(&mut self) {
        if let Some(mut last) = self.spans.pop() {
            last.positions.clear();
            self.spans.clear();
            self.spans.push(Span { first: 1, ..last });
        }
    }

    /// Begins a span with memory that is already there, so that the next additions allocate nothing.
    pub(super) fn begin(&mut self, segment: u64, next: u64, mut positions: Vec<u32>) {
        positions.clear();
        self.spans.retain(|span| !span.positions.is_empty());
        self.spans.push(Span { segment, first: next, positions });
    }

    /// Message `number` stands in `segment` at `position`. It must be the number after the last, or a higher one.
    pub(super) fn add(&mut self, number: u64, segment: u64, position: u32) {
        match self.spans.last_mut() {
            Some(span) if span.segment == segment && span.end() == number => span.positions.push(position),
            _ => self.spans.push(Span { segment, first: number, positions: vec![position] }),
        }
    }

    /// Forgets `number` and all after it.
    pub(super) fn cut(&mut self, number: u64) {
        while self.spans.last().is_some_and(|span| span.first >= number) {
            self.spans.pop();
        }
        if let Some(span) = self.spans.last_mut() {
            let keep = usize::try_from(number - span.first).unwrap_or(usize::MAX);
            span.positions.truncate(keep);
        }
    }

    /// The first message from `number` on: its number, segment and position.
    pub(super) fn find(&self, number: u64) -> Option<(u64, u64, u32)> {
        let at = self.spans.partition_point(|span| span.end() <= number);
        let span = self.spans.get(at..)?.iter().find(|span| !span.positions.is_empty())?;
        let place = usize::try_from(number.saturating_sub(span.first)).ok()?;
        Some((span.first.saturating_add(place as u64), span.segment, *span.positions.get(place)?))
    }

    /// The oldest segment that holds a message.
    pub(super) fn oldest_segment(&self) -> Option<u64> {
        self.spans.iter().find(|span| !span.positions.is_empty()).map(|span| span.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_across_segments_and_holes() {
        let mut index = Index::default();
        index.begin(1, 1, Vec::with_capacity(8));
        for number in 1..=3 {
            index.add(number, 1, number as u32 * 10);
        }
        index.begin(2, 4, Vec::new());
        index.add(4, 2, 7);
        index.add(10, 2, 8); // The number was set forward.
        assert_eq!(index.find(1), Some((1, 1, 10)));
        assert_eq!(index.find(3), Some((3, 1, 30)));
        assert_eq!(index.find(4), Some((4, 2, 7)));
        assert_eq!(index.find(5), Some((10, 2, 8)));
        assert_eq!(index.find(11), None);
        assert_eq!(index.oldest_segment(), Some(1));
    }

    #[test]
    fn what_is_cut_is_gone_and_can_be_written_again() {
        let mut index = Index::default();
        for number in 1..=5 {
            index.add(number, 1, number as u32);
        }
        index.begin(2, 6, Vec::new());
        index.add(6, 2, 100);
        index.cut(3);
        assert_eq!(index.find(3), None);
        index.add(3, 2, 200);
        assert_eq!((index.find(2), index.find(3)), (Some((2, 1, 2)), Some((3, 2, 200))));
        index.cut(1);
        assert_eq!((index.find(1), index.oldest_segment()), (None, None));
    }
}
