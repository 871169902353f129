//! SYN-RECEIVED (RFC 9293 section 3.10.7.4, fifth check).

use crate::tcp::counters::Counter;
use crate::tcp::segment_arrives::seg::{Answer, Seg};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::Flags;

impl Connection {
    /// The ACK check of SYN-RECEIVED (RFC 9293 section 3.10.7.4, fifth check). The segment is acceptable and has an ACK.
    pub(crate) fn ack_in_syn_received(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> Answer {
        if seg.ack.is_at_or_before(self.snd.una()) || seg.ack.is_after(self.snd.nxt()) {
            cx.counters.count(Counter::AcksBad);
            return Answer::Reset;
        }
        self.state = State::Established;
        let wnd = u32::from(seg.window) << self.snd.shift();
        self.snd.first_window(seg.seq, seg.ack, wnd);
        self.establish(cx, seg);
        if self.snd.is_fin_queued() {
            self.state = self.state.after_close();
        }
        Answer::None
    }

    /// A SYN, or SYN-ACK, that SYN-RECEIVED has seen before: true if that is what it was.
    pub(crate) fn is_syn_retransmitted(&self, seg: &Seg<'_>) -> bool {
        self.state == State::SynReceived && seg.has(Flags::SYN) && seg.seq == self.rcv.irs()
    }
}
