//! TLP (RFC 8985 section 7): when a tail probe is armed, what it sends, and what its ACK means.

use crate::tcp::ack::delivery::Delivery;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::loss_recovery::tail_probe::{ProbeResult, TailProbe, pto_ns};
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;

impl Connection {
    /// RFC 8985 section 7.2: only with SACK, outside of recovery, one probe at a time; in place of the timeout if that would
    /// come first.
    #[inline]
    pub(crate) fn arm_tail_probe(&mut self, cx: &Context<'_>) {
        let recovery = &self.recovery;
        let is_due = self.negotiated.sack()
            && cx.config.tail_probe
            && recovery.phase == Phase::Open
            && recovery.tail.is_none()
            && recovery.board.sacked() == 0
            && !recovery.board.is_empty()
            && self.snd.is_syn_acknowledged();
        let after_ns = pto_ns(&self.rtt, cx.config, recovery.board.len());
        if is_due {
            // Never due at once: a sink without room would let the probe expire again and again within one poll.
            let soonest = cx.now.after_ns(1);
            let deadline = cx.now.after_ns(after_ns).min(self.deadlines.at(Timer::Retransmit)).max(soonest);
            self.deadlines.arm(Timer::TailProbe, deadline);
        } else {
            self.deadlines.cancel(Timer::TailProbe);
        }
    }

    /// RFC 8985 section 7.3: a new segment if there is one and the peer's window has room, else the last one again.
    pub(crate) fn expire_tail_probe(&mut self, cx: &mut Context<'_>) {
        if self.recovery.board.is_empty() {
            return;
        }
        let resent = !self.send_probe_of_new_data(cx);
        if resent && self.retransmit_tail(cx).is_err() {
            return self.arm_tail_probe(cx);
        }
        cx.counters.count(Counter::TailProbes);
        self.recovery.tail = Some(TailProbe { end: self.snd.nxt(), resent });
        self.arm_retransmit(cx);
    }

    /// Sends as much new data as the peer's window takes, whatever the congestion window says (RFC 8985 section
    /// 7.3). False if there is none.
    fn send_probe_of_new_data(&mut self, cx: &mut Context<'_>) -> bool {
        let payload_max = self.data_payload_bytes();
        let bytes = self.snd.unsent().min(payload_max).min(self.snd.usable());
        bytes > 0 && self.send_segment(cx, bytes, false, payload_max).is_ok()
    }

    /// The last segment again: as much of its end as fits now, beside options and on a path that may have been wider then.
    fn retransmit_tail(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let most = self.data_payload_bytes();
        let board = &mut self.recovery.board;
        if let Some((last, record)) = board.last_index().and_then(|last| Some((last, board.at(last)?))) {
            board.split(last, record.bytes().saturating_sub(most));
        }
        let last = self.recovery.board.last_index().unwrap_or_default();
        self.retransmit(cx, last, u32::MAX)
    }

    pub(crate) fn end_tail_probe(&mut self, cx: &mut Context<'_>, delivery: &Delivery, seg: &Seg<'_>) {
        let Some(tail) = self.recovery.tail else { return };
        let bare = delivery.is_duplicate && seg.options.sack.is_empty();
        match tail.on_ack(delivery.ack, delivery.duplicate.is_some(), bare) {
            ProbeResult::Open => return,
            ProbeResult::Superfluous => {}
            // RFC 8985 section 7.4.2: invoke congestion control response equivalent to a fast recovery.
            ProbeResult::Repaired if self.recovery.phase == Phase::Open => {
                self.congestion.on_loss(cx.now, delivery.in_flight_before);
            }
            ProbeResult::Repaired => {}
        }
        self.recovery.tail = None;
    }
}
