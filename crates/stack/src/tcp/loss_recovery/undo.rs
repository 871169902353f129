//! Recoveries that were a mistake are taken back: what was sent again had only been late. A peer's reports of duplicates prove it
//! (RFC 2883), and timestamps do, a round trip earlier: the ACK of a segment that was sent again echoes the clock of before
//! (Eifel, RFC 3522, RFC 4015).

use crate::tcp::congestion::Controller;
use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::{Phase, Recovery};
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{SackBlock, SequenceNumber};

/// The state to undo a recovery.
pub(crate) struct Undo {
    before: Option<Controller>,
    /// SND.UNA when it began (undo_marker of Linux).
    since: SequenceNumber,
    /// Segments sent again for which no duplicate was reported yet.
    unproven: u32,
    /// The timer has begun it, not what arrived in another order.
    is_by_timer: bool,
}

impl Recovery {
    /// Saves the state to undo the recovery.
    pub(super) fn save_undo(&mut self, before: &Controller, una: SequenceNumber, is_by_timer: bool) {
        if self.phase != Phase::Open {
            return;
        }
        self.undo = Some(Undo { before: before.saved(), since: una, unproven: 0, is_by_timer });
        if !self.board.has_resent() {
            self.first_resent_at = None;
        }
    }

    /// A segment was sent again.
    pub(crate) fn resent(&mut self, index: usize, now: Instant) {
        self.board.retransmit(index, now);
        if let Some(undo) = self.undo.as_mut().filter(|_| self.phase != Phase::Open) {
            undo.unproven += 1;
            self.first_resent_at.get_or_insert(now);
        }
    }

    /// A duplicate was reported. True if now all that was sent again has proved superfluous: the recovery was a mistake. What lies before
    /// the recovery was not sent again by it; of what lies behind SND.UNA the board knows whether it was.
    fn is_disproved_by_duplicate(&mut self, duplicate: SackBlock, una: SequenceNumber) -> bool {
        if duplicate.start.is_at_or_after(una) && !self.board.has_resent_within(duplicate) {
            return false;
        }
        let is_of_it = |undo: &&mut Undo| undo.unproven > 0 && duplicate.end.is_after(undo.since);
        let Some(undo) = self.undo.as_mut().filter(is_of_it) else { return false };
        undo.unproven -= 1;
        undo.unproven == 0
    }

    /// Takes the recovery back.
    fn take_back(&mut self, congestion: &mut Controller) {
        let Some(undo) = self.undo.take() else { return };
        congestion.undo(undo.before.as_ref());
        self.phase = Phase::Open;
        self.board.clear_lost();
    }

    /// What was believed to be lost was late: RACK's window is not left out any more. RFC 8985 section 6.2 step 3 looks at segments
    /// that were sent once, because it asks no clock and no report which of two has arrived.
    fn note_reordering(&mut self) {
        if self.undo.as_ref().is_some_and(|undo| !undo.is_by_timer) {
            self.rack.note_reordering();
        }
    }
}

impl Connection {
    /// A duplicate was reported.
    pub(crate) fn undo_on_duplicate(&mut self, cx: &mut Context<'_>, duplicate: SackBlock) {
        // That of a tail probe says nothing about reordering: the timer has sent it.
        if self.recovery.tail.is_none_or(|tail| !tail.resent) {
            self.recovery.rack.note_duplicate(self.snd.una(), self.snd.nxt());
        }
        if self.recovery.is_disproved_by_duplicate(duplicate, self.snd.una()) {
            self.recovery.note_reordering();
            self.take_recovery_back(cx);
        }
    }

    /// The ACK moves SND.UNA, and the segment that stood there had been sent again: its echo may tell that the first one has
    /// arrived. The whole recovery is taken back when nothing that was sent again is in flight any more, as Linux does.
    pub(crate) fn undo_on_echo(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        let (first, clock) = (self.recovery.first_resent_at, self.negotiated.timestamps());
        let (Some(first), Some(clock), Some(echo)) = (first, clock, seg.options.timestamps) else { return };
        // RFC 7323 section 3.2: an echo of 0 is none.
        if echo.echo == 0 || echo.echo.wrapping_sub(clock.value(first)).cast_signed() >= 0 {
            return;
        }
        self.recovery.note_reordering();
        if self.recovery.board.resent_in_flight() == 0 {
            self.take_recovery_back(cx);
        }
    }

    fn take_recovery_back(&mut self, cx: &mut Context<'_>) {
        if self.recovery.undo.is_some() {
            self.recovery.take_back(&mut self.congestion);
            cx.counters.count(Counter::SpuriousRecoveries);
        }
    }
}
