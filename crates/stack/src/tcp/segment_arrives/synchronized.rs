//! A segment arrives at a synchronized connection (RFC 9293 section 3.10.7.4).

use crate::tcp::ack::generation::Need;
use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::segment_arrives::seg::{Answer, Deliver, Seg};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::receive::Taken;
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::{Flags, SequenceNumber, Timestamps};

impl Connection {
    /// One segment, in any state but TIME-WAIT.
    #[inline]
    pub(crate) fn segment_arrives(&mut self, cx: &mut Context<'_>, seg: Seg<'_>, deliver: Deliver<'_>) -> Answer {
        self.statistics.segments_in += 1;
        match self.state {
            State::Closed => Answer::Reset,
            State::SynSent => self.segment_in_syn_sent(cx, &seg),
            _ => self.segment_in_synchronized(cx, seg, deliver),
        }
    }

    #[inline]
    fn segment_in_synchronized(&mut self, cx: &mut Context<'_>, mut seg: Seg<'_>, deliver: Deliver<'_>) -> Answer {
        if self.is_syn_retransmitted(&seg) {
            // The SYN-ACK was lost, or both sides opened at the same time (figure 7): then there is an ACK with it.
            if !seg.has(Flags::ACK) {
                self.recovery.board.mark_lost(0);
                return Answer::None;
            }
            // RFC 7323 section 2.2: the window of a SYN is not shifted; from here on everybody shifts it.
            seg.window >>= self.snd.shift();
            seg = seg.without_syn();
            self.ack.request(Need::Now);
        }
        if !self.passes_checks_before_ack(cx, &seg) {
            return Answer::None;
        }
        if self.state == State::SynReceived && self.ack_in_syn_received(cx, &seg) == Answer::Reset {
            return Answer::Reset;
        }
        if !self.is_ack_acceptable(cx, seg.ack) {
            return Answer::None;
        }
        let silent_ns = self.liveness.silent_ns(cx.now);
        self.note_peer_alive(cx, seg.seq, seg.options.timestamps);
        self.process_ack(cx, &seg);
        self.note_outage_end(cx, silent_ns);
        self.process_fin_acknowledged(cx);
        if self.state == State::Closed {
            return Answer::None;
        }
        self.process_text(cx, &seg, deliver)
    }

    /// Takes note of a segment from the peer, and of its clock (RFC 7323 section 4.3).
    #[inline]
    pub(crate) fn note_peer_alive(&mut self, cx: &Context<'_>, seq: SequenceNumber, clock: Option<Timestamps>) {
        self.liveness.note_heard(cx.now);
        self.negotiated.update_clock(clock, seq, self.ack.last_sent(), cx.now);
    }

    fn process_fin_acknowledged(&mut self, cx: &Context<'_>) {
        if !self.snd.is_fin_acknowledged() {
            return;
        }
        let before = self.state;
        self.state = before.after_fin_acknowledged();
        match self.state {
            _ if self.state == before => {}
            State::FinWait2 => self.limit_fin_wait_2(cx),
            State::TimeWait => self.enter_time_wait(cx),
            State::Closed => self.end(),
            _ => {}
        }
    }

    /// Text and FIN (sixth to eighth check).
    #[inline]
    fn process_text(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>, deliver: Deliver<'_>) -> Answer {
        if seg.has(Flags::URG) {
            if self.options.urgent_held {
                // As if it were lost: the peer sends it again, to the TCP that goes on with the connection.
                self.notices.set_urgent(true);
                return Answer::None;
            }
            // RFC 6093: the urgent pointer is not followed, the data stays in line.
            cx.counters.count(Counter::UrgentIgnored);
        }
        if seg.len() == 0 || !self.state.can_receive() {
            if seg.len() > 0 {
                // A FIN that came again: its ACK was lost.
                self.ack.request(Need::Now);
            }
            return Answer::None;
        }
        let (nxt, edge) = (self.rcv.nxt(), self.rcv.nxt() + self.rcv.window());
        self.note_overlap(seg, nxt);
        let part = seg.trimmed(nxt, edge);
        if part.len() < seg.len() {
            // Part of it was there already, or finds a closed window: the peer learns where we are.
            self.ack.request(Need::Now);
        }
        if !part.payload.is_empty() && !self.process_payload(cx, &part, deliver) {
            return Answer::Reset;
        }
        if part.has(Flags::FIN) {
            self.rcv.note_fin(part.seq + part.payload.len() as u32);
            // Also beyond a hole, as data there (RFC 5681 section 4.2).
            self.ack.request(Need::Now);
        }
        self.take_finish(cx);
        Answer::None
    }

