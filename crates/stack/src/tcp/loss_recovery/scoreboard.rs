//! The scoreboard: each segment in flight, when it was sent, and whether it is sacked, lost or retransmitted (RFC 2018, RFC 6675,
//! RFC 8985 section 5).

use crate::tcp::congestion::delivery_rate::Stamp;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{SackBlock, SequenceNumber};
use std::collections::VecDeque;

/// A segment that was sent and is not yet acknowledged; SYN and FIN count one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) start: SequenceNumber,
    pub(crate) end: SequenceNumber,
    /// The time at which it was sent last.
    pub(crate) sent_at: Instant,
    pub(crate) sacked: bool,
    /// Believed lost, and not sent again since.
    pub(crate) lost: bool,
    /// Sent more than once.
    pub(crate) resent: bool,
    /// What the congestion control wants to know of the time at which it was sent last.
    pub(crate) stamp: Stamp,
}

impl Sent {
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.end.since(self.start)
    }

    /// Returns whether it counts as being in the network (the pipe of RFC 6675).
    #[inline]
    fn is_in_flight(&self) -> bool {
        !self.sacked && !self.lost
    }
}

/// The segments in flight, in the order of their numbers, without gaps.
#[derive(Default)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Sent>,
    in_flight_bytes: u32,
    sacked: u32,
    lost: u32,
    /// Segments in flight that were sent more than once: while there are none, sending times go up with the numbers.
    resent_in_flight: u32,
}

impl Scoreboard {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Segments.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Bytes in the network.
    #[inline]
    pub(crate) fn in_flight_bytes(&self) -> u32 {
        self.in_flight_bytes
    }

    /// Segments that were sacked.
    #[inline]
    pub(crate) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments to be sent again.
    #[inline]
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    #[inline]
    pub(crate) fn resent_in_flight(&self) -> u32 {
        self.resent_in_flight
    }

    /// Returns whether a segment that was sent more than once has not arrived yet, as far as known.
    pub(crate) fn has_resent(&self) -> bool {
        self.resent_in_flight > 0 || self.sent.iter().any(|record| record.lost && record.resent)
    }

    /// Returns whether a segment that reaches into `block` was sent more than once.
    pub(crate) fn has_resent_within(&self, block: SackBlock) -> bool {
        let first = self.sent.partition_point(|record| record.end.is_at_or_before(block.start));
        let mut within = self.sent.iter().skip(first).take_while(|record| record.start.is_before(block.end));
        within.any(|record| record.resent)
    }

