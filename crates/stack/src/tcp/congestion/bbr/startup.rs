//! Startup and Drain (sections 5.3.1 and 5.3.2).

use super::super::delivery_rate::Sample;
use super::{Ack, Bbr, DEFAULT_CWND_GAIN, DRAIN_PACING_GAIN, STARTUP_PACING_GAIN, State};

impl Bbr {
    /// BBREnterStartup()
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
        (self.pacing_gain, self.cwnd_gain) = (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN);
    }

    /// BBRCheckStartupDone()
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_bw.reached {
            self.state = State::Drain;
            (self.pacing_gain, self.cwnd_gain) = (DRAIN_PACING_GAIN, DEFAULT_CWND_GAIN);
        }
    }

    /// BBRCheckStartupHighLoss() of section 5.3.1.3: a whole round of fast recovery, more than two percent lost, in six places.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        let is_round_of_loss = self.loss.round_start && self.is_recovering && !self.full_bw.reached;
        if is_round_of_loss && self.is_round_of_high_loss(sample) {
            self.full_bw.reached = true;
            self.loss.inflight_longterm = self.bdp(self.max_bw.value(), 100).max(self.loss.inflight_latest);
        }
        if self.loss.round_start {
            self.loss.events_in_round = 0;
        }
    }

    /// BBRCheckDrainDone() of section 5.3.2.
    pub(super) fn check_drain_done(&mut self, ack: &Ack<'_>) {
        if self.state == State::Drain && ack.in_flight.1 <= self.inflight(self.bw, 100) {
            self.enter_probe_bw(ack.now);
        }
    }
}
