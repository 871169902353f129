//! CUBIC (RFC 9438).

use super::hystart::{Growth, HyStart};
use super::reno::{SEGMENTS_PER_ACK, WINDOW_MAX};
use super::{CongestionControl, Progress};
use crate::tcp::time::Instant;

/// RFC 9438 section 4.1
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// RFC 9438 section 4.3: as aggressive as Reno on average.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// CSS_GROWTH_DIVISOR of RFC 9406 section 4.3.
const CONSERVATIVE_DIVISOR: f64 = 4.0;

/// RFC 9438. Windows inside are in segments, as in the RFC.
#[derive(Clone, Debug)]
pub struct Cubic {
    segment_bytes: u32,
    window: f64,
    initial: f64,
    threshold: f64,
    /// The window at the last loss, W_max.
    before_loss: f64,
    epoch: Option<Epoch>,
    /// Of the first slow start.
    hystart: HyStart,
    /// Window and threshold in bytes: asked for several times per segment, changed seldom.
    window_bytes: u32,
    threshold_bytes: u32,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Seconds after which the curve is back at W_max.
    k: f64,
    /// The window that Reno would have (W_est).
    reno: f64,
    /// The window when the stage began, cwnd_epoch.
    window: f64,
}

impl Cubic {
    pub(crate) fn new(segment_bytes: u32, window: u32) -> Self {
        let window = f64::from(window) / f64::from(segment_bytes.max(1));
        let threshold = f64::from(WINDOW_MAX);
        let mut cubic = Self {
            segment_bytes,
            window,
            initial: window,
            threshold,
            before_loss: 0.0,
            epoch: None,
            hystart: HyStart::default(),
            window_bytes: 0,
            threshold_bytes: 0,
        };
        cubic.count_bytes();
        cubic
    }

    /// To be called after each change.
    fn count_bytes(&mut self) {
        (self.window_bytes, self.threshold_bytes) = (self.bytes(self.window), self.bytes(self.threshold));
    }

    fn bytes(&self, segments: f64) -> u32 {
        (segments * f64::from(self.segment_bytes)).min(f64::from(WINDOW_MAX)) as u32
    }

    fn segments(&self, bytes: u32) -> f64 {
        f64::from(bytes) / f64::from(self.segment_bytes.max(1))
    }

    /// RFC 9438 section 4.2: K = cubic_root((W_max - cwnd_epoch) / C)
    fn begin_epoch(&self, now: Instant) -> Epoch {
        let missing = (self.before_loss - self.window).max(0.0);
        Epoch { start: now, k: (missing / C).cbrt(), reno: self.window, window: self.window }
    }

    /// RFC 9438 equation 1
    fn curve(&self, epoch: &Epoch, seconds: f64) -> f64 {
        let top = self.before_loss.max(epoch.window);
        C * (seconds - epoch.k).powi(3) + top
    }

    /// RFC 9438 section 4.10: HyStart++ in the first slow start, whose threshold is arbitrarily high; each later one is as of
    /// RFC 5681.
    #[inline]
    fn slow_start_growth(&mut self, progress: &Progress) -> Growth {
        if self.window >= self.threshold {
            return Growth::Over;
        }
        if self.threshold_bytes < WINDOW_MAX {
            return Growth::SlowStart;
        }
        let growth = self.hystart.on_ack(progress);
        if growth == Growth::Over {
            self.threshold = self.window;
            self.count_bytes();
        }
        growth
    }

    fn slow_start_segments(&self, progress: &Progress) -> f64 {
        self.segments(progress.acknowledged_bytes.min(SEGMENTS_PER_ACK * self.segment_bytes))
    }

    /// RFC 9438 sections 4.2 to 4.5
    fn avoid_congestion(&mut self, progress: &Progress) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin_epoch(progress.now));
        let acknowledged = self.segments(progress.acknowledged_bytes);
        let seconds = (progress.now.since_ns(epoch.start) + progress.rtt_ns) as f64 / 1e9;
        // Section 4.3: once W_est has reached the window before the loss, it grows like Reno.
        let alpha = if epoch.reno >= self.before_loss { 1.0 } else { ALPHA };
        epoch.reno += alpha * acknowledged / self.window;
        self.epoch = Some(epoch);
        if self.curve(&epoch, now_seconds(progress, &epoch)) < epoch.reno {
            self.window = self.window.max(epoch.reno);
            return;
        }
        // Section 4.2: the target lies between the window and one and a half of it.
        let target = self.curve(&epoch, seconds).clamp(self.window, self.window * 1.5);
        self.window += (target - self.window) / self.window * acknowledged;
    }

    /// RFC 9438 sections 4.6 and 4.7
    fn reduce(&mut self, in_flight_bytes: u32) {
        self.before_loss = if self.window < self.before_loss { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.segments(in_flight_bytes) * BETA).max(2.0);
        self.epoch = None;
    }
}

fn now_seconds(progress: &Progress, epoch: &Epoch) -> f64 {
    progress.now.since_ns(epoch.start) as f64 / 1e9
}

impl CongestionControl for Cubic {
    #[inline]
    fn window_bytes(&self) -> u32 {
        self.window_bytes
    }

    #[inline]
    fn threshold_bytes(&self) -> u32 {
        self.threshold_bytes
    }

