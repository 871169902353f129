//! One line: the numbers it has brought, and its statistics.

use super::histogram::Histogram;
use super::holes::Holes;
use crate::units::{Nanos, Sequence};
use std::ops::Range;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Brings every message by itself, and heartbeats: A, B, the kernel twin of the socket of either.
    Live,
    /// Brings answers to requests: the socket or the group that they come to.
    Recovery,
}

/// Counters of one line. Messages are told apart by who brought them first.
#[derive(Clone, Debug, Default)]
pub struct LineStatistics {
    /// Datagrams of the session, heartbeats included.
    pub packets: u64,
    /// Messages in them.
    pub messages: u64,
    /// Messages that this line brought first.
    pub first: u64,
    /// Messages that had come already.
    pub duplicates: u64,
    /// Messages that came after they had been given up as lost.
    pub late: u64,
    /// Datagrams that came after a later one of the same line and brought what it had left out.
    pub out_of_order: u64,
    /// Messages that this line has left out so far, although it brought later ones (or a heartbeat). Counted on live lines.
    pub lost: u64,
    /// Datagrams that were not read: malformed ones.
    pub malformed: u64,
    /// Messages of it that found no room in the hold-back buffer.
    pub overflowed: u64,
    /// Datagrams far ahead of all others that nothing confirmed.
    pub implausible: u64,
    /// The arrival of its last datagram; nothing before the first.
    pub last_arrival: Option<Nanos>,
    /// For messages that another line had brought: how much later this one came, ns. One message in 32 is looked at.
    pub lag: Histogram,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    pub(super) statistics: LineStatistics,
    /// One past the last sequence that it brought or told; nothing before its first datagram.
    next: Option<u64>,
    holes: Holes,
}

impl Line {
    pub(super) fn new(kind: LineKind) -> Self {
        Self { kind, statistics: LineStatistics::default(), next: None, holes: Holes::default() }
    }

    /// A datagram with these messages, or a heartbeat before `range.start`.
    #[inline]
    pub(super) fn note(&mut self, arrived: Nanos, range: &Range<u64>) {
        self.statistics.packets += 1;
        self.statistics.messages += range.end - range.start;
        self.statistics.last_arrival = Some(arrived);
        if self.next == Some(range.start) {
            self.next = Some(range.end);
        } else if self.kind == LineKind::Live {
            self.note_out_of_order(range);
        }
    }

    #[cold]
    fn note_out_of_order(&mut self, range: &Range<u64>) {
        let next = self.next.unwrap_or(range.start);
        if range.start >= next {
            self.holes.open(next..range.start);
            self.statistics.lost += range.start - next;
        } else {
            let filled = self.holes.fill(range);
            self.statistics.lost -= filled;
            self.statistics.out_of_order += u64::from(filled > 0);
        }
        self.next = Some(next.max(range.end));
    }

    /// Numbers begin anew.
    pub(super) fn restart(&mut self) {
        (self.next, self.holes) = (None, Holes::default());
    }
}

/// Every so many messages an arrival is kept for [`LineStatistics::lag`].
const EVERY: u64 = 32;
/// Arrivals that are kept: lines may lie `EVERY` times as many messages apart.
const KEPT: usize = 512;

/// When messages came first.
#[derive(Debug)]
pub(super) struct FirstArrivals {
    marks: Box<[(Sequence, Nanos)]>,
}

impl FirstArrivals {
    pub(super) fn new() -> Self {
        Self { marks: vec![(Sequence(u64::MAX), Nanos(0)); KEPT].into() }
    }

    fn slot(mark: u64) -> usize {
        (mark / EVERY) as usize % KEPT
    }

    #[inline]
    pub(super) fn put(&mut self, range: &Range<u64>, arrived: Nanos) {
        let mut mark = range.end.saturating_sub(1) & !(EVERY - 1);
        while mark >= range.start {
            self.marks[Self::slot(mark)] = (Sequence(mark), arrived);
            match mark.checked_sub(EVERY) {
                Some(before) => mark = before,
                None => break,
            }
        }
    }

    /// The arrival of one of these messages.
    #[inline]
    pub(super) fn get(&self, range: &Range<u64>) -> Option<Nanos> {
        let mark = range.end.saturating_sub(1) & !(EVERY - 1);
        let (sequence, arrived) = self.marks[Self::slot(mark)];
        (mark >= range.start && sequence.0 == mark).then_some(arrived)
    }

    pub(super) fn clear(&mut self) {
        self.marks.fill((Sequence(u64::MAX), Nanos(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_its_own_losses_whatever_its_framing() {
        let mut line = Line::new(LineKind::Live);
        for range in [10..13, 15..16, 20..20, 14..15, 14..15, 30..33] {
            line.note(Nanos(range.start), &range);
        }
        let statistics = &line.statistics;
        assert_eq!((statistics.packets, statistics.messages, statistics.out_of_order), (6, 9, 1));
        assert_eq!(statistics.lost, 1 + 4 + 10, "13, 16 to 19, 20 to 29");
        assert_eq!(statistics.last_arrival, Some(Nanos(30)));
    }

    #[test]
    fn answers_to_requests_have_no_order_of_their_own() {
        let mut line = Line::new(LineKind::Recovery);
        line.note(Nanos(0), &(10..13));
        line.note(Nanos(0), &(100..101));
        assert_eq!(line.statistics.lost, 0);
    }

    #[test]
    fn an_arrival_is_found_in_any_framing() {
        let mut arrivals = FirstArrivals::new();
        arrivals.put(&(30..100), Nanos(7));
        assert_eq!(arrivals.get(&(60..70)), Some(Nanos(7)));
        assert_eq!(arrivals.get(&(65..70)), None, "64 is not in it");
        arrivals.put(&(0..1), Nanos(9));
        assert_eq!(arrivals.get(&(0..1)), Some(Nanos(9)));
    }
}
