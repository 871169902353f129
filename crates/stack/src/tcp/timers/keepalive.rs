//! Keep-alive (RFC 9293 section 3.8.4).

use crate::tcp::counters::Counter;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;
use sidestep_wire::tcp::{Flags, SequenceNumber};

impl Connection {
    /// RFC 9293 section 3.8.4
    pub(crate) fn arm_keepalive(&mut self, cx: &Context<'_>) {
        match self.options.keepalive {
            Some(keepalive) => self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.idle_ns)),
            None => self.deadlines.cancel(Timer::KeepAlive),
        }
    }

    pub(crate) fn expire_keepalive(&mut self, cx: &mut Context<'_>) {
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
        // Refused, it is as good as lost: the next one follows.
        _ = self.send_keepalive(cx);
        self.deadlines.arm(Timer::KeepAlive, cx.now.after_ns(keepalive.interval_ns));
    }

    /// Has the peer say what has arrived, whatever is in flight. It is offered no more than before: another TCP goes on.
    pub(crate) fn ask(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let (seq, window) = (self.snd.una() - 1, self.rcv.offered(true));
        self.emit_old(cx, seq, window)
    }

    /// RFC 9293 section 3.8.4
    fn send_keepalive(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let (seq, window) = (self.snd.nxt() - 1, self.rcv.offer(true));
        self.emit_old(cx, seq, window)
    }

    /// A segment with an old number, which makes the peer answer.
    fn emit_old(&mut self, cx: &mut Context<'_>, seq: SequenceNumber, window: u16) -> Result<(), NoRoom> {
        self.emit(cx, seq, Flags::ACK, window, self.segment_options(cx.now), (seq, seq))
    }
}
