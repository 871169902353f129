//! What an acceptable ACK does (RFC 9293 section 3.10.7.4 fifth check, RFC 5681, RFC 6675, RFC 8985).

use crate::tcp::congestion::{CongestionControl, Progress};
use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::prr;
use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::loss_recovery::tail_probe::{Verdict, pto_ns};
use crate::tcp::loss_recovery::{DUPLICATE_ACKS, Phase};
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use sidestep_wire::tcp::{Flags, SackBlock, SequenceNumber};

/// What one ACK has brought.
pub(crate) struct Delivery {
    ack: SequenceNumber,
    /// Bytes acknowledged in order.
    advanced: u32,
    /// Bytes that arrived according to this ACK, in order or sacked.
    delivered: u32,
    /// When the oldest of them was sent, if all of them were sent once.
    rtt_from: Option<Instant>,
    has_retransmitted: bool,
    in_flight_before: u32,
    /// It reports a duplicate.
    reported: bool,
    /// It is a duplicate ACK as RFC 5681 section 2 defines it.
    is_duplicate: bool,
}

impl Delivery {
    /// Before anything of the ACK was taken.
    #[inline]
    pub(crate) fn new(connection: &Connection, ack: SequenceNumber) -> Self {
        Self {
            ack,
            advanced: ack.since(connection.snd.una),
            delivered: 0,
            rtt_from: None,
            has_retransmitted: false,
            in_flight_before: connection.recovery.pipe(connection.payload_bytes()),
            reported: false,
            is_duplicate: false,
        }
    }

    #[inline]
    fn note(&mut self, segment: &Sent) {
        self.delivered += segment.bytes();
        if segment.resent {
            self.has_retransmitted = true;
        } else if self.rtt_from.is_none_or(|since| segment.sent_at < since) {
            self.rtt_from = Some(segment.sent_at);
        }
    }
}

impl Connection {
    /// Takes SEG.ACK, SEG.WND and SACK blocks; the ACK is plausible.
    #[inline]
    pub(crate) fn process_ack(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        let was_closed = self.snd.wnd == 0;
        let wnd_changed = self.update_send_window(seg);
        if seg.ack.is_before(self.snd.una) {
            return;
        }
        if self.recovery.board.is_empty() {
            self.liveness.reset_window_probes();
            return;
        }
        if was_closed && self.snd.wnd > 0 && seg.ack == self.snd.una {
            self.reopen(cx.now);
        }
        let mut delivery = self.update_scoreboard(cx, seg);
        // Answers to window probes are none.
        let is_bare = seg.payload.is_empty() && !seg.has(Flags::FIN);
        delivery.is_duplicate = delivery.advanced == 0 && is_bare && !wnd_changed && self.snd.wnd > 0;
        self.sample_rtt(cx, &delivery);
        self.end_tail_probe(cx, &delivery, seg);
        self.respond_to_ack(cx, &delivery);
    }

    /// What follows from what has arrived, or has not.
    #[inline]
    pub(crate) fn respond_to_ack(&mut self, cx: &mut Context<'_>, delivery: &Delivery) {
        let lost = self.detect_losses(cx, delivery);
        self.update_phase(cx, delivery, lost);
        self.restart_timers(cx, delivery);
    }

    /// The peer's window has opened. What was sent into the closed one, a probe at least, is sent again, and it is not
    /// congestion that has lost it. The peer lives: what waited for it begins anew, its timeouts too.
    fn reopen(&mut self, now: Instant) {
        self.recovery.board.mark_all_lost();
        self.liveness.reset_timeouts();
        if !self.owner.is_orphan() {
            self.liveness.wait_from(now);
        }
        self.rtt.reset_backoff();
        self.deadlines.cancel(Timer::Retransmit);
    }

    /// True if the window is another.
    #[inline]
    fn update_send_window(&mut self, seg: &Seg<'_>) -> bool {
        let wnd = u32::from(seg.window) << self.snd.shift;
        self.snd.update_window(seg.seq, seg.ack, wnd)
    }

