//! What happens when a timer expires.

use crate::tcp::ack::generation::Need;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::loss_recovery::tail_probe::TailProbe;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::Left;

impl Connection {
    /// One timer that is due.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::Retransmit => self.expire_retransmit(cx),
            Timer::Reorder => self.expire_reorder(cx),
            Timer::TailProbe => self.expire_tail_probe(cx),
            Timer::Persist => self.expire_persist(cx),
            Timer::DelayedAck => self.ack.request(Need::Now),
            Timer::KeepAlive => self.expire_keepalive(cx),
            // FIN-WAIT-2 of a connection that nobody holds, or TIME-WAIT of one that is held.
            Timer::Close => self.end(),
            Timer::Cork => self.snd.expire_cork(),
        }
    }

    /// RFC 6298 (5.4) to (5.6)
    fn expire_retransmit(&mut self, cx: &mut Context<'_>) {
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
        if self.snd.wnd == 0 && self.snd.is_syn_acknowledged() {
            // The window was closed over what is in flight: that is no congestion (RFC 9293 section 3.8.6.1).
            cx.counters.count(Counter::WindowProbes);
            self.retransmit(cx, 0, 1);
        } else {
            self.enter_rto_recovery(cx);
        }
        self.arm_retransmit(cx);
    }

    fn enter_rto_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::Timeouts);
        self.statistics.timeouts += 1;
        let first = self.liveness.timeouts() == 1;
        let flight = self.snd.nxt.since(self.snd.una);
        self.recovery.save_undo(&self.congestion);
        self.congestion.on_timeout(cx.now, flight, first);
        self.recovery.phase = Phase::Timeout;
        self.recovery.point = self.snd.nxt;
        self.recovery.duplicate_acks = 0;
        self.recovery.tail = None;
        self.recovery.board.mark_all_lost();
        self.deadlines.cancel(Timer::TailProbe);
        self.deadlines.cancel(Timer::Reorder);
    }

    /// The peer does not answer. If it is there again it learns that the connection is not (Linux tcp_out_of_resources).
    fn give_up(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::AbortedByTimeout);
        if self.state.is_synchronized() && self.state != State::SynReceived {
            self.send_reset(cx);
        }
        let error = self.notices.soft_error().unwrap_or(Error::TimedOut);
        self.fail(error);
    }

    /// RFC 8985 section 6.3
    fn expire_reorder(&mut self, cx: &mut Context<'_>) {
        let lost = self.rack_detect_losses(cx);
        if lost > 0 && self.recovery.phase == Phase::Open {
            self.enter_fast_recovery(cx);
        }
        if lost > 0 && self.recovery.phase == Phase::Fast {
            // No ACK will open the budget for what was just found lost.
            self.recovery.prr.open(self.payload_bytes());
        }
    }

    /// RFC 8985 section 7.3: a new segment if there is one and the peer's window has room, else the last one again.
    fn expire_tail_probe(&mut self, cx: &mut Context<'_>) {
        if self.recovery.board.is_empty() {
            return;
        }
        let resent = !self.send_probe_of_new_data(cx);
        if resent && self.retransmit_tail(cx) == Left::Refused {
            return self.arm_tail_probe(cx);
        }
        cx.counters.count(Counter::TailProbes);
        self.recovery.tail = Some(TailProbe { end: self.snd.nxt, resent });
        self.arm_retransmit(cx);
    }

    /// The last segment again: as much of its end as fits now, beside options and on a path that may have been wider then.
    fn retransmit_tail(&mut self, cx: &mut Context<'_>) -> Left {
        let most = self.data_payload_bytes();
        let board = &mut self.recovery.board;
        if let Some((last, record)) = board.last_index().and_then(|last| Some((last, board.at(last)?))) {
            board.split(last, record.bytes().saturating_sub(most));
        }
        let last = self.recovery.board.last_index().unwrap_or_default();
        self.retransmit(cx, last, u32::MAX)
    }

    /// RFC 9293 section 3.8.6.1: at least one byte goes into a closed window; what the window has goes into one that is too
    /// small for a segment (RFC 9293 section 3.8.6.2.1, the override timeout).
    fn expire_persist(&mut self, cx: &mut Context<'_>) {
        if !self.snd.has_unsent() {
            return;
        }
        cx.counters.count(Counter::WindowProbes);
        self.liveness.note_window_probe();
        self.send_window_probe(cx);
    }

    /// RFC 9293 section 3.8.4
    pub(crate) fn arm_keepalive(&mut self, cx: &Context<'_>) {
        match self.options.keepalive {
            Some(keepalive) => self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.idle_ns)),
            None => self.deadlines.cancel(Timer::KeepAlive),
        }
    }

    fn expire_keepalive(&mut self, cx: &mut Context<'_>) {
        let Some(keepalive) = self.options.keepalive else { return };
        if matches!(self.state, State::SynSent | State::SynReceived | State::TimeWait | State::Closed) {
            return;
        }
        let silent_ns = self.liveness.silent_ns(cx.now);
        if silent_ns < keepalive.idle_ns && self.liveness.keepalive_probes() == 0 {
            return self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.idle_ns - silent_ns));
        }
        if !self.recovery.board.is_empty() {
            // Data in flight, or in a closed window, asks the peer already.
            return self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.interval_ns));
        }
        let timeout_ns = self.options.user_timeout_ns;
        let is_silent_too_long = match timeout_ns {
            0 => self.liveness.keepalive_probes() >= keepalive.probes_max,
            _ => silent_ns >= timeout_ns && self.liveness.keepalive_probes() > 0,
        };
        if is_silent_too_long {
            return self.give_up(cx);
        }
        cx.counters.count(Counter::KeepAlives);
        self.liveness.note_keepalive_probe();
        self.send_keepalive(cx);
        self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.interval_ns));
    }
}
