//! The engine's part of the short roads (`tcp/expected.rs`, `tcp/direct.rs`).

use super::Tcp;
use crate::tcp::acknowledge::Need;
use crate::tcp::arrive::Deliver;
use crate::tcp::connection::{Connection, Context};
use crate::tcp::deadlines::Timer;
use crate::tcp::events::{Place, Readiness};
use crate::tcp::expected::Expected;
use crate::tcp::output::Output;
use crate::tcp::slots::ConnectionId;
use crate::tcp::time::Instant;
use crate::tcp::transmit::Left;

impl Tcp {
    /// Takes a segment that was expected, and does what follows from it; `None` if it has to go the long road.
    #[inline]
    pub(super) fn receive_expected(
        &mut self,
        now: Instant,
        index: u32,
        segment: &Expected<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Option<ConnectionId> {
        let connection = self.slots.connection_at(index)?;
        let id = connection.id;
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        if !connection.arrive_expected(&mut cx, segment, deliver) {
            return None;
        }
        if connection.may_leave() {
            self.settle(now, index, output, false);
        } else {
            self.settle_received(now, index);
        }
        Some(id)
    }

    /// [`Tcp::settle`] where nothing leaves now: the ACK waits, the application is told, the wheel is armed.
    #[inline]
    fn settle_received(&mut self, now: Instant, index: u32) {
        let Some(connection) = self.slots.connection_at(index) else { return };
        connection.deadlines.cancel(Timer::Persist);
        match connection.acknowledge.need {
            Need::Delayed => connection.delay_ack(now, &self.config),
            Need::Poll if !std::mem::replace(&mut connection.is_due, true) => self.due.push(index),
            _ => {}
        }
        self.settle_shortly(index);
    }

    /// [`Tcp::settle`] where one segment has left, or found no room.
    #[inline]
    pub(super) fn settle_sent(&mut self, index: u32, left: Left) {
        let Some(connection) = self.slots.connection_at(index) else { return };
        if left == Left::Refused && !std::mem::replace(&mut connection.is_due, true) {
            self.due.push(index);
        }
        self.settle_shortly(index);
    }

    /// The application is told, the wheel is armed.
    #[inline]
    fn settle_shortly(&mut self, index: u32) {
        #[cfg(feature = "audit")]
        (self.shortened += 1);
        let Some(connection) = self.slots.connection_at(index) else { return };
        debug_assert!(connection.is_watched(), "{}", connection.flow);
        let readiness = connection.plain_readiness();
        if connection.stirred || readiness.new_since(connection.readiness) {
            self.events.push(Place::Connection(index));
        }
        (connection.readiness, connection.stirred) = (readiness, false);
        self.arm_wheel(index);
    }
}

impl Connection {
    /// Whether something may have to leave before the next poll.
    #[inline]
    fn may_leave(&self) -> bool {
        self.acknowledge.need == Need::Now || self.recovery.board.lost() > 0 || self.send.has_unsent()
    }

    /// [`Connection::current_readiness`] of a connection that is plain.
    #[inline]
    fn plain_readiness(&self) -> Readiness {
        let readable = if self.receive.buffer.is_empty() { Readiness::NONE } else { Readiness::READABLE };
        let ready = if self.has_worthy_room() { readable | Readiness::WRITABLE } else { readable };
        debug_assert_eq!(ready, self.current_readiness(), "{}", self.flow);
        ready
    }
}