    /// Returns whether all that is in flight was sent once, and nothing else is known of it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.sacked | self.lost | self.resent_in_flight == 0
    }

    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter()
    }

    pub(crate) fn first(&self) -> Option<Sent> {
        self.sent.front().copied()
    }

    pub(crate) fn last_index(&self) -> Option<usize> {
        self.sent.len().checked_sub(1)
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> Option<Sent> {
        self.sent.get(index).copied()
    }

    /// A new segment was sent.
    #[inline]
    pub(crate) fn push(&mut self, start: SequenceNumber, end: SequenceNumber, sent_at: Instant) {
        self.in_flight_bytes += end.since(start);
        self.sent.push_back(Sent {
            start,
            end,
            sent_at,
            sacked: false,
            lost: false,
            resent: false,
            stamp: Stamp::default(),
        });
    }

    /// Keeps `stamp` with the segment at `index`.
    pub(crate) fn set_stamp(&mut self, index: usize, stamp: Stamp) {
        if let Some(record) = self.sent.get_mut(index) {
            record.stamp = stamp;
        }
    }

    fn account(&mut self, record: &Sent, enters: bool) {
        let one = |there: bool| u32::from(there);
        let (bytes, resent) = if record.is_in_flight() { (record.bytes(), one(record.resent)) } else { (0, 0) };
        let (sacked, lost) = (one(record.sacked), one(record.lost));
        if enters {
            self.in_flight_bytes += bytes;
            self.resent_in_flight += resent;
            self.sacked += sacked;
            self.lost += lost;
        } else {
            self.in_flight_bytes -= bytes;
            self.resent_in_flight -= resent;
            self.sacked -= sacked;
            self.lost -= lost;
        }
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Sent)) {
        let Some(mut record) = self.at(index) else { return };
        self.account(&record, false);
        change(&mut record);
        self.account(&record, true);
        self.sent[index] = record;
    }

    /// Everything before `acknowledgement` has arrived. `delivered` is told each segment that was not sacked before.
    #[inline]
    pub(crate) fn acknowledge(&mut self, acknowledgement: SequenceNumber, mut delivered: impl FnMut(&Sent)) {
        while let Some(record) = self.sent.front().copied() {
            if record.end.is_after(acknowledgement) {
                if record.start.is_before(acknowledgement) {
                    self.change(0, |record| record.start = acknowledgement);
                }
                return;
            }
            self.sent.pop_front();
            self.account(&record, false);
            if !record.sacked {
                delivered(&record);
            }
        }
    }

    /// [`Scoreboard::acknowledge`] of a board that is plain: gives the first and the last segment that are now delivered.
    #[inline]
    pub(crate) fn acknowledge_plain(&mut self, acknowledgement: SequenceNumber) -> Option<(Sent, Sent)> {
        debug_assert!(self.is_plain());
        let mut delivered = None::<(Sent, Sent)>;
        while let Some(record) = self.sent.front_mut() {
            if record.end.is_after(acknowledgement) {
                if record.start.is_before(acknowledgement) {
                    self.in_flight_bytes -= acknowledgement.since(record.start);
                    record.start = acknowledgement;
                }
                break;
            }
            let record = *record;
            self.sent.pop_front();
            self.in_flight_bytes -= record.bytes();
            delivered = Some((delivered.map_or(record, |(oldest, _)| oldest), record));
        }
        if self.sent.is_empty() {
            // From its beginning again: one segment in flight uses the same cache line over and over.
            self.sent.clear();
        }
        delivered
    }

    /// `block` has arrived. A segment counts when the block covers all of it: one that is covered in part is sent again
    /// whole, so that a peer cannot make us keep more records than we sent segments.
    pub(crate) fn sack(&mut self, block: SackBlock, mut delivered: impl FnMut(&Sent)) {
        let mut index = self.sent.partition_point(|record| record.start.is_before(block.start));
        while let Some(record) = self.at(index) {
            if record.end.is_after(block.end) {
                return;
            }
            if !record.sacked {
                delivered(&record);
                self.change(index, |record| (record.sacked, record.lost) = (true, false));
            }
            index += 1;
        }
    }

    /// Believes the segment at `index` to be lost.
    pub(crate) fn mark_lost(&mut self, index: usize) {
        self.change(index, |record| record.lost = !record.sacked);
    }

    /// Believes every segment that was not sacked to be lost (RFC 6298 (5.4) with RFC 8985 section 6.3).
    pub(crate) fn mark_all_lost(&mut self) {
        // RFC 2018 section 8: a receiver that has sacked the first segment and does not acknowledge it has thrown it away.
        let reneged = self.first().is_some_and(|first| first.sacked);
        for index in 0..self.sent.len() {
            self.change(index, |record| {
                record.sacked &= !reneged;
                record.lost = !record.sacked;
            });
        }
    }

    /// Nothing is lost after all.
    pub(crate) fn clear_lost(&mut self) {
        for index in 0..self.sent.len() {
            self.change(index, |record| record.lost = false);
        }
    }

    /// The first segment to be sent again.
    #[inline]
    pub(crate) fn next_lost(&self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        self.sent.iter().position(|record| record.lost)
    }

    /// The segment at `index` was sent again.
    pub(crate) fn retransmit(&mut self, index: usize, now: Instant) {
        self.change(index, |record| (record.lost, record.resent, record.sent_at) = (false, true, now));
    }

    /// Cuts the segment at `index` so that its first part has `bytes`: the path takes less than it did.
    pub(crate) fn split(&mut self, index: usize, bytes: u32) {
        let Some(record) = self.at(index).filter(|record| bytes > 0 && record.bytes() > bytes) else { return };
        self.account(&record, false);
        let (mut head, mut tail) = (record, record);
        (head.end, tail.start) = (record.start + bytes, record.start + bytes);
        self.account(&head, true);
        self.account(&tail, true);
        self.sent[index] = head;
        self.sent.insert(index + 1, tail);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(number: u32) -> SequenceNumber {
        SequenceNumber(number.wrapping_sub(15))
    }

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock { start: at(start), end: at(end) }
    }

    fn five() -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..5 {
            board.push(at(number * 10), at(number * 10 + 10), Instant::from_nanos(u64::from(number)));
        }
        board
    }

    /// RFC 6675: sacked and lost segments are not in the pipe, those sent again are.
    #[test]
    fn the_pipe_counts_what_is_in_the_network() {
        let mut board = five();
        assert_eq!(board.in_flight_bytes(), 50);
        board.sack(block(20, 40), |_| ());
        assert_eq!((board.in_flight_bytes(), board.sacked()), (30, 2));
        board.mark_lost(0);
        board.mark_lost(2);
        assert_eq!((board.in_flight_bytes(), board.lost()), (20, 1), "what was sacked is not lost");
        assert_eq!(board.next_lost(), Some(0));
        board.retransmit(0, Instant::from_nanos(9));
        assert_eq!((board.in_flight_bytes(), board.lost(), board.resent_in_flight()), (30, 0, 1));
        board.acknowledge(at(45), |_| ());
        assert_eq!((board.in_flight_bytes(), board.sacked(), board.len()), (5, 0, 1));
    }

    /// `Config::in_flight_segments_max` tells it.
    #[test]
    fn a_segment_in_flight_takes_48_bytes() {
        assert_eq!(size_of::<Sent>(), 48);
    }

    #[test]
    fn a_segment_is_delivered_once() {
        let (mut board, mut told) = (five(), Vec::new());
        board.sack(block(10, 25), |record| told.push(record.start));
        board.sack(block(10, 30), |record| told.push(record.start));
        board.acknowledge(at(30), |record| told.push(record.start));
        assert_eq!(told, [at(10), at(20), at(0)], "in part does not count");
    }

    /// RFC 2018 section 8
    #[test]
    fn a_receiver_that_throws_away_gets_all_again() {
        let mut board = five();
        board.sack(block(0, 20), |_| ());
        board.mark_all_lost();
        assert_eq!((board.lost(), board.sacked(), board.in_flight_bytes()), (5, 0, 0));
        let mut board = five();
        board.sack(block(10, 20), |_| ());
        board.mark_all_lost();
        assert_eq!((board.lost(), board.sacked()), (4, 1));
    }

    proptest! {
        #[test]
        fn the_sums_are_right(steps in prop::collection::vec((0_u8..6, 0_u32..60, 1_u32..30), 0..40)) {
            let (mut board, mut next) = (five(), 50);
            for (kind, number, length) in steps {
                match kind {
                    0 => board.acknowledge(at(number), |_| ()),
                    1 => board.sack(block(number, number + length), |_| ()),
                    2 => board.mark_lost(number as usize % 5),
                    3 => board.retransmit(board.next_lost().unwrap_or(99), Instant::default()),
                    4 => board.split(number as usize % 5, length),
                    _ => {
                        board.push(at(next), at(next + length), Instant::default());
                        next += length;
                    }
                }
                let sum: u32 = board.iter().filter(|record| record.is_in_flight()).map(Sent::bytes).sum();
                prop_assert_eq!(board.in_flight_bytes(), sum);
                prop_assert_eq!(board.sacked() as usize, board.iter().filter(|record| record.sacked).count());
                prop_assert_eq!(board.lost() as usize, board.iter().filter(|record| record.lost).count());
                prop_assert!(board.iter().all(|record| record.start.is_before(record.end) && !(record.lost && record.sacked)));
                let records: Vec<_> = board.iter().collect();
                prop_assert!(records.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
        }
    }
}
