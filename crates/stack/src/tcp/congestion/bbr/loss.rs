//! The response to losses (section 5.5.10): upper bounds that probing has found, lower ones while not probing.

use super::super::delivery_rate::Sample;
use super::{Ack, BETA, Bbr, INFINITE, INFINITE_RATE, LOSS_THRESH_PERCENT, State};
use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::time::Instant;

/// BBRStartupFullLossCnt: ACKs with losses within a round.
const FULL_LOSS_COUNT: u8 = 6;
/// A round trip that is longer than the least one by an eighth has met a queue. In ProbeBW_UP it is longer by up to a quarter.
const QUEUE_PART: u64 = 8;
/// A loss beyond this is none of chance, whatever the round trip: where there is hardly a queue, it cannot tell.
const LOSS_ALWAYS_PERCENT: u64 = 10;

/// What losses have told.
#[derive(Clone, Debug)]
pub(super) struct LossModel {
    /// BBR.bw_shortterm, bytes/s.
    pub(super) bw_shortterm: u64,
    /// BBR.inflight_shortterm, bytes.
    pub(super) inflight_shortterm: u32,
    /// BBR.inflight_longterm, bytes.
    pub(super) inflight_longterm: u32,
    /// BBR.bw_latest, bytes/s.
    bw_latest: u64,
    /// BBR.inflight_latest, bytes.
    pub(super) inflight_latest: u32,
    round_delivered: u64,
    /// BBR.loss_round_start
    pub(super) round_start: bool,
    in_round: bool,
    /// ACKs with losses in this round.
    pub(super) events_in_round: u8,
    /// The least round trip of this round, ns: with a queue on the path all of them are longer.
    rtt_in_round_ns: u64,
    undo: Undo,
}

/// The model before a recovery, should that prove to be a mistake.
#[derive(Clone, Copy, Debug)]
struct Undo {
    state: State,
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

impl Default for LossModel {
    fn default() -> Self {
        let undo = Undo { state: State::Startup, bw_shortterm: 0, inflight_shortterm: 0, inflight_longterm: 0 };
        Self {
            bw_shortterm: INFINITE_RATE,
            inflight_shortterm: INFINITE,
            inflight_longterm: INFINITE,
            bw_latest: 0,
            inflight_latest: 0,
            round_delivered: 0,
            round_start: false,
            in_round: false,
            events_in_round: 0,
            rtt_in_round_ns: u64::MAX,
            undo,
        }
    }
}

impl Bbr {
    /// BBRNoteLoss() of section 5.5.10.2.
    pub(super) fn note_loss(&mut self) {
        if !self.loss.in_round {
            self.loss.round_delivered = self.rate.delivered();
        }
        self.loss.in_round = true;
    }

    /// BBRHandleLostPacket() of section 5.5.10.2: `segment` is believed to be lost.
    pub(crate) fn on_lost(&mut self, now: Instant, segment: &Sent) {
        self.rate.note_lost(segment.bytes());
        self.note_loss();
        if !self.cycle.has_probe_samples {
            return;
        }
        let Some(mut sample) = self.rate.sample_of_lost(segment) else { return };
        if self.is_round_of_high_loss(&sample) {
            sample.tx_in_flight = inflight_at_loss(&sample, segment.bytes());
            self.handle_inflight_too_high(now, &sample);
        }
    }

    /// Everything that was in flight, `bytes`, is believed to be lost.
    pub(crate) fn on_all_lost(&mut self, bytes: u32) {
        self.rate.note_lost(bytes);
    }

    /// IsInflightTooHigh(): more than two percent of what was in flight are lost.
    pub(super) fn is_inflight_too_high(sample: &Sample) -> bool {
        u64::from(sample.lost) * 100 > u64::from(sample.tx_in_flight) * LOSS_THRESH_PERCENT
    }

    /// Returns whether the loss of a round is no chance: more than two percent, by six ACKs, and a queue on the path; or so much
    /// that it needs no queue.
    pub(super) fn is_round_of_high_loss(&self, sample: &Sample) -> bool {
        let is_queued = self.loss.rtt_in_round_ns > self.min_rtt_ns.saturating_add(self.min_rtt_ns / QUEUE_PART);
        let is_very_high = u64::from(sample.lost) * 100 > u64::from(sample.tx_in_flight) * LOSS_ALWAYS_PERCENT;
        let is_high = is_queued && Self::is_inflight_too_high(sample);
        self.loss.events_in_round >= FULL_LOSS_COUNT && (is_high || is_very_high)
    }

    /// BBRHandleInflightTooHigh()
    fn handle_inflight_too_high(&mut self, now: Instant, sample: &Sample) {
        self.cycle.has_probe_samples = false;
        if !sample.is_app_limited {
            let least = (u64::from(self.target_inflight()) * BETA / 100) as u32;
            self.loss.inflight_longterm = sample.tx_in_flight.max(least);
        }
        if self.state == State::ProbeBwUp {
            self.start_probe_bw_down(now);
        }
    }

