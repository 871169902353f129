//! The expiry of timers (RFC 9293 section 3.10.8).

use crate::tcp::ack::generation::Need;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::timers::deadlines::Timer;

impl Connection {
    /// Serves one timer that is due.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::Retransmit => self.expire_retransmit(cx),
            Timer::Reorder => self.expire_reorder(cx),
            Timer::TailProbe => self.expire_tail_probe(cx),
            Timer::Persist => self.expire_persist(cx),
            Timer::DelayedAck => self.ack.request(Need::Now),
            Timer::KeepAlive => self.expire_keepalive(cx),
            // FIN-WAIT-2 of a connection that nobody holds, or TIME-WAIT of one that is held.
            Timer::Close => self.end(),
            Timer::Cork => self.snd.expire_cork(),
            // What may leave leaves at the end of the step.
            Timer::Pacing => {}
        }
    }
}
