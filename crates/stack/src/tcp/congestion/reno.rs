//! Slow start and congestion avoidance (RFC 5681), byte counting (RFC 3465).

use super::{CongestionControl, Progress};
use crate::tcp::time::Instant;

/// Segments by which one ACK may open the window in slow start: L of RFC 3465 section 2.3, as great as RFC 9406 section 4.2 has it for
/// a sender without pacing. With 2 a peer that acknowledges sixteen segments at once, as receivers behind GRO do, kept the window
/// small for many round trips.
pub(super) const SEGMENTS_PER_ACK: u32 = 8;
/// A window beyond the greatest receive window is of no use (RFC 7323: less than 2^30).
pub(crate) const WINDOW_MAX: u32 = 1 << 30;

/// RFC 5681.
#[derive(Clone, Debug)]
pub struct Reno {
    segment_bytes: u32,
    window: u32,
    initial: u32,
    threshold: u32,
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    counted: u32,
}

impl Reno {
    pub(crate) fn new(segment_bytes: u32, window: u32) -> Self {
        // RFC 5681 section 3.1: the threshold begins arbitrarily high.
        Self { segment_bytes, window, initial: window, threshold: WINDOW_MAX, counted: 0 }
    }

    /// RFC 5681 equation 4: max(FlightSize / 2, 2 * SMSS)
    fn halved(&self, in_flight_bytes: u32) -> u32 {
        (in_flight_bytes / 2).max(2 * self.segment_bytes)
    }
}

impl CongestionControl for Reno {
    fn window_bytes(&self) -> u32 {
        self.window
    }

    fn threshold_bytes(&self) -> u32 {
        self.threshold
    }

    fn on_progress(&mut self, progress: &Progress) {
        if !progress.is_limited {
            return;
        }
        if self.window < self.threshold {
            // RFC 5681 equation 2
            let more = progress.acknowledged_bytes.min(SEGMENTS_PER_ACK * self.segment_bytes);
            self.window = (self.window + more).min(WINDOW_MAX);
            return;
        }
        // RFC 5681 section 3.1: one segment per window of acknowledged bytes.
        self.counted += progress.acknowledged_bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window = (self.window + self.segment_bytes).min(WINDOW_MAX);
        }
    }

    fn on_loss(&mut self, _: Instant, in_flight_bytes: u32) {
        self.threshold = self.halved(in_flight_bytes);
        self.window = self.threshold;
        self.counted = 0;
    }

    fn on_timeout(&mut self, _: Instant, in_flight_bytes: u32, first: bool) {
        if first {
            self.threshold = self.halved(in_flight_bytes);
        }
        // RFC 5681 section 3.1: the loss window is one segment.
        self.window = self.segment_bytes;
        self.counted = 0;
    }

    fn on_idle(&mut self, _: u64, _: u64) {
        // RFC 5681 section 4.1: RW = min(IW, cwnd)
        self.window = self.window.min(self.initial);
    }

    fn on_segment_bytes(&mut self, segment_bytes: u32) {
        self.segment_bytes = segment_bytes;
        self.window = self.window.max(segment_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledge(reno: &mut Reno, bytes: u32, is_limited: bool) -> u32 {
        reno.on_progress(&Progress::unmeasured(Instant::default(), bytes, 1, is_limited));
        reno.window
    }

    /// RFC 5681 section 3.1, RFC 3465, RFC 9406
    #[test]
    fn slow_start_then_one_segment_per_window() {
        let mut reno = Reno::new(1000, 10_000);
        assert_eq!(acknowledge(&mut reno, 1000, true), 11_000);
        assert_eq!(acknowledge(&mut reno, 9000, true), 19_000, "at most eight segments per ACK");
        assert_eq!(acknowledge(&mut reno, 9000, false), 19_000, "a window that is not used does not grow");
        reno.on_loss(Instant::default(), 20_000);
        assert_eq!((reno.window, reno.threshold), (10_000, 10_000));
        assert_eq!(acknowledge(&mut reno, 9000, true), 10_000);
        assert_eq!(acknowledge(&mut reno, 1000, true), 11_000);
    }

    /// RFC 5681 section 3.1: after a timeout one segment; only the first of a row halves the threshold.
    #[test]
    fn a_timeout_begins_anew() {
        let mut reno = Reno::new(1000, 10_000);
        reno.on_timeout(Instant::default(), 10_000, true);
        assert_eq!((reno.window, reno.threshold), (1000, 5000));
        reno.on_timeout(Instant::default(), 1000, false);
        assert_eq!((reno.window, reno.threshold), (1000, 5000));
        reno.on_timeout(Instant::default(), 1000, true);
        assert_eq!(reno.threshold, 2000, "two segments at least");
    }

    /// RFC 5681 section 4.1
    #[test]
    fn idleness_returns_to_the_initial_window() {
        let mut reno = Reno::new(1000, 10_000);
        reno.window = 50_000;
        reno.on_idle(2, 1);
        assert_eq!(reno.window, 10_000);
        reno.window = 3_000;
        reno.on_idle(2, 1);
        assert_eq!(reno.window, 3_000);
    }
}