    fn on_progress(&mut self, progress: &Progress) {
        if !progress.is_limited {
            return;
        }
        match self.slow_start_growth(progress) {
            Growth::SlowStart => self.window += self.slow_start_segments(progress),
            Growth::Conservative => self.window += self.slow_start_segments(progress) / CONSERVATIVE_DIVISOR,
            Growth::Over => self.avoid_congestion(progress),
        }
        self.window = self.window.min(f64::from(WINDOW_MAX) / f64::from(self.segment_bytes.max(1)));
        self.count_bytes();
    }

    fn on_loss(&mut self, _: Instant, in_flight_bytes: u32) {
        self.reduce(in_flight_bytes);
        self.window = self.threshold;
        self.count_bytes();
    }

    fn on_timeout(&mut self, _: Instant, in_flight_bytes: u32, first: bool) {
        if first {
            self.reduce(in_flight_bytes);
        }
        // Section 4.8: the loss window is one segment.
        self.window = 1.0;
        self.epoch = None;
        self.count_bytes();
    }

    fn on_idle(&mut self, _: u64, _: u64) {
        // RFC 5681 section 4.1: RW = min(IW, cwnd)
        self.window = self.window.min(self.initial);
        self.epoch = None;
        self.count_bytes();
    }

    /// Section 5.8: the curve must not run on while nobody sends.
    fn on_pause(&mut self, pause_ns: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.after_ns(pause_ns);
        }
    }

    fn on_segment_bytes(&mut self, segment_bytes: u32) {
        let scale = f64::from(self.segment_bytes.max(1)) / f64::from(segment_bytes.max(1));
        self.window = (self.window * scale).max(1.0);
        self.before_loss *= scale;
        self.threshold = (self.threshold * scale).max(2.0);
        self.segment_bytes = segment_bytes;
        self.epoch = None;
        self.count_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;

    fn run(cubic: &mut Cubic, from_ms: u64, to_ms: u64) {
        for ms in from_ms..to_ms {
            let now = Instant::from_nanos(ms * 1_000_000);
            // Every tenth of a round trip of 10 ms, a tenth of the window.
            let acknowledged_bytes = cubic.window_bytes() / 10;
            cubic.on_progress(&Progress::unmeasured(now, acknowledged_bytes, 10_000_000, true));
        }
    }

    fn after_loss_at(segments: u32) -> Cubic {
        let mut cubic = Cubic::new(SEGMENT, segments * SEGMENT);
        cubic.on_loss(Instant::default(), segments * SEGMENT);
        cubic
    }

    /// RFC 9438 section 4.6: beta is 0.7; section 4.7: without a full recovery W_max is lowered further.
    #[test]
    fn a_loss_costs_three_tenths() {
        let mut cubic = after_loss_at(1000);
        assert_eq!(cubic.window_bytes(), 700 * SEGMENT);
        assert!((cubic.before_loss - 1000.0).abs() < 1e-9);
        cubic.on_loss(Instant::default(), 700 * SEGMENT);
        assert!((cubic.before_loss - 595.0).abs() < 1e-9);
    }

    /// RFC 9438 section 4.2: after K seconds the window is back where the loss was, flat there, and goes beyond it later.
    #[test]
    fn the_curve_has_its_plateau_at_the_last_loss() {
        let mut cubic = after_loss_at(10_000);
        let k_ms = ((3000.0_f64 / C).cbrt() * 1000.0) as u64;
        run(&mut cubic, 0, k_ms / 2);
        let half = cubic.window;
        run(&mut cubic, k_ms / 2, k_ms);
        let plateau = cubic.window;
        run(&mut cubic, k_ms, 2 * k_ms);
        assert!((9_500.0..10_100.0).contains(&plateau), "{plateau}");
        assert!(plateau - half < half - 7000.0, "steep first, flat then: {half}");
        assert!(cubic.window > 10_500.0, "{}", cubic.window);
    }

    /// RFC 9438 section 4.3: where Reno is faster, as fast as Reno.
    #[test]
    fn on_short_paths_it_is_no_slower_than_reno() {
        let mut cubic = after_loss_at(10);
        run(&mut cubic, 0, 100);
        // Ten round trips: at least 0.53 segments each.
        assert!(cubic.window >= 7.0 + 10.0 * ALPHA * 0.9, "{}", cubic.window);
    }

    /// RFC 9438 section 5.8
    #[test]
    fn a_pause_does_not_count() {
        let (mut one, mut other) = (after_loss_at(1000), after_loss_at(1000));
        run(&mut one, 0, 1000);
        run(&mut other, 0, 1000);
        other.on_pause(5_000_000_000);
        run(&mut one, 1000, 1100);
        run(&mut other, 6000, 6100);
        assert!((one.window - other.window).abs() < 1.0, "{} {}", one.window, other.window);
    }

    #[test]
    fn a_timeout_leaves_one_segment() {
        let mut cubic = after_loss_at(100);
        cubic.on_timeout(Instant::default(), 70 * SEGMENT, true);
        assert_eq!((cubic.window_bytes(), cubic.threshold_bytes()), (SEGMENT, 49 * SEGMENT));
    }

    /// A path whose MTU falls to a sixth has room for as many bytes as before.
    #[test]
    fn the_threshold_is_bytes_whatever_the_segments() {
        let mut cubic = after_loss_at(100);
        cubic.on_segment_bytes(6 * SEGMENT);
        cubic.on_timeout(Instant::default(), 600 * SEGMENT, true);
        let before = cubic.threshold_bytes();
        cubic.on_segment_bytes(SEGMENT);
        assert!(cubic.threshold_bytes().abs_diff(before) <= SEGMENT, "{} after {before}", cubic.threshold_bytes());
    }
}
