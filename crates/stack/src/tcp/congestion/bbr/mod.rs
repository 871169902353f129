//! BBR, version 3 (draft-ietf-ccwg-bbr-04): a model of the path, the bandwidth of its bottleneck and its least round trip, decides how
//! fast and how much is sent; a single loss does not.
//!
//! Names are the draft's. Rates are bytes/s, volumes bytes, gains hundredths. In the order of the draft:
//!
//! | section | what | file |
//! |---|---|---|
//! | 4.1 | delivery rate samples | `../delivery_rate.rs` |
//! | 5.2 | the events, and the order of what they cause | here |
//! | 5.3.1, 5.3.2 | Startup, Drain | `startup.rs` |
//! | 5.3.3 | ProbeBW | `probe_bw.rs` |
//! | 5.3.4 | ProbeRTT | `probe_rtt.rs` |
//! | 5.4 | restarting from idle | here |
//! | 5.5.1 to 5.5.9 | rounds, bandwidth, aggregation of ACKs | `model.rs` |
//! | 5.5.10 | losses | `loss.rs` |
//! | 5.6 | pacing rate, congestion window | `control.rs`, `../pacer.rs` |
//!
//! The stack does not negotiate ECN (RFC 3168), so that the draft's input of ECN marks, which it leaves open, has no source here.

mod control;
mod loss;
mod model;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

use super::delivery_rate::{DeliveryRate, Sample, Stamp};
use super::pacer::Pacer;
use super::{CongestionControl, Progress};
use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::time::{Instant, MILLISECOND_NS, SECOND_NS};
use model::{ExtraAcked, FullBandwidth, MaxBandwidth};
use probe_bw::{AckPhase, Cycle};
use probe_rtt::ProbeRtt;

/// No limit: "Infinity" of the draft.
const INFINITE: u32 = u32::MAX;
const INFINITE_RATE: u64 = u64::MAX;

/// The constants of section 2. Gains are hundredths.
const STARTUP_PACING_GAIN: u32 = 277;
const DRAIN_PACING_GAIN: u32 = 35;
const DEFAULT_CWND_GAIN: u32 = 200;
const PACING_MARGIN_PERCENT: u64 = 1;
/// BBR.LossThresh: 2 percent.
const LOSS_THRESH_PERCENT: u64 = 2;
/// BBR.Beta, hundredths.
const BETA: u64 = 70;
/// BBR.Headroom, hundredths.
const HEADROOM: u64 = 15;
/// BBR.MinPipeCwnd, segments.
const MIN_PIPE_SEGMENTS: u32 = 4;

/// BBR.state
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl State {
    /// IsInAProbeBWState()
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    /// BBRIsProbingBW()
    fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill | Self::ProbeBwUp)
    }
}

/// The inputs of an ACK that reports something as delivered.
pub(crate) struct Ack<'a> {
    pub(crate) now: Instant,
    /// RS.newly_acked: bytes acknowledged or sacked.
    pub(crate) newly_acked: u32,
    /// The last sent of the segments that it reports.
    pub(crate) newest: Option<&'a Sent>,
    /// C.inflight before the ACK, and now.
    pub(crate) in_flight: (u32, u32),
    /// C.srtt, ns; 0 before the first.
    pub(crate) srtt_ns: u64,
    /// The window has held the sender back in this round trip (C.is_cwnd_limited).
    pub(crate) is_cwnd_limited: bool,
    /// A full segment waits to be sent, or a lost one to be sent again.
    pub(crate) has_unsent: bool,
    /// Bytes of segments that it shows to be lost.
    pub(crate) has_losses: bool,
    /// Fast recovery, or recovery from a timeout, is under way.
    pub(crate) is_recovering: bool,
}

/// A segment that leaves.
pub(crate) struct Departure {
    pub(crate) now: Instant,
    pub(crate) bytes: u32,
    /// C.inflight, the segment included.
    pub(crate) in_flight: u32,
    /// Nothing more waits to be sent.
    pub(crate) is_last: bool,
}

/// The state of one connection, kept apart from it: other controllers do not pay for it.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    rate: DeliveryRate,
    pacer: Pacer,
    /// C.SMSS, without options.
    segment_bytes: u32,
    /// C.InitialCwnd
    initial_window: u32,
    /// C.cwnd
    window: u32,
    /// BBR.prior_cwnd
    prior_window: u32,
    state: State,
    pacing_gain: u32,
    cwnd_gain: u32,
    /// The pacing rate follows a measured round trip.
    has_seen_rtt: bool,
    idle_restart: bool,
    is_recovering: bool,
    round_start: bool,
    round_count: u32,
    next_round_delivered: u64,
    max_bw: MaxBandwidth,
    /// BBR.bw
    bw: u64,
    min_rtt_ns: u64,
    min_rtt_stamp: Instant,
    full_bw: FullBandwidth,
    extra_acked: ExtraAcked,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    loss: loss::LossModel,
}

impl Bbr {
    /// BBROnInit() of section 5.2.1.
    pub(crate) fn new(segment_bytes: u32, window: u32) -> Self {
        let nominal = u64::from(window) * (SECOND_NS / MILLISECOND_NS);
        Self {
            rate: DeliveryRate::default(),
            pacer: Pacer::new(nominal * u64::from(STARTUP_PACING_GAIN) / 100, segment_bytes),
            segment_bytes,
            initial_window: window,
            window,
            prior_window: 0,
            state: State::Startup,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: DEFAULT_CWND_GAIN,
            has_seen_rtt: false,
            idle_restart: false,
            is_recovering: false,
            round_start: false,
            round_count: 0,
            next_round_delivered: 0,
            max_bw: MaxBandwidth::default(),
            bw: 0,
            min_rtt_ns: u64::MAX,
            min_rtt_stamp: Instant::default(),
            full_bw: FullBandwidth::default(),
            extra_acked: ExtraAcked::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            loss: loss::LossModel::default(),
        }
    }

