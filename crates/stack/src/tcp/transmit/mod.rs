//! Transmission: lost segments first, then new ones as the windows allow, then an ACK if none of them has carried it.

pub(crate) mod emit;
mod new_data;
pub(crate) mod output;
mod pacing;
mod retransmit;
pub(crate) mod template;

use crate::tcp::ack::generation::Need;
use crate::tcp::config::{Config, us};
use crate::tcp::congestion::CongestionControl;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;

impl Connection {
    /// Sends what may leave. `is_poll`: an ACK that waited for the poll leaves, too. Returns false if the sink was full.
    #[inline]
    pub(crate) fn transmit(&mut self, cx: &mut Context<'_>, is_poll: bool) -> bool {
        if self.state == State::Closed || self.state == State::TimeWait && self.ack.need() == Need::None {
            return true;
        }
        let has_room = self.transmit_data(cx);
        self.arm_pacing(cx.now);
        if !has_room {
            self.arm_for_full_sink(cx);
            return false;
        }
        let is_ack_due = match self.ack.need() {
            Need::Now => true,
            Need::Poll => is_poll,
            Need::Delayed => {
                self.delay_ack(cx.now, cx.config);
                false
            }
            Need::None => false,
        };
        // Before the peer's SYN there is nothing to acknowledge.
        !is_ack_due || self.state == State::SynSent || self.send_ack(cx).is_ok()
    }

    /// The sink has refused. What was in flight before has its timer; if nothing is, a link that refuses for ever, or a
    /// neighbour that never answers, must not keep the connection for ever: it is given up like one that is not answered.
    #[cold]
    pub(crate) fn arm_for_full_sink(&mut self, cx: &Context<'_>) {
        if self.recovery.board.is_empty() && !self.deadlines.is_armed(Timer::Retransmit) {
            self.liveness.wait_from(cx.now);
            self.arm_retransmit(cx);
        }
    }

    /// It is not the sink any more that holds back, and nothing is in flight yet. What is sent now is sent for the first time:
    /// the waiting counts neither as its timeouts nor for its timer.
    pub(crate) fn end_wait_for_sink(&mut self) {
        if self.deadlines.is_armed(Timer::Retransmit) {
            self.deadlines.cancel(Timer::Retransmit);
            self.liveness.reset_timeouts();
            self.rtt.reset_backoff();
        }
    }

    /// Returns whether data that was never sent waits for the sink.
    pub(crate) fn waits_for_sink(&self) -> bool {
        self.marks.is_due() && (self.snd.nxt() == self.snd.iss() || self.snd.has_unsent())
    }

    /// Returns whether anything may have to leave: the same conditions as those of [`Connection::transmit`].
    #[inline]
    pub(crate) fn has_to_send(&self) -> bool {
        let is_owed = self.ack.need() != Need::None || self.snd.nxt() == self.snd.iss();
        is_owed || self.recovery.board.lost() > 0 || self.snd.has_unsent()
    }

    fn transmit_data(&mut self, cx: &mut Context<'_>) -> bool {
        if self.snd.nxt() == self.snd.iss() {
            return self.send_syn(cx).is_ok();
        }
        if self.recovery.board.lost() > 0 && !self.retransmit_lost(cx) {
            return false;
        }
        if !self.snd.is_syn_acknowledged() || !self.snd.has_unsent() {
            self.deadlines.cancel(Timer::Persist);
            return true;
        }
        self.send_new(cx)
    }

    /// The bytes that the congestion window leaves; none before the time of the next departure.
    #[inline]
    pub(crate) fn congestion_room(&self, now: Instant) -> u32 {
        match self.recovery.phase {
            _ if self.congestion.departure(now).is_some() => 0,
            Phase::Fast if !self.congestion.has_model() => self.recovery.prr.budget(),
            _ => {
                let pipe = self.recovery.pipe(self.payload_bytes());
                self.congestion.window_bytes().saturating_sub(pipe)
            }
        }
    }

    /// The first number from `iss`: SYN, or SYN-ACK (RFC 9293 section 3.5).
    fn send_syn(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let (start, end) = (self.snd.iss(), self.snd.iss() + 1);
        self.emit_syn(cx)?;
        self.end_wait_for_sink();
        self.snd.sent_syn();
        self.recovery.board.push(start, end, cx.now);
        self.liveness.wait_from(cx.now);
        self.arm_retransmit(cx);
        Ok(())
    }

    #[inline]
    pub(crate) fn delay_ack(&mut self, now: Instant, config: &Config) {
        if !self.deadlines.is_armed(Timer::DelayedAck) {
            self.deadlines.arm(Timer::DelayedAck, now.after_ns(us(config.delayed_ack_us)));
        }
    }
}
