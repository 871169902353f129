//! Lost segments, sent again.

use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;

impl Connection {
    /// Sends lost segments again, lowest first. False if the sink was full.
    pub(crate) fn retransmit_lost(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(index) = self.recovery.board.next_lost() {
            // The path may take less than it did (RFC 1191); and a peer's window may have shrunk, which only probes respect.
            self.recovery.board.split(index, self.data_payload_bytes());
            let Some(record) = self.recovery.board.at(index) else { return true };
            let in_flight = self.recovery.pipe(self.payload_bytes());
            if record.bytes() > self.congestion_room(cx.now) && in_flight > 0 {
                return true;
            }
            if self.retransmit(cx, index, u32::MAX).is_err() {
                return false;
            }
        }
        true
    }

    /// Sends the segment at `index` again, at most `bytes_max` of it.
    pub(crate) fn retransmit(&mut self, cx: &mut Context<'_>, index: usize, bytes_max: u32) -> Result<(), NoRoom> {
        let Some(record) = self.recovery.board.at(index) else { return Ok(()) };
        let sent = if record.start == self.snd.iss() {
            self.emit_syn(cx)
        } else {
            let end = record.start + record.bytes().min(bytes_max);
            self.emit_range(cx, record.start, end)
        };
        sent?;
        cx.counters.count(Counter::Retransmitted);
        self.statistics.retransmitted += 1;
        self.recovery.resent(index, cx.now);
        self.note_departure(index, cx.now);
        if self.recovery.phase == Phase::Fast {
            self.recovery.prr.sent(record.bytes());
        }
        if !self.deadlines.is_armed(Timer::Retransmit) {
            self.arm_retransmit(cx);
        }
        Ok(())
    }
}
