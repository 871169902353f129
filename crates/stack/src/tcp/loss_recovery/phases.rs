//! The phases of recovery, and the growth of the congestion window outside of it.

use crate::tcp::ack::delivery::Delivery;
use crate::tcp::congestion::{CongestionControl, Progress};
use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::{Phase, prr};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;

impl Connection {
    #[inline]
    pub(crate) fn update_phase(&mut self, cx: &mut Context<'_>, delivery: &Delivery, lost: u32) {
        if self.recovery.phase != Phase::Open && delivery.ack.is_at_or_after(self.recovery.point) {
            self.recovery.end_recovery();
            if let Some(model) = self.congestion.model() {
                model.on_recovered();
            }
        }
        if lost > 0 && self.recovery.phase == Phase::Open {
            self.enter_fast_recovery(cx);
        }
        if self.update_model(cx.now, delivery, lost) {
            return;
        }
        if self.recovery.phase == Phase::Fast {
            self.update_prr(delivery, lost);
        } else if delivery.newly_acked > 0 {
            self.grow_congestion_window(cx, delivery);
        }
    }

    /// RFC 6675 section 5 step 4, RFC 5681 section 3.2
    pub(crate) fn enter_fast_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::FastRecoveries);
        let flight = self.snd.nxt().since(self.snd.una());
        self.recovery.save_undo(&self.congestion, self.snd.una(), false);
        self.recovery.phase = Phase::Fast;
        self.recovery.point = self.snd.nxt();
        self.recovery.prr.begin(flight);
        self.congestion.on_loss(cx.now, flight);
    }

    pub(crate) fn enter_rto_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::Timeouts);
        self.statistics.timeouts += 1;
        let first = self.liveness.timeouts() == 1;
        let flight = self.snd.nxt().since(self.snd.una());
        self.recovery.save_undo(&self.congestion, self.snd.una(), true);
        self.congestion.on_timeout(cx.now, flight, first);
        if let Some(model) = self.congestion.model() {
            model.on_all_lost(self.recovery.board.in_flight_bytes());
        }
        self.recovery.phase = Phase::Timeout;
        self.recovery.point = self.snd.nxt();
        self.recovery.duplicate_acks = 0;
        self.recovery.tail = None;
        self.recovery.board.mark_all_lost();
        self.deadlines.cancel(Timer::TailProbe);
        self.deadlines.cancel(Timer::Reorder);
    }

    /// RFC 9937 section 6.2
    fn update_prr(&mut self, delivery: &Delivery, lost: u32) {
        let segment = self.payload_bytes();
        // A duplicate ACK without SACK says that a segment has arrived, but not which.
        let counted = if delivery.tells_departure { segment } else { delivery.delivered };
        let step = prr::Step {
            delivered: counted,
            pipe: self.recovery.pipe(segment),
            threshold: self.congestion.threshold_bytes(),
            segment,
            is_safe: delivery.newly_acked > 0 && lost == 0,
        };
        self.recovery.prr.step(&step);
        if !self.negotiated.sack() && lost > 0 {
            // RFC 6582 section 3.2 step 3: what a partial ACK asks for goes at once. The pipe is too high here, because the
            // duplicate ACKs do not tell which segments have left it.
            self.recovery.prr.open(segment);
        }
    }

    #[inline]
    fn grow_congestion_window(&mut self, cx: &Context<'_>, delivery: &Delivery) {
        let window = self.congestion.window_bytes();
        // RFC 9438 section 5.8; in slow start a window half used grows, so that it does not lag behind (as Linux).
        let used = self.usage.update(self.snd.una(), self.snd.nxt(), delivery.in_flight_before);
        let is_limited = if window < self.congestion.threshold_bytes() {
            used.saturating_mul(2) >= window
        } else {
            used.saturating_add(self.payload_bytes()) > window
        };
        self.congestion.on_progress(&Progress {
            now: cx.now,
            acknowledged_bytes: delivery.newly_acked,
            rtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            rtt_sample_ns: delivery.rtt_sample_ns(cx.now),
            una: self.snd.una(),
            nxt: self.snd.nxt(),
            is_limited,
        });
    }
}
