//! The short road of bytes that may leave at once in one segment: a message, handed over when nothing else waits.
//!
//! It does what the long road (`transmit/`) would do, and leaves out only questions whose answer is known. The segment is made
//! of the caller's bytes, and leaves before they are copied for the case that it is lost.

use crate::tcp::congestion::CongestionControl;
use crate::tcp::counters::Counter;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::Left;
use crate::tcp::transmit::output::Outgoing;
use sidestep_wire::tcp::{Flags, Options};

impl Connection {
    /// Whether `count` bytes, handed over now, would leave at once in one segment.
    #[inline]
    fn may_send_directly(&self, cx: &Context<'_>, count: usize) -> bool {
        let (send, recovery) = (&self.send, &self.recovery);
        let full = self.payload_bytes();
        let in_flight = send.nxt.since(send.una);
        self.is_plain
            && count > 0
            && count <= full as usize
            && count <= self.room()
            // Nothing unsent stands before them.
            && send.buffer.len() == in_flight as usize
            && count as u32 <= send.usable()
            && (in_flight == 0 || in_flight + count as u32 <= self.congestion.window_bytes())
            && !self.options.cork
            && (self.options.nodelay || count as u32 == full || !send.has_small_in_flight())
            && recovery.board.len() < cx.config.in_flight_segments_max as usize
    }

    /// Sends `bytes` as one segment and keeps them until they are acknowledged; `None` if they have to go the long road, and
    /// nothing has happened. Refused, they are kept, too, and wait for the next poll.
    #[inline]
    pub(crate) fn send_directly(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Left> {
        if !self.may_send_directly(cx, bytes.len()) {
            return None;
        }
        debug_assert!(self.is_plain_now(), "{} is not plain", self.flow);
        self.restart_after_idle(cx);
        let left = self.emit_directly(cx, bytes);
        self.send.buffer.push(bytes);
        if left == Left::Refused {
            self.watch_refused(cx);
        } else {
            self.note_sent(cx, bytes.len() as u32, false, self.payload_bytes());
            self.arm_tail_probe(cx);
            self.deadlines.cancel(Timer::Persist);
        }
        Some(left)
    }

    #[inline]
    fn emit_directly(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Left {
        let timestamps = self.timestamps.map(|timestamps| timestamps.option(cx.now));
        let (window, options) = (self.receive.offer(true), Options { timestamps, ..Options::NONE });
        // RFC 9293 section 3.9.1.2: PSH when nothing more is buffered.
        let header = self.header(self.send.nxt, Flags::ACK | Flags::PSH, window, options);
        let outgoing = Outgoing {
            connection: Some(self.id),
            flow: &self.flow,
            header,
            payload: [bytes, &[]],
            template: Some(&self.template),
        };
        if cx.output.segment(&outgoing).is_err() {
            cx.counters.count(Counter::NoRoom);
            return Left::Refused;
        }
        self.note_emitted(cx, true);
        Left::Sent
    }
}