    /// BBRUpdateLatestDeliverySignals() of section 5.5.10.3.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &Sample) {
        let loss = &mut self.loss;
        loss.bw_latest = loss.bw_latest.max(sample.delivery_rate);
        loss.inflight_latest = loss.inflight_latest.max(sample.delivered);
        loss.rtt_in_round_ns = loss.rtt_in_round_ns.min(sample.rtt_ns.unwrap_or(u64::MAX));
        loss.round_start = sample.delivered > 0 && sample.prior_delivered >= loss.round_delivered;
        if loss.round_start {
            loss.round_delivered = self.rate.delivered();
        }
    }

    /// BBRAdvanceLatestDeliverySignals()
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &Sample) {
        if self.loss.round_start {
            (self.loss.bw_latest, self.loss.inflight_latest) = (sample.delivery_rate, sample.delivered);
            self.loss.rtt_in_round_ns = sample.rtt_ns.unwrap_or(u64::MAX);
        }
    }

    /// BBRResetCongestionSignals()
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss.in_round = false;
        (self.loss.bw_latest, self.loss.inflight_latest) = (0, 0);
    }

    /// BBRUpdateCongestionSignals()
    pub(super) fn update_congestion_signals(&mut self, ack: &Ack<'_>, sample: &Sample) {
        self.update_max_bw(sample);
        if ack.has_losses {
            self.loss.events_in_round = self.loss.events_in_round.saturating_add(1);
        }
        if self.loss.round_start {
            self.adapt_lower_bounds_from_congestion(sample);
            self.loss.in_round = false;
        }
    }

    /// BBRAdaptLowerBoundsFromCongestion(), BBRInitLowerBounds() and BBRLossLowerBounds(): once per round.
    ///
    /// The draft responds to a round with any loss. A path that loses one percent by chance loses something in every other round, and
    /// costs its share of the rate each time, for 63 rounds. So the response is to the loss of section 5.3.1.3: more than
    /// two percent, in six places (decision 0037).
    fn adapt_lower_bounds_from_congestion(&mut self, sample: &Sample) {
        if self.state.is_accelerating() || !self.loss.in_round || !self.is_round_of_high_loss(sample) {
            return;
        }
        let (max_bw, window, loss) = (self.max_bw.value(), self.window, &mut self.loss);
        if loss.bw_shortterm == INFINITE_RATE {
            loss.bw_shortterm = max_bw;
        }
        if loss.inflight_shortterm == INFINITE {
            loss.inflight_shortterm = window;
        }
        loss.bw_shortterm = loss.bw_latest.max(loss.bw_shortterm / 100 * BETA);
        loss.inflight_shortterm = loss.inflight_latest.max((u64::from(loss.inflight_shortterm) * BETA / 100) as u32);
    }

    /// BBRResetShortTermModel()
    pub(super) fn reset_short_term_model(&mut self) {
        (self.loss.bw_shortterm, self.loss.inflight_shortterm) = (INFINITE_RATE, INFINITE);
    }

    /// A recovery begins: its effects can be undone.
    pub(super) fn save_for_undo(&mut self) {
        let LossModel { bw_shortterm, inflight_shortterm, inflight_longterm, .. } = self.loss;
        self.loss.undo = Undo { state: self.state, bw_shortterm, inflight_shortterm, inflight_longterm };
    }

    /// The recovery was a mistake, nothing was lost (section 5.6.4.4): bounds and probes that it has ended come back.
    pub(crate) fn undo(&mut self) {
        let Undo { state, bw_shortterm, inflight_shortterm, inflight_longterm } = self.loss.undo;
        let loss = &mut self.loss;
        loss.in_round = false;
        loss.bw_shortterm = loss.bw_shortterm.max(bw_shortterm);
        loss.inflight_shortterm = loss.inflight_shortterm.max(inflight_shortterm);
        loss.inflight_longterm = loss.inflight_longterm.max(inflight_longterm);
        self.on_recovered();
        self.full_bw.reset(0);
        if self.state == State::ProbeRtt || self.state == state {
            return;
        }
        match state {
            State::Startup => {
                self.full_bw.reached = false;
                self.enter_startup();
            }
            State::ProbeBwUp => self.start_probe_bw_up(0),
            _ => {}
        }
    }
}

/// BBRInflightAtLoss(): the volume in flight at which losses went beyond the threshold, within the segment of `bytes`.
fn inflight_at_loss(sample: &Sample, bytes: u32) -> u32 {
    let before = u64::from(sample.tx_in_flight.saturating_sub(bytes));
    let lost_before = u64::from(sample.lost.saturating_sub(bytes));
    let allowed = (before * LOSS_THRESH_PERCENT).saturating_sub(lost_before * 100);
    let at_loss = before + allowed / (100 - LOSS_THRESH_PERCENT);
    at_loss.min(u64::from(INFINITE - 1)) as u32
}
