//! Segments that ask the peer something: is the window open, is the tail there, are you alive.

use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::transmit::Left;
use sidestep_wire::tcp::Flags;

impl Connection {
    /// What the peer's window takes of the data that was never sent, whatever the congestion window says (RFC 8985 section
    /// 7.3). False if there is none.
    pub(crate) fn send_probe_of_new_data(&mut self, cx: &mut Context<'_>) -> bool {
        let payload_max = self.data_payload_bytes();
        let bytes = self.snd.unsent().min(payload_max).min(self.snd.usable());
        bytes > 0 && self.send_segment(cx, bytes, false, payload_max) == Left::Sent
    }

    /// RFC 9293 section 3.8.6.1: at least one byte, or the FIN, goes into a closed window; all that the window has goes into
    /// one that is too small for a segment (section 3.8.6.2.1, the override timeout).
    pub(crate) fn send_window_probe(&mut self, cx: &mut Context<'_>) -> Left {
        let payload_max = self.data_payload_bytes();
        let unsent = self.snd.unsent();
        let bytes = unsent.min(self.snd.usable().clamp(1, payload_max));
        let finish = unsent == 0;
        self.send_segment(cx, bytes, finish, payload_max)
    }

    /// A segment with an old number that makes the peer answer (RFC 9293 section 3.8.4).
    pub(crate) fn send_keepalive(&mut self, cx: &mut Context<'_>) -> Left {
        let seq = self.snd.nxt - 1;
        let (window, options) = (self.rcv.offer(true), self.segment_options(cx.now));
        self.emit(cx, seq, Flags::ACK, window, options, (seq, seq))
    }
}
