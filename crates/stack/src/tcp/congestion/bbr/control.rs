//! The control parameters (section 5.6): pacing rate, and congestion window.

use super::super::delivery_rate::Sample;
use super::super::reno::WINDOW_MAX;
use super::model::volume;
use super::probe_rtt;
use super::{Bbr, INFINITE, MIN_PIPE_SEGMENTS, PACING_MARGIN_PERCENT, STARTUP_PACING_GAIN, State};
use crate::tcp::time::SECOND_NS;

impl Bbr {
    /// BBRInitPacingRate() of section 5.6.2, once a round trip is known.
    pub(super) fn init_pacing_rate(&mut self, srtt_ns: u64) {
        if self.has_seen_rtt || srtt_ns == 0 {
            return;
        }
        self.has_seen_rtt = true;
        let nominal = u64::from(self.initial_window) * SECOND_NS / srtt_ns;
        self.pacer.set_rate(nominal * u64::from(STARTUP_PACING_GAIN) / 100, self.segment_bytes);
    }

    /// BBRSetPacingRateWithGain(); `gain` in hundredths.
    pub(super) fn set_pacing_rate(&mut self, gain: u32) {
        // In two steps of hundredths: no rate of a wire overflows.
        let rate = self.bw.saturating_mul(u64::from(gain)) / 100;
        let rate = rate.saturating_mul(100 - PACING_MARGIN_PERCENT) / 100;
        // A segment each round trip may always leave: by how little was delivered while nothing was needed no message waits longer.
        let least = u64::from(self.segment_bytes) * SECOND_NS / self.min_rtt_ns.clamp(1, SECOND_NS);
        let rate = rate.max(least);
        if self.full_bw.reached || rate > self.pacer.rate() {
            self.pacer.set_rate(rate, self.segment_bytes);
        }
    }

    /// BBRBDPMultiple() of section 5.6.4.2, for a bandwidth; `gain` in hundredths.
    pub(super) fn bdp(&self, bw: u64, gain: u32) -> u32 {
        if self.min_rtt_ns == u64::MAX {
            return self.initial_window;
        }
        let bytes = volume(bw, self.min_rtt_ns).saturating_mul(u64::from(gain)) / 100;
        bytes.min(u64::from(WINDOW_MAX)) as u32
    }

    /// BBRInflight()
    pub(super) fn inflight(&self, bw: u64, gain: u32) -> u32 {
        self.quantization_budget(self.bdp(bw, gain))
    }

    /// BBRQuantizationBudget() of section 5.6.4.2, with BBR.offload_budget of section 5.5.8.
    fn quantization_budget(&self, cap: u32) -> u32 {
        let offload_budget = self.pacer.quantum().saturating_mul(3);
        let cap = cap.max(offload_budget).max(self.segments(MIN_PIPE_SEGMENTS));
        cap.saturating_add(if self.state == State::ProbeBwUp { self.segments(2) } else { 0 })
    }

    /// BBRTargetInflight() of section 5.3.3.5.3.
    pub(super) fn target_inflight(&self) -> u32 {
        self.bdp(self.bw, 100).min(self.window)
    }

    /// BBRSaveCwnd() of section 5.6.4.4.
    pub(super) fn save_window(&mut self) {
        let is_good = !self.is_recovering && self.state != State::ProbeRtt;
        self.prior_window = if is_good { self.window } else { self.prior_window.max(self.window) };
    }

    /// BBRRestoreCwnd()
    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// BBRProbeRTTCwnd() of section 5.6.4.5.
    pub(super) fn probe_rtt_window(&self) -> u32 {
        self.bdp(self.bw, probe_rtt::CWND_GAIN).max(self.segments(MIN_PIPE_SEGMENTS))
    }

    /// BBRSetCwnd() of section 5.6.4.6.
    pub(super) fn set_window(&mut self, sample: &Sample) {
        let cap = self.bdp(self.bw, self.cwnd_gain).saturating_add(self.extra_acked.value());
        let max_inflight = self.quantization_budget(cap);
        let grown = self.window.saturating_add(sample.newly_acked);
        if self.full_bw.reached {
            self.window = grown.min(max_inflight);
        } else if self.window < max_inflight || self.rate.delivered() < u64::from(self.initial_window) {
            self.window = grown;
        }
        self.window = self.window.max(self.segments(MIN_PIPE_SEGMENTS)).min(WINDOW_MAX);
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.bound_window_for_model();
    }

    /// BBRBoundCwndForModel() of section 5.6.4.7.
    fn bound_window_for_model(&mut self) {
        let cap = match self.state {
            State::ProbeRtt | State::ProbeBwCruise => self.inflight_with_headroom(),
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.loss.inflight_longterm,
            State::Startup | State::Drain => INFINITE,
        };
        let cap = cap.min(self.loss.inflight_shortterm).max(self.segments(MIN_PIPE_SEGMENTS));
        self.window = self.window.min(cap);
    }
}
