//! The fast path of sending: a message that the application hands over while nothing else waits, and that fits one segment.
//!
//! It has the same effect as the slow path (`transmit/`) and leaves out only checks whose result is known. The segment is built
//! from the caller's bytes; they are copied for a possible retransmission after it has left.

use crate::tcp::congestion::CongestionControl;
use crate::tcp::counters::Counter;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;
use crate::tcp::transmit::output::Outgoing;
use sidestep_wire::tcp::{Flags, Options};

impl Connection {
    /// Returns whether `count` bytes, handed over now, would leave at once in one segment.
    #[inline]
    fn can_send_directly(&self, cx: &Context<'_>, count: usize) -> bool {
        let (send, recovery) = (&self.snd, &self.recovery);
        let full = self.payload_bytes();
        let in_flight = send.nxt().since(send.una());
        self.marks.fast_path()
            && count > 0
            && count <= full as usize
            && count <= self.room()
            // Nothing unsent stands before them.
            && send.buffer().len() == in_flight as usize
            && count as u32 <= send.usable()
            && (in_flight == 0
                || in_flight + count as u32 <= self.congestion.window_bytes() && self.congestion.departure(cx.now).is_none())
            && !self.options.cork
            && (self.options.nodelay || count as u32 == full || !send.has_small_in_flight())
            && recovery.board.len() < cx.config.in_flight_segments_max as usize
    }

    /// Sends `bytes` as one segment and keeps them until they are acknowledged. `None`: the slow path has to send them, and
    /// nothing has happened. A segment that the sink refuses is kept, too, and waits for the next poll.
    #[inline]
    pub(crate) fn send_directly(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Result<(), NoRoom>> {
        if !self.can_send_directly(cx, bytes.len()) {
            return None;
        }
        debug_assert!(self.allows_fast_path(), "{} is not plain", self.flow);
        self.restart_after_idle(cx);
        let sent = self.emit_direct(cx, bytes);
        self.snd.push(bytes);
        if sent.is_err() {
            self.arm_for_full_sink(cx);
        } else {
            self.note_sent(cx, bytes.len() as u32, false, self.payload_bytes());
            self.arm_tail_probe(cx);
            self.deadlines.cancel(Timer::Persist);
        }
        Some(sent)
    }

    #[inline]
    fn emit_direct(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), NoRoom> {
        let timestamps = self.negotiated.timestamps_option(cx.now);
        let (window, options) = (self.rcv.offer(true), Options { timestamps, ..Options::NONE });
        // RFC 9293 section 3.9.1.2: PSH when nothing more is buffered.
        let header = self.header(self.snd.nxt(), Flags::ACK | Flags::PSH, window, options);
        let outgoing = Outgoing {
            connection: Some(self.id),
            flow: &self.flow,
            service: self.options.service,
            header,
            payload: [bytes, &[]],
            template: Some(&self.template),
        };
        if cx.output.segment(&outgoing).is_err() {
            cx.counters.count(Counter::NoRoom);
            return Err(NoRoom);
        }
        self.note_emitted(cx, true);
        Ok(())
    }
}
