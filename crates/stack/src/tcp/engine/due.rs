//! The list of the next poll: connections whose segments the sink has refused, and those that owe an ACK which may ride on data.
//!
//! A refused segment is tried in the next poll. An ACK waits for the end of the burst that it acknowledges (`burst_gap_us`): a
//! message of several segments is answered by one ACK, with the answer if there is one, and not by one in its middle.

use crate::tcp::time::Instant;

/// The most gaps that an ACK waits for, where segments keep coming: those of other connections, too, end no burst.
const GAPS_MAX: u64 = 16;

#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Each connection once (`Marks::is_due`).
    list: Vec<u32>,
    /// The list of the poll under way; kept for its memory.
    polled: Vec<u32>,
    /// The sink has refused a segment of one of them.
    is_refused: bool,
    /// Since when the longest waiting ACK is owed.
    first_owed: Instant,
    /// When the last segment came that an ACK is owed for.
    last_owed: Instant,
}

impl Due {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[cfg(feature = "audit")]
    pub(crate) fn has(&self, index: u32) -> bool {
        self.list.contains(&index)
    }

    /// A segment has come that an ACK is owed for. `is_new`: the connection is not on the list yet.
    #[inline]
    pub(crate) fn owe_ack(&mut self, now: Instant, index: u32, is_new: bool) {
        self.last_owed = now;
        if is_new {
            if self.list.is_empty() {
                self.first_owed = now;
            }
            self.list.push(index);
        }
    }

    /// The sink has refused a segment.
    pub(crate) fn refuse(&mut self, index: u32, is_new: bool) {
        self.is_refused = true;
        if is_new {
            self.list.push(index);
        }
    }

    /// The time of the poll that serves the list, `gap_ns` after the end of a burst; `None`: it is empty.
    #[inline]
    pub(crate) fn at(&self, gap_ns: u64) -> Option<Instant> {
        match () {
            () if self.list.is_empty() => None,
            () if self.is_refused || gap_ns == 0 => Some(Instant::default()),
            () => Some(self.last_owed.after_ns(gap_ns).min(self.first_owed.after_ns(gap_ns * GAPS_MAX))),
        }
    }

    /// Begins a poll: what becomes due meanwhile is for the next one, as a sink without room must not hold this one.
    pub(crate) fn begin(&mut self) {
        std::mem::swap(&mut self.list, &mut self.polled);
        self.is_refused = false;
    }

    /// The next connection of the poll under way.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.polled.pop()
    }

    /// The connection, if it is the only one.
    #[inline]
    pub(crate) fn only(&self) -> Option<u32> {
        if let [index] = self.list[..] { Some(index) } else { None }
    }

    /// Takes the only connection from the list.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.is_refused = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanos(nanoseconds)
    }

    #[test]
    fn an_ack_waits_for_the_end_of_a_burst_but_not_for_ever() {
        let mut due = Due::default();
        assert_eq!(due.at(100), None);
        due.owe_ack(at(1000), 7, true);
        assert_eq!(due.at(100), Some(at(1100)));
        assert_eq!(due.at(0), Some(Instant::default()), "without a gap in the next poll");
        due.owe_ack(at(1090), 7, false);
        assert_eq!(due.at(100), Some(at(1190)));
        due.owe_ack(at(9000), 8, true);
        assert_eq!(due.at(100), Some(at(1000 + 100 * GAPS_MAX)));
        due.begin();
        assert_eq!(due.at(100), None);
        assert_eq!([due.next(), due.next(), due.next()], [Some(8), Some(7), None]);
    }

    #[test]
    fn what_was_refused_is_tried_in_the_next_poll() {
        let mut due = Due::default();
        due.owe_ack(at(1000), 7, true);
        due.refuse(7, false);
        assert_eq!(due.at(100), Some(Instant::default()));
        due.begin();
        due.owe_ack(at(2000), 7, true);
        assert_eq!(due.at(100), Some(at(2100)));
    }
}
