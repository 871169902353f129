//! Processing of the peer's ACKs (RFC 9293 section 3.10.7.4, fifth check; RFC 5681, RFC 6675, RFC 8985).

use super::delivery::Delivery;
use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use sidestep_wire::tcp::{Flags, SackBlock, SequenceNumber};

impl Connection {
    /// Processes SEG.ACK, SEG.WND and SACK blocks of an acceptable ACK.
    #[inline]
    pub(crate) fn process_ack(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        let was_closed = self.snd.wnd() == 0;
        let wnd_changed = self.update_send_window(seg);
        if seg.ack.is_before(self.snd.una()) {
            return;
        }
        if self.recovery.board.is_empty() {
            self.liveness.reset_window_probes();
            return;
        }
        if was_closed && self.snd.wnd() > 0 && seg.ack == self.snd.una() {
            self.reopen(cx.now);
        }
        let is_first_resent = self.recovery.board.first().is_some_and(|first| first.resent);
        let mut delivery = self.update_scoreboard(cx, seg);
        // Answers to window probes are none.
        let is_bare = seg.payload.is_empty() && !seg.has(Flags::FIN);
        delivery.is_duplicate = delivery.newly_acked == 0 && is_bare && !wnd_changed && self.snd.wnd() > 0;
        delivery.tells_departure = delivery.is_duplicate && !self.negotiated.sack() && self.recovery.count_duplicate();
        self.sample_rtt(cx.now, &delivery);
        if is_first_resent && delivery.newly_acked > 0 {
            self.undo_on_echo(cx, seg);
        }
        if let Some(duplicate) = delivery.duplicate {
            self.undo_on_duplicate(cx, duplicate);
        }
        self.end_tail_probe(cx, &delivery, seg);
        self.respond_to_ack(cx, &delivery);
    }

    /// Detects losses, changes the phase of recovery, and restarts timers.
    #[inline]
    pub(crate) fn respond_to_ack(&mut self, cx: &mut Context<'_>, delivery: &Delivery) {
        self.note_delivery(cx.now, delivery);
        let lost = self.detect_losses(cx, delivery);
        self.update_phase(cx, delivery, lost);
        self.grow_send_buffer();
        self.restart_timers(cx, delivery);
    }

    /// The peer's window has opened. What was sent into the closed one, a probe at least, is sent again, and it is not
    /// congestion that has lost it. The peer is alive: the wait for it and its timeouts begin anew.
    fn reopen(&mut self, now: Instant) {
        self.recovery.board.mark_all_lost();
        self.liveness.reset_timeouts();
        if !self.owner.is_orphan() {
            self.liveness.wait_from(now);
        }
        self.rtt.reset_backoff();
        self.deadlines.cancel(Timer::Retransmit);
    }

    /// Returns whether the window has changed.
    #[inline]
    fn update_send_window(&mut self, seg: &Seg<'_>) -> bool {
        let wnd = u32::from(seg.window) << self.snd.shift();
        self.snd.update_window(seg.seq, seg.ack, wnd)
    }

    #[inline]
    fn update_scoreboard(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) -> Delivery {
        let mut delivery = Delivery::new(self, seg.ack);
        let (now, rtt, rack) = (cx.now, &self.rtt, &mut self.recovery.rack);
        let mut note = |segment: &Sent| {
            delivery.add(segment);
            rack.delivered(segment, now, rtt);
        };
        self.recovery.board.acknowledge(seg.ack, &mut note);
        if self.negotiated.sack() && !seg.options.sack.is_empty() {
            let blocks = seg.options.sack;
            for block in blocks.as_slice().iter().filter(|block| is_sack_block_valid(block, seg.ack, self.snd.nxt())) {
                self.recovery.board.sack(*block, &mut note);
            }
            delivery.duplicate = reported_duplicate(blocks.as_slice(), seg.ack, self.snd.nxt());
        }
        self.recovery.rack.end_of_ack();
        self.snd.acknowledge(seg.ack);
        delivery
    }

    /// Takes the delivery of an ACK without SACK blocks, where every segment was sent once; and samples the round trip.
    #[inline]
    pub(crate) fn update_scoreboard_in_order(&mut self, cx: &mut Context<'_>, delivery: &mut Delivery) {
        if let Some((oldest, newest)) = self.recovery.board.acknowledge_plain(delivery.ack) {
            delivery.delivered = newest.end.since(oldest.start);
            delivery.rtt_from = Some(oldest.sent_at);
            delivery.newest = Some(newest);
            self.recovery.rack.delivered_in_order(&newest, cx.now);
        }
        self.snd.acknowledge(delivery.ack);
        self.sample_rtt(cx.now, delivery);
    }

    /// RFC 6298 section 3
    #[inline]
    fn sample_rtt(&mut self, now: Instant, delivery: &Delivery) {
        match delivery.rtt_sample_ns(now) {
            Some(sample_ns) => self.rtt.sample(now, sample_ns),
            // With timestamps the ACK may prove to be of the retransmission: the path is alive.
            _ if delivery.newly_acked > 0 && self.negotiated.timestamps().is_some() => self.rtt.reset_backoff(),
            _ => {}
        }
    }
}

/// Returns whether a block reports data that was sent and is not acknowledged (RFC 2018 section 5).
#[inline]
fn is_sack_block_valid(block: &SackBlock, ack: SequenceNumber, nxt: SequenceNumber) -> bool {
    block.start.is_before(block.end) && block.start.is_at_or_after(ack) && block.end.is_at_or_before(nxt)
}

/// RFC 2883 section 4: the first block lies below the ACK, or within the second. What was never sent is no duplicate.
#[inline]
fn reported_duplicate(blocks: &[SackBlock], ack: SequenceNumber, nxt: SequenceNumber) -> Option<SackBlock> {
    let first = *blocks.first()?;
    let is_block = first.start.is_before(first.end) && first.end.is_at_or_before(nxt);
    let is_within = |outer: &SackBlock| first.start.is_at_or_after(outer.start) && first.end.is_at_or_before(outer.end);
    (is_block && (first.end.is_at_or_before(ack) || blocks.get(1).is_some_and(is_within))).then_some(first)
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
        let duplicate = |blocks: &[SackBlock]| reported_duplicate(blocks, SequenceNumber(100), SequenceNumber(200));
        assert_eq!(duplicate(&[block(50, 60)]), Some(block(50, 60)));
        assert_eq!(duplicate(&[block(120, 130), block(110, 150)]), Some(block(120, 130)));
        assert_eq!(duplicate(&[block(120, 130), block(140, 150)]), None);
        assert_eq!(duplicate(&[block(120, 130)]), None);
        assert_eq!(duplicate(&[block(60, 50)]), None, "backward blocks say nothing");
        assert_eq!(duplicate(&[block(210, 220), block(205, 230)]), None, "never sent");
        assert_eq!(duplicate(&[]), None);
    }

    #[test]
    fn blocks_lie_between_what_is_acknowledged_and_what_was_sent() {
        let (ack, nxt) = (SequenceNumber(100), SequenceNumber(200));
        let plausible = |start, end| is_sack_block_valid(&block(start, end), ack, nxt);
        assert!(plausible(100, 200) && !plausible(99, 150) && !plausible(150, 201) && !plausible(150, 150));
    }
}
