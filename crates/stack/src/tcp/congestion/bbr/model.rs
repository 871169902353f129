//! The model of the path (section 5.5.1 to 5.5.9): rounds, bandwidth, and how much ACKs come at once.

use super::super::delivery_rate::Sample;
use super::Bbr;
use crate::tcp::time::{Instant, SECOND_NS};

/// Rounds that one half of the filter of BBR.extra_acked covers: BBRExtraAckedFilterLen is 10.
const EXTRA_ACKED_HALF_ROUNDS: u32 = 5;
/// Rounds without much growth after which the pipe is full (section 5.3.1.2).
const FULL_BW_ROUNDS: u8 = 3;

/// BBR.max_bw over the ProbeBW cycle before, and the present one (sections 5.5.3 and 5.5.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBandwidth {
    before: u64,
    present: u64,
}

impl MaxBandwidth {
    /// BBR.max_bw, bytes/s.
    pub(super) fn value(self) -> u64 {
        self.before.max(self.present)
    }

    fn update(&mut self, rate: u64) {
        self.present = self.present.max(rate);
    }

    /// BBRAdvanceMaxBwFilter(); a cycle without any sample does not count.
    pub(super) fn advance(&mut self) {
        if self.present > 0 {
            (self.before, self.present) = (self.present, 0);
        }
    }
}

/// The estimator of a full pipe (section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullBandwidth {
    bw: u64,
    count: u8,
    /// BBR.full_bw_now
    pub(super) now: bool,
    /// BBR.full_bw_reached
    pub(super) reached: bool,
}

impl FullBandwidth {
    /// BBRResetFullBW(), with the bandwidth that has to be surpassed.
    pub(super) fn reset(&mut self, bw: u64) {
        *self = Self { bw, count: 0, now: false, reached: self.reached };
    }
}

/// BBR.extra_acked (section 5.5.9), a filter of two halves of five rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraAcked {
    interval_start: Instant,
    delivered: u64,
    before: u32,
    present: u32,
    rounds: u32,
}

impl ExtraAcked {
    pub(super) fn restart(&mut self, now: Instant) {
        self.interval_start = now;
    }

    /// BBR.extra_acked, bytes.
    pub(super) fn value(&self) -> u32 {
        self.before.max(self.present)
    }
}

/// `rate` times `time_ns`, in bytes; no division, no overflow.
pub(super) fn volume(rate: u64, time_ns: u64) -> u64 {
    // A unit of 64 ns keeps 10 GB/s over a second and a half within 64 bits.
    rate.saturating_mul(time_ns >> 6) / (SECOND_NS >> 6)
}

impl Bbr {
    /// BBRUpdateMaxBw() of section 5.5.5.
    pub(super) fn update_max_bw(&mut self, sample: &Sample) {
        self.update_round(sample);
        if sample.delivery_rate > 0 && (sample.delivery_rate >= self.max_bw.value() || !sample.is_app_limited) {
            self.max_bw.update(sample.delivery_rate);
        }
    }

    /// BBRUpdateRound() of section 5.5.1.
    fn update_round(&mut self, sample: &Sample) {
        self.round_start = sample.delivered > 0 && sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.begin_round();
            self.round_count = self.round_count.wrapping_add(1);
            self.cycle.rounds_since_probe = self.cycle.rounds_since_probe.saturating_add(1);
        }
    }

    /// BBRCheckFullBWReached() of section 5.3.1.2.
    pub(super) fn check_full_bw_reached(&mut self, sample: &Sample) {
        if self.full_bw.now || !self.round_start || sample.is_app_limited || sample.delivery_rate == 0 {
            return;
        }
        // Still growing by a quarter in each round.
        if sample.delivery_rate >= self.full_bw.bw.saturating_add(self.full_bw.bw / 4) {
            return self.full_bw.reset(sample.delivery_rate);
        }
        self.full_bw.count += 1;
        self.full_bw.now = self.full_bw.count >= FULL_BW_ROUNDS;
        self.full_bw.reached |= self.full_bw.now;
    }

    /// BBRUpdateACKAggregation() of section 5.5.9.
    pub(super) fn update_ack_aggregation(&mut self, now: Instant, sample: &Sample) {
        let half = if self.full_bw.reached { EXTRA_ACKED_HALF_ROUNDS } else { 1 };
        let extra = &mut self.extra_acked;
        if self.round_start {
            extra.rounds += 1;
            if extra.rounds >= half {
                (extra.before, extra.present, extra.rounds) = (extra.present, 0, 0);
            }
        }
        let mut expected = volume(self.bw, now.since_ns(extra.interval_start));
        if extra.delivered <= expected {
            (extra.delivered, extra.interval_start, expected) = (0, now, 0);
        }
        extra.delivered = extra.delivered.saturating_add(u64::from(sample.newly_acked));
        let beyond = extra.delivered.saturating_sub(expected).min(u64::from(self.window));
        extra.present = extra.present.max(beyond as u32);
    }

    /// BBRBoundBWForModel() of section 5.5.10.3.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.value().min(self.loss.bw_shortterm);
    }
}
