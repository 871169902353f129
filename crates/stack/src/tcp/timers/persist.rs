//! Zero-window probes (RFC 9293 section 3.8.6.1).

use crate::tcp::config::us;
use crate::tcp::counters::Counter;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;

impl Connection {
    /// RFC 9293 section 3.8.6.1: the first probe after a retransmission timeout, then exponentially later.
    pub(crate) fn arm_persist(&mut self, cx: &Context<'_>) {
        let rto_ns = self.rtt.rto_ns(cx.config);
        let wait_ns = rto_ns.saturating_mul(1 << self.liveness.window_probes().min(20)).min(us(cx.config.rto_max_us));
        self.deadlines.arm(Timer::Persist, cx.now.after_ns(wait_ns));
    }

    /// RFC 9293 section 3.8.6.1: at least one byte goes into a closed window; what the window has goes into one that is too
    /// small for a segment (RFC 9293 section 3.8.6.2.1, the override timeout).
    pub(crate) fn expire_persist(&mut self, cx: &mut Context<'_>) {
        if !self.snd.has_unsent() {
            return;
        }
        cx.counters.count(Counter::WindowProbes);
        self.liveness.note_window_probe();
        // Refused, it is as good as lost: the step that follows arms the timer again.
        _ = self.send_window_probe(cx);
    }

    /// RFC 9293 section 3.8.6.1: at least one byte, or the FIN, goes into a closed window; all that the window has goes into
    /// one that is too small for a segment (section 3.8.6.2.1, the override timeout).
    fn send_window_probe(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let payload_max = self.data_payload_bytes();
        let unsent = self.snd.unsent();
        let bytes = unsent.min(self.snd.usable().clamp(1, payload_max));
        let finish = unsent == 0;
        self.send_segment(cx, bytes, finish, payload_max)
    }
}