    #[inline]
    fn update_scoreboard(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> Delivery {
        let mut delivery = Delivery::new(self, seg.ack);
        let (now, rtt, rack) = (cx.now, &self.rtt, &mut self.recovery.rack);
        let mut note = |segment: &Sent| {
            delivery.note(segment);
            rack.delivered(segment, now, rtt);
        };
        self.recovery.board.acknowledge(seg.ack, &mut note);
        if self.negotiated.sack() && !seg.options.sack.is_empty() {
            let blocks = seg.options.sack;
            for block in blocks.as_slice().iter().filter(|block| is_sack_block_valid(block, seg.ack, self.snd.nxt)) {
                self.recovery.board.sack(*block, &mut note);
            }
            delivery.reported = is_dsack(blocks.as_slice(), seg.ack);
        }
        self.recovery.rack.end_of_ack();
        self.snd.acknowledge(seg.ack);
        delivery
    }

    /// What an ACK without SACK blocks says has arrived, all of it sent once; and how long that took.
    #[inline]
    pub(crate) fn update_scoreboard_in_order(&mut self, cx: &mut Context<'_>, delivery: &mut Delivery) {
        if let Some((oldest, newest)) = self.recovery.board.acknowledge_plain(delivery.ack) {
            delivery.delivered = newest.end.since(oldest.start);
            delivery.rtt_from = Some(oldest.sent_at);
            self.recovery.rack.delivered_in_order(&newest, cx.now);
        }
        self.snd.acknowledge(delivery.ack);
        self.sample_rtt(cx, delivery);
    }

    /// RFC 6298 section 3, RFC 8985 section 6.2 step 4, RFC 2883
    #[inline]
    fn sample_rtt(&mut self, cx: &mut Context<'_>, delivery: &Delivery) {
        match delivery.rtt_from {
            Some(since) if !delivery.has_retransmitted => self.rtt.sample(cx.now, cx.now.since_ns(since)),
            // With timestamps the ACK may prove to be of the retransmission: the path is alive.
            _ if delivery.advanced > 0 && self.negotiated.timestamps().is_some() => self.rtt.reset_backoff(),
            _ => {}
        }
        if delivery.reported {
            self.recovery.rack.note_duplicate(self.snd.una, self.snd.nxt);
            if self.recovery.undo_on_dsack(&mut self.congestion) {
                cx.counters.count(Counter::SpuriousRecoveries);
            }
        }
    }

    fn end_tail_probe(&mut self, cx: &mut Context<'_>, delivery: &Delivery, seg: &Seg<'_>) {
        let Some(tail) = self.recovery.tail else { return };
        let bare = delivery.is_duplicate && seg.options.sack.is_empty();
        match tail.judge(delivery.ack, delivery.reported, bare) {
            Verdict::Open => return,
            Verdict::Superfluous => {}
            // RFC 8985 section 7.4.2: invoke congestion control response equivalent to a fast recovery.
            Verdict::Repaired if self.recovery.phase == Phase::Open => {
                self.congestion.on_loss(cx.now, delivery.in_flight_before);
            }
            Verdict::Repaired => {}
        }
        self.recovery.tail = None;
    }

    /// The number of segments that are newly believed to be lost.
    #[inline]
    fn detect_losses(&mut self, cx: &mut Context<'_>, delivery: &Delivery) -> u32 {
        if self.recovery.board.is_empty() {
            self.deadlines.cancel(Timer::Reorder);
            return 0;
        }
        if self.negotiated.sack() { self.rack_detect_losses(cx) } else { self.count_duplicate_acks(delivery) }
    }

    /// RFC 8985 section 6.2 step 5. Also what the reordering timer does.
    #[inline]
    pub(crate) fn rack_detect_losses(&mut self, cx: &Context<'_>) -> u32 {
        let recovery = &mut self.recovery;
        let recovering = recovery.phase != Phase::Open;
        let (lost, again) = recovery.rack.detect(&mut recovery.board, cx.now, &self.rtt, recovering);
        match again {
            Some(deadline) => self.deadlines.arm(Timer::Reorder, deadline),
            None => self.deadlines.cancel(Timer::Reorder),
        }
        lost
    }

    /// RFC 5681 section 3.2 and RFC 6582 section 3.2, for a peer that does not sack.
    fn count_duplicate_acks(&mut self, delivery: &Delivery) -> u32 {
        let recovery = &mut self.recovery;
        if delivery.is_duplicate {
            recovery.duplicate_acks = recovery.duplicate_acks.saturating_add(1);
            let is_third = recovery.duplicate_acks == DUPLICATE_ACKS && recovery.phase == Phase::Open;
            // RFC 6582 section 3.2 step 2: not for what an earlier recovery has already covered.
            if is_third && delivery.ack.is_at_or_after(recovery.point) {
                recovery.board.mark_lost(0);
                return 1;
            }
        } else if delivery.advanced > 0 {
            let is_partial = recovery.phase == Phase::Fast && delivery.ack.is_before(recovery.point);
            recovery.duplicate_acks = 0;
            if is_partial {
                recovery.board.mark_lost(0);
                return 1;
            }
        }
        0
    }

    #[inline]
    fn update_phase(&mut self, cx: &mut Context<'_>, delivery: &Delivery, lost: u32) {
        if self.recovery.phase != Phase::Open && delivery.ack.is_at_or_after(self.recovery.point) {
            self.recovery.end_recovery();
        }
        if lost > 0 && self.recovery.phase == Phase::Open {
            self.enter_fast_recovery(cx);
        }
        if self.recovery.phase == Phase::Fast {
            self.update_prr(delivery, lost);
        } else if delivery.advanced > 0 {
            self.progress(cx, delivery);
        }
    }

    /// RFC 6675 section 5 step 4, RFC 5681 section 3.2
    pub(crate) fn enter_fast_recovery(&mut self, cx: &mut Context<'_>) {
        cx.counters.count(Counter::FastRecoveries);
        let flight = self.snd.nxt.since(self.snd.una);
        self.recovery.save_undo(&self.congestion);
        self.recovery.phase = Phase::Fast;
        self.recovery.point = self.snd.nxt;
        self.recovery.prr.begin(flight);
        self.congestion.on_loss(cx.now, flight);
    }

    /// RFC 9937 section 6.2
    fn update_prr(&mut self, delivery: &Delivery, lost: u32) {
        let segment = self.payload_bytes();
        // A duplicate ACK without SACK says that a segment has arrived, but not which.
        let counted = if !self.negotiated.sack() && delivery.is_duplicate { segment } else { delivery.delivered };
        let step = prr::Step {
            delivered: counted,
            pipe: self.recovery.pipe(segment),
            threshold: self.congestion.threshold_bytes(),
            segment,
            is_safe: delivery.advanced > 0 && lost == 0,
        };
        self.recovery.prr.step(&step);
        if !self.negotiated.sack() && lost > 0 {
            // RFC 6582 section 3.2 step 3: what a partial ACK asks for goes at once. The pipe is too high here, because the
            // duplicate ACKs do not tell which segments have left it.
            self.recovery.prr.open(segment);
        }
    }

    #[inline]
    fn progress(&mut self, cx: &Context<'_>, delivery: &Delivery) {
        let window = self.congestion.window_bytes();
        // RFC 9438 section 5.8; in slow start a window half used grows, so that it does not lag behind (as Linux).
        let used = self.usage.update(self.snd.una, self.snd.nxt, delivery.in_flight_before);
        let is_limited = if window < self.congestion.threshold_bytes() {
            used.saturating_mul(2) >= window
        } else {
            used.saturating_add(self.payload_bytes()) > window
        };
        self.congestion.on_progress(&Progress {
            now: cx.now,
            acknowledged_bytes: delivery.advanced,
            rtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            is_limited,
        });
    }

    #[inline]
    fn restart_timers(&mut self, cx: &Context<'_>, delivery: &Delivery) {
        // What a probe into a closed window brings back counts as an answer, even if nothing is acknowledged. Not if nobody
        // holds the connection: a peer that never opens its window would keep what we have for it for ever (Linux
        // tcp_probe_timer).
        if delivery.advanced > 0 || self.snd.wnd == 0 && !self.owner.is_orphan() {
            self.liveness.reset_timeouts();
            self.liveness.wait_from(cx.now);
        }
        if delivery.advanced > 0 {
            self.notices.take_soft_error();
            self.liveness.note_progress();
        }
        if self.recovery.board.is_empty() {
            // RFC 6298 (5.2)
            self.deadlines.cancel(Timer::Retransmit);
            self.deadlines.cancel(Timer::TailProbe);
            self.deadlines.cancel(Timer::Reorder);
        } else if delivery.delivered > 0 || delivery.advanced > 0 || !self.deadlines.is_armed(Timer::Retransmit) {
            // RFC 6298 (5.3); sacked data counts as progress, too (RFC 8985 section 7.2 leaves it open, Linux does so).
            self.arm_retransmit(cx);
            self.arm_tail_probe(cx);
        }
    }

    /// RFC 6298 section 5; never beyond the user's timeout, nor, once the peer owes an answer, beyond R2.
    pub(crate) fn arm_retransmit(&mut self, cx: &Context<'_>) {
        let mut deadline = cx.now.after_ns(self.rtt.rto_ns(cx.config));
        if self.liveness.timeouts() > 0 || self.user_timeout_ns() > 0 {
            deadline = deadline.min(self.gives_up_at(cx.config).max(cx.now));
        }
        self.deadlines.arm(Timer::Retransmit, deadline);
    }

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
}

/// What is reported must have been sent, and not be acknowledged already (RFC 2018 section 5: otherwise it says nothing new).
#[inline]
fn is_sack_block_valid(block: &SackBlock, ack: SequenceNumber, nxt: SequenceNumber) -> bool {
    block.start.is_before(block.end) && block.start.is_at_or_after(ack) && block.end.is_at_or_before(nxt)
}

/// RFC 2883 section 4: the first block lies below the ACK, or within the second.
#[inline]
fn is_dsack(blocks: &[SackBlock], ack: SequenceNumber) -> bool {
    match blocks {
        [first, ..] if first.start.is_before(first.end) && first.end.is_at_or_before(ack) => true,
        [first, second, ..] => {
            first.start.is_before(first.end)
                && first.start.is_at_or_after(second.start)
                && first.end.is_at_or_before(second.end)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock { start: SequenceNumber(start), end: SequenceNumber(end) }
    }

    /// RFC 2883 section 4
    #[test]
    fn duplicates_are_told_from_news() {
        let ack = SequenceNumber(100);
        assert!(is_dsack(&[block(50, 60)], ack));
        assert!(is_dsack(&[block(120, 130), block(110, 150)], ack));
        assert!(!is_dsack(&[block(120, 130), block(140, 150)], ack));
        assert!(!is_dsack(&[block(120, 130)], ack));
        assert!(!is_dsack(&[block(60, 50)], ack), "backward blocks say nothing");
        assert!(!is_dsack(&[], ack));
    }

    #[test]
    fn blocks_lie_between_what_is_acknowledged_and_what_was_sent() {
        let (ack, nxt) = (SequenceNumber(100), SequenceNumber(200));
        let plausible = |start, end| is_sack_block_valid(&block(start, end), ack, nxt);
        assert!(plausible(100, 200) && !plausible(99, 150) && !plausible(150, 201) && !plausible(150, 150));
    }
}
