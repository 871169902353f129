//! The least round trip, and ProbeRTT (section 5.3.4): once in five seconds the queue of the path is let run empty, so that it can be
//! measured.

use super::super::delivery_rate::Sample;
use super::{Ack, AckPhase, Bbr, State};
use crate::tcp::time::{Instant, MILLISECOND_NS, SECOND_NS};

/// BBR.ProbeRTTInterval
const INTERVAL_NS: u64 = 5 * SECOND_NS;
/// BBR.ProbeRTTDuration
const DURATION_NS: u64 = 200 * MILLISECOND_NS;
/// BBR.MinRTTFilterLen
const MIN_RTT_LIFETIME_NS: u64 = 10 * SECOND_NS;
/// BBR.ProbeRTTCwndGain, hundredths.
pub(super) const CWND_GAIN: u32 = 50;

#[derive(Clone, Debug)]
pub(super) struct ProbeRtt {
    /// BBR.probe_rtt_min_delay, ns.
    min_delay_ns: u64,
    min_stamp: Instant,
    is_expired: bool,
    done_stamp: Option<Instant>,
    round_done: bool,
}

impl Default for ProbeRtt {
    fn default() -> Self {
        Self {
            min_delay_ns: u64::MAX,
            min_stamp: Instant::default(),
            is_expired: false,
            done_stamp: None,
            round_done: false,
        }
    }
}

impl Bbr {
    /// BBRUpdateMinRTT()
    pub(super) fn update_min_rtt(&mut self, now: Instant, sample: &Sample) {
        let probe = &mut self.probe_rtt;
        // Before the first sample there is nothing that could have expired.
        probe.is_expired = probe.min_delay_ns != u64::MAX && now.since_ns(probe.min_stamp) > INTERVAL_NS;
        if let Some(rtt_ns) = sample.rtt_ns
            && (rtt_ns < probe.min_delay_ns || probe.is_expired)
        {
            // No path is faster than a nanosecond: a volume in flight of nothing would be its product.
            (probe.min_delay_ns, probe.min_stamp) = (rtt_ns.max(1), now);
        }
        if probe.min_delay_ns < self.min_rtt_ns || now.since_ns(self.min_rtt_stamp) > MIN_RTT_LIFETIME_NS {
            (self.min_rtt_ns, self.min_rtt_stamp) = (probe.min_delay_ns, probe.min_stamp);
        }
    }

    /// BBRCheckProbeRTT()
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if self.state != State::ProbeRtt && self.probe_rtt.is_expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            (self.pacing_gain, self.cwnd_gain) = (100, CWND_GAIN);
            self.probe_rtt.done_stamp = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.begin_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// BBRHandleProbeRTT()
    fn handle_probe_rtt(&mut self, ack: &Ack<'_>) {
        self.rate.mark_app_limited(ack.in_flight.1);
        if self.probe_rtt.done_stamp.is_some() {
            self.probe_rtt.round_done |= self.round_start;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(ack.now);
            }
        } else if ack.in_flight.1 <= self.probe_rtt_window() {
            self.probe_rtt.done_stamp = Some(ack.now.after_ns(DURATION_NS));
            self.probe_rtt.round_done = false;
            self.begin_round();
        }
    }

    /// BBRCheckProbeRTTDone()
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done_stamp.is_some_and(|done| now > done) {
            self.probe_rtt.min_stamp = now;
            self.restore_window();
            self.exit_probe_rtt(now);
        }
    }

    /// BBRExitProbeRTT() of section 5.3.4.4.
    fn exit_probe_rtt(&mut self, now: Instant) {
        self.reset_short_term_model();
        if self.full_bw.reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }
}
