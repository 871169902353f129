//! The retransmission timer (RFC 6298 section 5).

use crate::tcp::ack::delivery::Delivery;
use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::timers::deadlines::Timer;

impl Connection {
    /// RFC 6298 section 5; never beyond the user's timeout, nor, once the peer owes an answer, beyond R2.
    pub(crate) fn arm_retransmit(&mut self, cx: &Context<'_>) {
        let mut deadline = cx.now.after_ns(self.rtt.rto_ns(cx.config));
        if self.liveness.timeouts() > 0 || self.user_timeout_ns() > 0 {
            deadline = deadline.min(self.gives_up_at(cx.config).max(cx.now));
        }
        self.deadlines.arm(Timer::Retransmit, deadline);
    }

    #[inline]
    pub(crate) fn restart_timers(&mut self, cx: &Context<'_>, delivery: &Delivery) {
        // What a probe into a closed window brings back counts as an answer, even if nothing is acknowledged. Not if nobody
        // holds the connection: a peer that never opens its window would keep what we have for it for ever (Linux
        // tcp_probe_timer).
        if delivery.newly_acked > 0 || self.snd.wnd() == 0 && !self.owner.is_orphan() {
            self.liveness.reset_timeouts();
            self.liveness.wait_from(cx.now);
        }
        if delivery.newly_acked > 0 {
            self.notices.take_soft_error();
            self.liveness.note_progress();
        }
        if self.recovery.board.is_empty() {
            // RFC 6298 (5.2)
            self.deadlines.cancel(Timer::Retransmit);
            self.deadlines.cancel(Timer::TailProbe);
            self.deadlines.cancel(Timer::Reorder);
        } else if delivery.delivered > 0 || delivery.newly_acked > 0 || !self.deadlines.is_armed(Timer::Retransmit) {
            // RFC 6298 (5.3); sacked data counts as progress, too (RFC 8985 section 7.2 leaves it open, Linux does so).
            self.arm_retransmit(cx);
            self.arm_tail_probe(cx);
        }
    }

    /// RFC 6298 (5.4) to (5.6)
    pub(crate) fn expire_retransmit(&mut self, cx: &mut Context<'_>) {
        let waits_for_sink = self.recovery.board.is_empty();
        if waits_for_sink && !self.waits_for_sink() {
            return;
        }
        // RFC 9293 section 3.8.3 (R2), or the user's timeout.
        if cx.now >= self.gives_up_at(cx.config) {
            return self.give_up(cx);
        }
        self.liveness.note_timeout();
        self.rtt.back_off();
        if waits_for_sink {
            return self.arm_retransmit(cx);
        }
        if self.snd.wnd() == 0 && self.snd.is_syn_acknowledged() {
            // The window was closed over what is in flight: that is no congestion (RFC 9293 section 3.8.6.1).
            cx.counters.count(Counter::WindowProbes);
            // Refused, it is as good as lost: the timer goes on.
            _ = self.retransmit(cx, 0, 1);
        } else {
            self.enter_rto_recovery(cx);
        }
        self.arm_retransmit(cx);
    }

    /// Gives up: the peer does not answer. A RST tells it so, should it return (Linux tcp_out_of_resources).
    pub(crate) fn give_up(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::AbortedByTimeout);
        if self.state.is_synchronized() && self.state != State::SynReceived {
            self.send_reset(cx);
        }
        let error = self.notices.soft_error().unwrap_or(Error::TimedOut);
        self.fail(error);
    }
}