    /// Returns whether a segment may leave now (section 5.6.2).
    #[inline]
    pub(crate) fn allows_departure(&self, now: Instant) -> bool {
        self.pacer.allows(now)
    }

    /// The time at which a burst may leave.
    pub(crate) fn next_departure(&self) -> Instant {
        self.pacer.wake_at()
    }

    /// The pacing rate, bytes/s.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.pacer.rate()
    }

    /// A segment leaves, for the first time or again: section 5.2.2, and the stamp of section 4.1.2.2.
    #[inline]
    pub(crate) fn on_sent(&mut self, departure: &Departure) -> Stamp {
        let Departure { now, bytes, in_flight, is_last } = *departure;
        if in_flight <= bytes {
            self.restart_from_idle(now);
        }
        self.pacer.sent(now, bytes);
        let stamp = self.rate.stamp(now, bytes, in_flight);
        if is_last && in_flight < self.window {
            self.rate.mark_app_limited(in_flight);
        }
        stamp
    }

    /// BBRHandleRestartFromIdle() of section 5.4.1; nothing is in flight.
    fn restart_from_idle(&mut self, now: Instant) {
        if !self.rate.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.extra_acked.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// What an ACK reports has arrived. To be called before its losses are looked for.
    #[inline]
    pub(crate) fn on_delivered(&mut self, now: Instant, bytes: u32) {
        self.rate.note_delivered(now, bytes);
    }

    /// BBRUpdateOnACK() of section 5.2.3.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) {
        if !ack.has_unsent && ack.in_flight.0 < self.window {
            self.rate.mark_app_limited(ack.in_flight.0);
        }
        self.is_recovering = ack.is_recovering;
        let least_rtt_ns = if self.min_rtt_ns == u64::MAX { 0 } else { self.min_rtt_ns };
        let sample = self.rate.sample(ack.now, ack.newly_acked, ack.newest, least_rtt_ns);
        self.update_model_and_state(ack, &sample);
        self.update_control_parameters(ack, &sample);
    }

    /// BBRUpdateModelAndState()
    fn update_model_and_state(&mut self, ack: &Ack<'_>, sample: &Sample) {
        self.update_latest_delivery_signals(sample);
        self.update_congestion_signals(ack, sample);
        self.update_ack_aggregation(ack.now, sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(ack);
        self.update_probe_bw_cycle_phase(ack, sample);
        self.update_min_rtt(ack.now, sample);
        self.check_probe_rtt(ack, sample);
        self.advance_latest_delivery_signals(sample);
        self.bound_bw_for_model();
    }

    /// BBRUpdateControlParameters()
    fn update_control_parameters(&mut self, ack: &Ack<'_>, sample: &Sample) {
        self.init_pacing_rate(ack.srtt_ns);
        self.set_pacing_rate(self.pacing_gain);
        self.set_window(sample);
    }

    /// Recovery is over, all losses are repaired (section 5.6.4.4).
    pub(crate) fn on_recovered(&mut self) {
        self.is_recovering = false;
        self.restore_window();
    }

    fn begin_round(&mut self) {
        self.next_round_delivered = self.rate.delivered();
    }

    fn segments(&self, segments: u32) -> u32 {
        self.segment_bytes.saturating_mul(segments)
    }
}

impl CongestionControl for Bbr {
    #[inline]
    fn window_bytes(&self) -> u32 {
        self.window
    }

    /// None: as Linux tells of BBR (`tcpi_snd_ssthresh`).
    fn threshold_bytes(&self) -> u32 {
        INFINITE
    }

    /// The model takes ACKs whole ([`Bbr::on_ack`]).
    fn on_progress(&mut self, _: &Progress) {}

    /// BBROnEnterFastRecovery() of section 5.6.4.4; the response to the losses themselves is that of [`Bbr::on_lost`].
    fn on_loss(&mut self, _: Instant, _: u32) {
        self.save_window();
        self.save_for_undo();
        self.note_loss();
        self.is_recovering = true;
    }

    /// BBROnEnterRTO() of section 5.6.4.4: nothing counts as in flight, so that one segment may leave.
    fn on_timeout(&mut self, _: Instant, _: u32, _: bool) {
        self.save_window();
        if !self.is_recovering {
            self.save_for_undo();
        }
        self.note_loss();
        self.is_recovering = true;
        self.window = self.segment_bytes;
    }

    /// Section 5.4.2: the window stays, sending is paced at the bandwidth that was measured.
    fn on_idle(&mut self, _: u64, _: u64) {}

    fn on_segment_bytes(&mut self, segment_bytes: u32) {
        let scale = |window: u32| {
            let scaled = u64::from(window) * u64::from(segment_bytes) / u64::from(self.segment_bytes.max(1));
            scaled.clamp(1, u64::from(super::reno::WINDOW_MAX)) as u32
        };
        (self.window, self.initial_window) = (scale(self.window), scale(self.initial_window));
        let nominal = u64::from(self.initial_window) * (SECOND_NS / MILLISECOND_NS);
        self.segment_bytes = segment_bytes;
        let rate = if self.has_seen_rtt { self.pacer.rate() } else { nominal * u64::from(STARTUP_PACING_GAIN) / 100 };
        self.pacer.set_rate(rate, segment_bytes);
    }
}
