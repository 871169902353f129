//! ProbeBW (section 5.3.3): in turns slower than the path, as fast, and faster, to see whether it carries more.

use super::super::delivery_rate::Sample;
use super::{Ack, Bbr, DEFAULT_CWND_GAIN, HEADROOM, INFINITE, MIN_PIPE_SEGMENTS, State};
use crate::tcp::time::{Instant, SECOND_NS};

const DOWN_PACING_GAIN: u32 = 90;
const UP_PACING_GAIN: u32 = 125;
const UP_CWND_GAIN: u32 = 225;
/// Rounds after which bandwidth is probed at the latest, for the sake of Reno and CUBIC beside (section 5.3.3.5.2).
const RENO_ROUNDS_MAX: u32 = 63;
/// The wait in time between two probes: at least so much, and up to a second more (section 5.3.3.5.3).
const WAIT_NS: u64 = 2 * SECOND_NS;
/// A window grows by at most 2^30 segments in a round.
const UP_ROUNDS_MAX: u8 = 30;

/// BBR.ack_phase: which phase the ACKs that come now tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state of one cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    /// BBR.cycle_stamp
    stamp: Instant,
    /// BBR.bw_probe_wait, ns.
    wait_ns: u64,
    /// BBR.rounds_since_bw_probe
    pub(super) rounds_since_probe: u32,
    pub(super) ack_phase: AckPhase,
    /// BBR.bw_probe_samples: losses of the last probe have had no response yet.
    pub(super) has_probe_samples: bool,
    up_rounds: u8,
    /// Bytes acknowledged that did not yet raise BBR.inflight_longterm by a segment.
    up_acked: u64,
    /// BBR.probe_up_cnt: bytes to be acknowledged for each segment by which BBR.inflight_longterm grows.
    up_count: u64,
}

impl Bbr {
    /// BBREnterProbeBW()
    pub(super) fn enter_probe_bw(&mut self, now: Instant) {
        self.cwnd_gain = DEFAULT_CWND_GAIN;
        self.start_probe_bw_down(now);
    }

    /// BBRStartProbeBW_DOWN()
    pub(super) fn start_probe_bw_down(&mut self, now: Instant) {
        self.reset_congestion_signals();
        self.cycle.up_count = u64::MAX;
        self.pick_probe_wait(now);
        self.cycle.stamp = now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.begin_round();
        self.enter(State::ProbeBwDown, DOWN_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// BBRStartProbeBW_CRUISE()
    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.enter(State::ProbeBwCruise, 100, DEFAULT_CWND_GAIN);
    }

    /// BBRStartProbeBW_REFILL()
    fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0);
        self.cycle.ack_phase = AckPhase::Refilling;
        self.begin_round();
        self.enter(State::ProbeBwRefill, 100, DEFAULT_CWND_GAIN);
    }

    /// BBRStartProbeBW_UP()
    pub(super) fn start_probe_bw_up(&mut self, delivery_rate: u64) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.begin_round();
        self.full_bw.reset(delivery_rate);
        self.enter(State::ProbeBwUp, UP_PACING_GAIN, UP_CWND_GAIN);
        self.raise_inflight_longterm_slope();
    }

    fn enter(&mut self, state: State, pacing_gain: u32, cwnd_gain: u32) {
        (self.state, self.pacing_gain, self.cwnd_gain) = (state, pacing_gain, cwnd_gain);
    }

    /// BBRUpdateProbeBWCyclePhase()
    pub(super) fn update_probe_bw_cycle_phase(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if !self.full_bw.reached {
            return;
        }
        self.adapt_long_term_model(ack, sample);
        match self.state {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe_bw(ack.now) => {
                self.start_probe_bw_refill();
            }
            State::ProbeBwDown if self.is_time_to_cruise(ack.in_flight.1) => self.start_probe_bw_cruise(),
            State::ProbeBwRefill if self.round_start => {
                self.cycle.has_probe_samples = true;
                self.start_probe_bw_up(sample.delivery_rate);
            }
            State::ProbeBwUp => self.go_down_in_time(ack, sample),
            _ => {}
        }
    }

    /// BBRAdaptLongTermModel()
    fn adapt_long_term_model(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && self.round_start {
            // One round after the probe its samples are in; once per cycle.
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.is_app_limited {
                self.max_bw.advance();
            }
        }
        if Self::is_inflight_too_high(sample) || self.loss.inflight_longterm == INFINITE {
            return;
        }
        self.loss.inflight_longterm = self.loss.inflight_longterm.max(sample.tx_in_flight);
        if self.state == State::ProbeBwUp {
            self.probe_inflight_longterm_upward(ack, sample);
        }
    }

    /// BBRIsTimeToProbeBW() with BBRIsRenoCoexistenceProbeTime()
    fn is_time_to_probe_bw(&self, now: Instant) -> bool {
        let reno_rounds = (self.target_inflight() / self.segment_bytes.max(1)).min(RENO_ROUNDS_MAX);
        now.since_ns(self.cycle.stamp) > self.cycle.wait_ns || self.cycle.rounds_since_probe >= reno_rounds
    }

    /// BBRPickProbeWait(): two to three seconds, and a round more or less. Not by a secret: by the time and what was delivered.
    fn pick_probe_wait(&mut self, now: Instant) {
        let mixed = (now.as_nanos() ^ self.rate.delivered().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.cycle.rounds_since_probe = (mixed >> 63) as u32;
        self.cycle.wait_ns = WAIT_NS + (mixed >> 32) % SECOND_NS;
    }

    /// BBRIsTimeToCruise()
    fn is_time_to_cruise(&self, in_flight: u32) -> bool {
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw.value(), 100)
    }

    /// BBRIsTimeToGoDown(), and what follows from it. A probe that raises nothing, because more than two percent are lost by what is
    /// believed to be chance, ends as well.
    fn go_down_in_time(&mut self, ack: &Ack<'_>, sample: &Sample) {
        let is_at_limit = ack.is_cwnd_limited && self.window >= self.loss.inflight_longterm;
        if is_at_limit && !Self::is_inflight_too_high(sample) {
            self.full_bw.reset(sample.delivery_rate);
        } else if self.full_bw.now {
            self.start_probe_bw_down(ack.now);
        }
    }

    /// BBRInflightWithHeadroom()
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        let most = self.loss.inflight_longterm;
        if most == INFINITE {
            return INFINITE;
        }
        let headroom = ((u64::from(most) * HEADROOM / 100) as u32).max(self.segment_bytes);
        most.saturating_sub(headroom).max(self.segments(MIN_PIPE_SEGMENTS))
    }

    /// BBRRaiseInflightLongtermSlope(): one segment in the first round, two in the second, four in the third.
    fn raise_inflight_longterm_slope(&mut self) {
        let growth = 1_u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(UP_ROUNDS_MAX);
        self.cycle.up_count = (u64::from(self.window) / growth).max(1);
    }

    /// BBRProbeInflightLongtermUpward()
    fn probe_inflight_longterm_upward(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if !ack.is_cwnd_limited || self.window < self.loss.inflight_longterm {
            return;
        }
        self.cycle.up_acked += u64::from(sample.newly_acked);
        let segments = self.cycle.up_acked / self.cycle.up_count.max(1);
        if segments > 0 {
            self.cycle.up_acked -= segments * self.cycle.up_count;
            let more = segments.saturating_mul(u64::from(self.segment_bytes));
            let raised = u64::from(self.loss.inflight_longterm).saturating_add(more);
            self.loss.inflight_longterm = raised.min(u64::from(super::super::reno::WINDOW_MAX)) as u32;
        }
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }
}
