//! SYN-SENT (RFC 9293 section 3.10.7.3).

use crate::tcp::ack::generation::Need;
use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::segment_arrives::seg::{Answer, Seg};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::Flags;

impl Connection {
    /// SYN-SENT (RFC 9293 section 3.10.7.3).
    pub(crate) fn segment_in_syn_sent(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> Answer {
        let has_ack = seg.has(Flags::ACK);
        // First: the ACK must be of our SYN.
        if has_ack && (seg.ack.is_at_or_before(self.snd.iss()) || seg.ack.is_after(self.snd.nxt())) {
            cx.counters.count(Counter::AcksBad);
            return if seg.has(Flags::RST) { Answer::None } else { Answer::Reset };
        }
        // Second: a RST without that ACK could be anybody's (RFC 5961 section 3.2).
        if seg.has(Flags::RST) {
            if has_ack {
                cx.counters.count(Counter::ResetsIn);
                self.fail(Error::Refused);
            }
            return Answer::None;
        }
        // Fourth
        if !seg.has(Flags::SYN) {
            return Answer::None;
        }
        self.take_syn(cx, seg);
        if has_ack {
            self.state = State::Established;
            self.establish(cx, seg);
            self.ack.request(Need::Now);
        } else {
            // Simultaneous open (RFC 9293 section 3.5, figure 7): the SYN goes again, with the ACK.
            self.state = State::SynReceived;
            self.recovery.board.mark_lost(0);
        }
        if self.snd.is_fin_queued() {
            self.state = self.state.after_close();
        }
        Answer::None
    }
}
