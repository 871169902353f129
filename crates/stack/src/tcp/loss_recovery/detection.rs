//! Detection of losses: by time for a peer with SACK (RFC 8985), by duplicate ACKs for one without (RFC 5681, RFC 6582).

use crate::tcp::ack::delivery::Delivery;
use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::loss_recovery::{DUPLICATE_ACKS, Phase};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;

impl Connection {
    /// The number of segments that are newly believed to be lost.
    #[inline]
    pub(crate) fn detect_losses(&mut self, cx: &mut Context<'_>, delivery: &Delivery) -> u32 {
        if self.recovery.board.is_empty() {
            self.deadlines.cancel(Timer::Reorder);
            return 0;
        }
        if self.negotiated.sack() { self.rack_detect_losses(cx) } else { self.count_duplicate_acks(cx, delivery) }
    }

    /// RFC 8985 section 6.2 step 5. Also what the reordering timer does.
    #[inline]
    pub(crate) fn rack_detect_losses(&mut self, cx: &Context<'_>) -> u32 {
        let recovery = &mut self.recovery;
        let recovering = recovery.phase != Phase::Open;
        let (now, mut model) = (cx.now, self.congestion.model());
        let tell = |segment: &Sent| {
            if let Some(model) = &mut model {
                model.on_lost(now, segment);
            }
        };
        let (lost, again) = recovery.rack.detect(&mut recovery.board, now, &self.rtt, recovering, tell);
        match again {
            Some(deadline) => self.deadlines.arm(Timer::Reorder, deadline),
            None => self.deadlines.cancel(Timer::Reorder),
        }
        lost
    }

    /// RFC 5681 section 3.2 and RFC 6582 section 3.2, for a peer that does not sack.
    fn count_duplicate_acks(&mut self, cx: &Context<'_>, delivery: &Delivery) -> u32 {
        let recovery = &mut self.recovery;
        if delivery.tells_departure {
            let is_third = recovery.duplicate_acks == DUPLICATE_ACKS && recovery.phase == Phase::Open;
            // RFC 6582 section 3.2 step 2: not for what an earlier recovery has already covered.
            if is_third && delivery.ack.is_at_or_after(recovery.point) {
                return self.lose_first(cx);
            }
        } else if delivery.newly_acked > 0 {
            let is_partial = recovery.phase == Phase::Fast && delivery.ack.is_before(recovery.point);
            recovery.duplicate_acks = 0;
            if is_partial {
                return self.lose_first(cx);
            }
        }
        0
    }

    fn lose_first(&mut self, cx: &Context<'_>) -> u32 {
        self.recovery.board.mark_lost(0);
        if let (Some(model), Some(first)) = (self.congestion.model(), self.recovery.board.first()) {
            model.on_lost(cx.now, &first);
        }
        1
    }

    /// RFC 8985 section 6.3
    pub(crate) fn expire_reorder(&mut self, cx: &mut Context<'_>) {
        let lost = self.rack_detect_losses(cx);
        if lost > 0 && self.recovery.phase == Phase::Open {
            self.enter_fast_recovery(cx);
        }
        if lost > 0 && self.recovery.phase == Phase::Fast {
            // No ACK will open the budget for what was just found lost.
            self.recovery.prr.open(self.payload_bytes());
        }
    }
}
