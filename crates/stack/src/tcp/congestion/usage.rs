//! Use of the congestion window: one that the application does not fill neither grows nor ages (RFC 9438 section 5.8).

use crate::tcp::time::Instant;
use sidestep_wire::tcp::SequenceNumber;

pub(crate) struct Usage {
    /// The most that was in flight in the round trip that ends with `round_end`.
    flight_max: u32,
    round_end: SequenceNumber,
    /// The congestion control knows of the pause since the last sending up to here.
    pause_counted_at: Instant,
}

impl Usage {
    pub(crate) fn new(iss: SequenceNumber, now: Instant) -> Self {
        Self { flight_max: 0, round_end: iss, pause_counted_at: now }
    }

    /// Takes what was in flight before an ACK, and returns the most that was in flight during this round trip.
    #[inline]
    pub(crate) fn update(&mut self, una: SequenceNumber, nxt: SequenceNumber, in_flight: u32) -> u32 {
        let used = self.flight_max.max(in_flight);
        (self.flight_max, self.round_end) =
            if una.is_at_or_after(self.round_end) { (in_flight, nxt) } else { (used, self.round_end) };
        used
    }

    /// Returns the part of the pause since `last_sent_at` that was not counted yet, in ns: an attempt that sink or window held back
    /// has counted the rest.
    pub(crate) fn take_pause_ns(&mut self, last_sent_at: Instant, now: Instant) -> u64 {
        let pause_ns = now.since_ns(last_sent_at.max(self.pause_counted_at));
        self.pause_counted_at = now;
        pause_ns
    }
}
