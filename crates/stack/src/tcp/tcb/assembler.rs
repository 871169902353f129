//! Ranges of data that arrived beyond a hole, and the SACK blocks that report them (RFC 2018, RFC 2883).

use sidestep_wire::tcp::{SackBlock, SackBlocks, SequenceNumber};

/// Disjoint, not touching, sorted ranges of sequence numbers.
#[derive(Default)]
pub(crate) struct Assembler {
    ranges: Vec<Range>,
    arrivals: u64,
    duplicate: Option<SackBlock>,
}

#[derive(Clone, Copy)]
struct Range {
    block: SackBlock,
    /// Number of the latest arrival that changed it.
    arrival: u64,
}

/// There was no place for a further range.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyRanges;

impl Assembler {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes beyond the hole.
    pub(crate) fn bytes(&self) -> u32 {
        self.ranges.iter().map(|range| range.block.end.since(range.block.start)).sum()
    }

    /// Adds `start..end`, merging what touches. At most `most` ranges are kept: without that limit a peer that sends every
    /// second byte makes us keep, and search, half as many ranges as the window has bytes.
    pub(crate) fn insert(
        &mut self,
        start: SequenceNumber,
        end: SequenceNumber,
        most: usize,
    ) -> Result<(), TooManyRanges> {
        let first = self.ranges.partition_point(|range| range.block.end.is_before(start));
        let behind = first + self.ranges[first..].partition_point(|range| range.block.start.is_at_or_before(end));
        self.note_duplicate(first, behind, start, end);
        self.arrivals += 1;
        let mut block = SackBlock { start, end };
        if first == behind {
            if self.ranges.len() >= most {
                return Err(TooManyRanges);
            }
            self.ranges.insert(first, Range { block, arrival: self.arrivals });
            return Ok(());
        }
        block.start = start.earlier(self.ranges[first].block.start);
        block.end = end.later(self.ranges[behind - 1].block.end);
        self.ranges[first] = Range { block, arrival: self.arrivals };
        self.ranges.drain(first + 1..behind);
        Ok(())
    }

    /// Reports data that came twice beyond the hole, once (RFC 2883 section 4.1).
    fn note_duplicate(&mut self, first: usize, behind: usize, start: SequenceNumber, end: SequenceNumber) {
        for range in &self.ranges[first..behind] {
            let block = SackBlock { start: start.later(range.block.start), end: end.earlier(range.block.end) };
            if block.start.is_before(block.end) {
                self.duplicate = Some(block);
                return;
            }
        }
    }

    /// Notes that `start..end` came although it was there already.
    pub(crate) fn report_duplicate(&mut self, start: SequenceNumber, end: SequenceNumber) {
        self.duplicate = Some(SackBlock { start, end });
    }

    /// Drops what lies before `next`; gives the end of the range that has become contiguous with it, if one has.
    pub(crate) fn advance(&mut self, next: SequenceNumber) -> Option<SequenceNumber> {
        let reached = self.ranges.partition_point(|range| range.block.start.is_at_or_before(next));
        let end = self.ranges[..reached].iter().map(|range| range.block.end).next_back();
        self.ranges.drain(..reached);
        end.filter(|end| end.is_after(next))
    }

    /// Returns whether there is a SACK block to send.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        !self.ranges.is_empty() || self.duplicate.is_some()
    }

    /// The blocks to send: a duplicate first, once (RFC 2883 section 4), then the range that arrived last, then the others by
    /// how recently they changed (RFC 2018 section 4).
    pub(crate) fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if let Some(duplicate) = self.duplicate {
            blocks.push(duplicate);
        }
        let mut before = u64::MAX;
        // Ends: at most four fit.
        while let Some(range) =
            self.ranges.iter().filter(|range| range.arrival < before).max_by_key(|range| range.arrival)
        {
            before = range.arrival;
            if !blocks.push(range.block) {
                break;
            }
        }
        blocks
    }

    /// The duplicate has been reported.
    #[inline]
    pub(crate) fn reported(&mut self) {
        self.duplicate = None;
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(feature = "audit")]
impl Assembler {
    /// Ranges are sorted, do not touch, lie beyond a hole at `nxt` and within the window, which ends at `edge`.
    pub(crate) fn audit(&self, nxt: SequenceNumber, edge: SequenceNumber) -> Result<(), String> {
        let mut end = nxt;
        for block in self.ranges.iter().map(|range| range.block) {
            let is_good = block.start.is_after(end) && block.start.is_before(block.end);
            if !is_good || block.end.is_after(edge) {
                return Err(format!("range {}..{} behind {end}, window {nxt}..{edge}", block.start, block.end));
            }
            end = block.end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(number: u32) -> SequenceNumber {
        SequenceNumber(number.wrapping_sub(1000))
    }

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock { start: at(start), end: at(end) }
    }

    fn with(ranges: &[(u32, u32)]) -> Assembler {
        let mut assembler = Assembler::default();
        for (start, end) in ranges {
            assembler.insert(at(*start), at(*end), 8).unwrap();
        }
        assembler
    }

    /// RFC 2018 section 4: the first block holds the segment that triggered the ACK, the others the most recent ones.
    #[test]
    fn the_latest_range_is_told_first() {
        let assembler = with(&[(10, 20), (30, 40), (50, 60), (70, 80), (90, 100), (20, 25)]);
        let told = assembler.blocks();
        assert_eq!(told.as_slice(), [block(10, 25), block(90, 100), block(70, 80), block(50, 60)]);
    }

    /// RFC 2883 section 4: a duplicate is the first block, and told once.
    #[test]
    fn a_duplicate_is_told_once() {
        let mut assembler = with(&[(10, 20), (12, 15)]);
        assert_eq!(assembler.blocks().as_slice(), [block(12, 15), block(10, 20)]);
        assembler.reported();
        assert_eq!(assembler.blocks().as_slice(), [block(10, 20)]);
        assembler.report_duplicate(at(1), at(5));
        assert_eq!(assembler.blocks().as_slice(), [block(1, 5), block(10, 20)]);
    }

    #[test]
    fn a_filled_hole_is_no_duplicate() {
        let mut assembler = with(&[(10, 20), (30, 40), (20, 30)]);
        assert_eq!(assembler.blocks().as_slice(), [block(10, 40)]);
        assert_eq!(assembler.advance(at(5)), None);
        assert_eq!(assembler.advance(at(10)), Some(at(40)));
        assert!(assembler.is_empty());
    }

    #[test]
    fn ranges_are_bounded() {
        let mut assembler = with(&[(10, 11), (20, 21)]);
        assert_eq!(assembler.insert(at(30), at(31), 2), Err(TooManyRanges));
        assert_eq!(assembler.insert(at(11), at(20), 2), Ok(()), "what merges needs no place");
        assert_eq!(assembler.ranges.len(), 1);
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(pieces in prop::collection::vec((0_u32..200, 1_u32..20), 1..40)) {
            let (mut assembler, mut bitmap) = (Assembler::default(), [false; 256]);
            for (start, length) in pieces {
                assembler.insert(at(start), at(start + length), 256).unwrap();
                bitmap[start as usize..(start + length) as usize].fill(true);
                prop_assert_eq!(assembler.bytes() as usize, bitmap.iter().filter(|there| **there).count());
                for pair in assembler.ranges.windows(2) {
                    prop_assert!(pair[0].block.end.is_before(pair[1].block.start), "sorted and not touching");
                }
            }
        }
    }
}
