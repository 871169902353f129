//! Timestamps and the protection against wrapped numbers (RFC 7323).

use crate::tcp::time::{Instant, MILLISECOND_NS, SECOND_NS};
use sidestep_wire::tcp::{self, SequenceNumber};

/// A clock of 1 ms cannot wrap within this; a TS.Recent older than it proves nothing (RFC 7323 section 5.5).
const RECENT_LIFETIME_NS: u64 = 24 * 24 * 3600 * SECOND_NS;

/// TS.Recent and our own clock, of a connection that uses timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimestampClock {
    /// TS.Recent: what to echo.
    pub(crate) recent: u32,
    recent_at: Instant,
    /// Ours begins here (RFC 7323 section 7.1).
    offset: u32,
}

impl TimestampClock {
    pub(crate) fn new(offset: u32) -> Self {
        Self { recent: 0, recent_at: Instant::default(), offset }
    }

    /// Our clock: milliseconds (RFC 7323 section 5.4: between 1 ms and 1 s per tick).
    #[inline]
    pub(crate) fn value(&self, now: Instant) -> u32 {
        ((now.as_nanos() / MILLISECOND_NS) as u32).wrapping_add(self.offset)
    }

    /// The option for a segment sent at `now`.
    #[inline]
    pub(crate) fn option(&self, now: Instant) -> tcp::Timestamps {
        tcp::Timestamps { value: self.value(now), echo: self.recent }
    }

    /// The peer's clock on its SYN.
    pub(crate) fn begin(&mut self, value: u32, now: Instant) {
        (self.recent, self.recent_at) = (value, now);
    }

    /// The time since the peer's clock was last heard, in ns.
    pub(crate) fn silence_ns(&self, now: Instant) -> u64 {
        now.since_ns(self.recent_at)
    }

    /// Returns whether this clock is no older than TS.Recent, and so timely whatever the time.
    #[inline]
    pub(crate) fn is_ahead(&self, value: u32) -> bool {
        value.wrapping_sub(self.recent).cast_signed() >= 0
    }

    /// R1 of RFC 7323 section 5.3: whether a segment with this clock is too old.
    #[inline]
    pub(crate) fn is_old(&self, value: u32, now: Instant) -> bool {
        !self.is_ahead(value) && now.since_ns(self.recent_at) < RECENT_LIFETIME_NS
    }

    /// R3 of RFC 7323 section 4.3: the clock of an acceptable segment that begins at or before the last ACK sent.
    #[inline]
    pub(crate) fn update(&mut self, value: u32, seq: SequenceNumber, last_ack_sent: SequenceNumber, now: Instant) {
        if seq.is_at_or_before(last_ack_sent) && !self.is_old(value, now) {
            (self.recent, self.recent_at) = (value, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(recent: u32) -> TimestampClock {
        let mut timestamps = TimestampClock::new(5);
        timestamps.begin(recent, Instant::default());
        timestamps
    }

    /// RFC 7323 section 5.3
    #[test]
    fn old_clocks_are_known_over_the_wrap() {
        let timestamps = with(2);
        assert!(timestamps.is_old(1, Instant::default()) && timestamps.is_old(u32::MAX, Instant::default()));
        assert!(!timestamps.is_old(2, Instant::default()) && !timestamps.is_old(1 << 30, Instant::default()));
    }

    /// RFC 7323 section 5.5
    #[test]
    fn after_24_days_nothing_is_old() {
        assert!(!with(2).is_old(1, Instant::from_nanos(RECENT_LIFETIME_NS)));
    }

    /// RFC 7323 section 4.3
    #[test]
    fn only_a_segment_at_the_left_edge_updates() {
        let (mut timestamps, last) = (with(2), SequenceNumber(100));
        timestamps.update(9, last + 1, last, Instant::default());
        assert_eq!(timestamps.recent, 2);
        timestamps.update(9, last, last, Instant::default());
        assert_eq!(timestamps.recent, 9);
        timestamps.update(8, last, last, Instant::default());
        assert_eq!(timestamps.recent, 9, "never back");
    }

    #[test]
    fn the_clock_counts_milliseconds_from_its_offset() {
        let option = with(2).option(Instant::from_nanos(3_999_999));
        assert_eq!((option.value, option.echo), (8, 2));
    }
}