    /// Reports data that overlaps (RFC 2883 section 4).
    #[inline]
    fn note_overlap(&mut self, seg: &Seg<'_>, nxt: SequenceNumber) {
        if self.negotiated.sack() && seg.seq.is_before(nxt) && !seg.payload.is_empty() {
            let end = (seg.seq + seg.payload.len() as u32).earlier(nxt);
            self.rcv.report_duplicate(seg.seq, end);
        }
    }

    /// Returns false if nobody will ever read it.
    #[inline]
    fn process_payload(&mut self, cx: &mut Context<'_>, part: &Seg<'_>, deliver: Deliver<'_>) -> bool {
        if self.owner.is_orphan() {
            // RFC 9293 section 3.6.1: "the TCP implementation SHOULD send a RST to show that data was lost".
            cx.counters.count(Counter::DataAfterClose);
            self.fail(Error::Aborted);
            return false;
        }
        if self.rcv.is_shut() && self.snd.is_fin_queued() {
            // As Linux (tcp_rcv_state_process): neither direction is left, so the data is lost.
            cx.counters.count(Counter::DataAfterShutdown);
            self.fail(Error::Reset);
            return false;
        }
        self.statistics.bytes_in += part.payload.len() as u64;
        if part.seq == self.rcv.nxt() {
            self.take_in_order(cx, part.payload, deliver);
        } else {
            self.keep_out_of_order(cx, part);
        }
        true
    }

    #[inline]
    pub(crate) fn take_in_order(&mut self, cx: &mut Context<'_>, payload: &[u8], deliver: Deliver<'_>) {
        let can_lend = self.rcv.can_lend() && self.owner.is_held();
        let taken = if can_lend { deliver(self.id, payload).min(payload.len()) } else { 0 };
        let filled = self.rcv.take_in_order(payload, taken) == Taken::InOrder { filled: true };
        self.notices.request_if(!self.rcv.buffer().is_empty());
        self.rcv.grow(cx.now, self.rtt.srtt_ns());
        // RFC 5681 section 4.2: at once when a hole is filled.
        if filled {
            self.ack.request(Need::Now);
        }
        let quickack = self.options.quickack;
        let most = cx.config.ack_segments_max;
        self.ack.data_in_order(self.rcv.nxt(), self.rcv.segment_bytes(), quickack, most);
    }

    /// RFC 5681 section 4.2: at once when it is out of order, so that the peer's fast retransmission works.
    fn keep_out_of_order(&mut self, cx: &mut Context<'_>, part: &Seg<'_>) {
        self.ack.request(Need::Now);
        let most = cx.config.out_of_order_ranges_max as usize;
        let counter = match self.rcv.take_beyond(part.seq, part.payload, most) {
            Taken::Dropped => {
                self.statistics.dropped += 1;
                Counter::OutOfOrderDropped
            }
            _ => Counter::OutOfOrder,
        };
        cx.counters.count(counter);
    }

    /// Eighth check.
    #[inline]
    fn take_finish(&mut self, cx: &Context<'_>) {
        if !self.rcv.take_finish() {
            return;
        }
        self.ack.request(Need::Now);
        self.notices.request_if(true);
        self.state = self.state.after_fin();
        if self.state == State::TimeWait {
            self.enter_time_wait(cx);
        }
    }
}
