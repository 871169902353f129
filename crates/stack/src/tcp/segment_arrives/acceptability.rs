//! The checks before the ACK field (RFC 9293 section 3.10.7.4, first to fourth; RFC 5961; RFC 7323 section 5).

use crate::tcp::ack::generation::Need;
use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::{Flags, SequenceNumber};

/// Returns whether the segment `seq..end` touches the window `nxt..edge`.
///
/// The table of RFC 9293 section 3.10.7.4, with two differences, both Linux's: a segment that begins before and ends behind
/// the window is cut, not refused, and one without length may stand at the right edge, because a peer that has filled our
/// window sends its ACKs from there.
#[inline]
pub(crate) fn is_acceptable(
    seq: SequenceNumber,
    end: SequenceNumber,
    nxt: SequenceNumber,
    edge: SequenceNumber,
) -> bool {
    if seq == end {
        return seq.is_at_or_after(nxt) && seq.is_at_or_before(edge);
    }
    // With a closed window nothing with a length is taken, but the ACK of what stands at its edge counts.
    end.is_after(nxt) && (seq.is_before(edge) || seq == nxt)
}

impl Connection {
    /// Makes all checks before the ACK field. Returns whether the segment passes them.
    #[inline]
    pub(crate) fn passes_checks_before_ack(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> bool {
        if !self.passes_paws(cx, seg) {
            return false;
        }
        if seg.has(Flags::SYN) && !seg.has(Flags::RST) {
            // RFC 5961 section 4.2: "irrespective of the sequence number".
            self.challenge(cx);
            return false;
        }
        let edge = self.rcv.nxt() + self.rcv.window();
        if !is_acceptable(seg.seq, seg.end(), self.rcv.nxt(), edge) {
            self.refuse(cx, seg);
            return false;
        }
        if seg.has(Flags::RST) {
            self.process_reset(cx, seg);
            return false;
        }
        // RFC 9293 section 3.10.7.4, fifth check: without ACK it is dropped.
        seg.has(Flags::ACK)
    }

    /// RFC 7323 section 5.3 R1. A RST is believed without. So is any other segment, as in Linux (tcp_validate_incoming asks only
    /// segments that have the option), though section 3.2 would have it dropped: senders and middleboxes that leave the option
    /// out are met, and what such a segment says is held against its numbers as in a connection without timestamps.
    #[inline]
    fn passes_paws(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> bool {
        let Some(timestamps) = self.negotiated.timestamps() else { return true };
        if seg.has(Flags::RST) {
            return true;
        }
        let Some(theirs) = seg.options.timestamps else {
            cx.counters.count(Counter::TimestampMissing);
            return true;
        };
        if timestamps.is_old(theirs.value, cx.now) {
            cx.counters.count(Counter::Paws);
            self.statistics.dropped += u64::from(!seg.payload.is_empty());
            self.answer_unacceptable(cx, seg);
            return false;
        }
        true
    }

    fn refuse(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        cx.counters.count(Counter::Unacceptable);
        if seg.has(Flags::RST) {
            return;
        }
        self.statistics.dropped += u64::from(!seg.payload.is_empty());
        if !seg.payload.is_empty() && seg.end().is_at_or_before(self.rcv.nxt()) {
            cx.counters.count(Counter::Duplicates);
            // Its ACK was lost, or late: the peer has not heard of us, and lives.
            self.note_outage_end(cx, self.liveness.silent_ns(cx.now));
            // RFC 2883 section 4
            if self.negotiated.sack() {
                let end = seg.seq + seg.payload.len() as u32;
                self.rcv.report_duplicate(seg.seq, end);
            }
        }
        self.answer_unacceptable(cx, seg);
    }

    /// "If an incoming segment is not acceptable, an acknowledgment should be sent". What takes numbers is a retransmission
    /// whose ACK was lost; what takes none is a keep-alive, or a forgery, or an ACK war, so its answers are limited.
    fn answer_unacceptable(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        if seg.len() > 0 || self.ack.allows_challenge(cx.now, cx.config.challenge_acks_per_second) {
            self.ack.request(Need::Now);
        } else {
            cx.counters.count(Counter::ChallengesSuppressed);
        }
    }

    /// RFC 5961 section 3.2: a RST in the window counts only at exactly RCV.NXT.
    fn process_reset(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        if seg.seq != self.rcv.nxt() {
            return self.challenge(cx);
        }
        cx.counters.count(Counter::ResetsIn);
        self.fail(match self.state {
            State::SynReceived if self.owner.listener().is_none() => Error::Refused,
            // As Linux (tcp_reset): the peer had finished, so it is sending that has failed.
            State::CloseWait => Error::BrokenPipe,
            _ => Error::Reset,
        });
    }

    /// RFC 5961 section 5.2: SND.UNA - MAX.SND.WND =< SEG.ACK =< SND.NXT.
    #[inline]
    pub(crate) fn is_ack_acceptable(&mut self, cx: &mut Context<'_>, ack: SequenceNumber) -> bool {
        let oldest = self.snd.una() - self.snd.wnd_max();
        if ack.is_at_or_after(oldest) && ack.is_at_or_before(self.snd.nxt()) {
            return true;
        }
        cx.counters.count(Counter::AcksBad);
        self.challenge(cx);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 section 3.10.7.4, table 6
    #[test]
    fn the_table_of_the_first_check() {
        let nxt = SequenceNumber(u32::MAX - 9);
        let check = |from: i32, len: u32, window: u32| {
            let seq = SequenceNumber(nxt.0.wrapping_add_signed(from));
            is_acceptable(seq, seq + len, nxt, nxt + window)
        };
        assert!(check(0, 0, 0) && !check(1, 0, 0) && !check(-1, 0, 0));
        assert!(check(0, 0, 20) && check(19, 0, 20) && check(20, 0, 20) && !check(21, 0, 20) && !check(-1, 0, 20));
        assert!(check(0, 1, 0), "for its ACK; its text is cut off");
        assert!(!check(1, 1, 0) && !check(-1, 1, 0));
        assert!(check(0, 5, 20) && check(-4, 5, 20) && check(19, 5, 20) && check(-5, 50, 20));
        assert!(!check(-5, 5, 20) && !check(20, 1, 20));
    }
}
