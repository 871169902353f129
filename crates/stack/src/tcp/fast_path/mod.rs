//! The fast path: a segment that was expected (`header_prediction`), a message that may leave at once (`direct_send`).

pub(crate) mod direct_send;
pub(crate) mod header_prediction;

use crate::tcp::ack::generation::Need;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::events::{Events, Place, Readiness};
use crate::tcp::fast_path::header_prediction::Predicted;
use crate::tcp::segment_arrives::seg::Deliver;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::timers::wheel::Wheel;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Takes a predicted segment, and does what follows from it. `None`: the slow path has to take it.
    #[inline]
    pub(crate) fn receive_predicted(
        &mut self,
        now: Instant,
        index: u32,
        segment: &Predicted<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Option<ConnectionId> {
        let connection = self.slots.connection_at(index)?;
        let id = connection.id;
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        if !connection.process_predicted(&mut cx, segment, deliver) {
            return None;
        }
        #[cfg(feature = "audit")]
        (self.fast_path_counts[0] += 1);
        if connection.has_urgent_output() {
            #[cfg(feature = "audit")]
            (self.fast_path_counts[1] += 1);
            self.finish_step(now, index, output, false);
            return Some(id);
        }
        connection.deadlines.cancel(Timer::Persist);
        match connection.ack.need() {
            Need::Delayed => connection.delay_ack(now, &self.config),
            Need::Poll => self.due.owe_ack(now, index, connection.marks.set_due()),
            _ => {}
        }
        finish_fast_step(connection, index, &mut self.events, &mut self.wheel);
        Some(id)
    }

    /// Sends a message that may leave at once, and does what follows from it. Returns false if the slow path has to send it.
    #[inline]
    pub(crate) fn send_directly(
        &mut self,
        now: Instant,
        id: ConnectionId,
        bytes: &[u8],
        output: &mut dyn Output,
    ) -> bool {
        let Some(connection) = self.slots.held(id) else { return false };
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        let Some(sent) = connection.send_directly(&mut cx, bytes) else { return false };
        if sent.is_err() {
            self.due.refuse(id.index, connection.marks.set_due());
        }
        finish_fast_step(connection, id.index, &mut self.events, &mut self.wheel);
        #[cfg(feature = "audit")]
        (self.fast_path_counts[2] += 1);
        true
    }
}

/// [`Tcp::finish_step`] on the fast path, with nothing that could leave: queues an event and arms the wheel.
#[inline]
fn finish_fast_step(connection: &mut Connection, index: u32, events: &mut Events, wheel: &mut Wheel) {
    debug_assert!(connection.has_needed_timers(), "{}", connection.flow);
    let readiness = connection.plain_readiness();
    if connection.notices.update(readiness) {
        events.push(Place::Connection(index));
    }
    if let Some(deadline) = connection.deadlines.take_change() {
        wheel.arm(index, deadline);
    }
}

impl Connection {
    /// Returns whether something may have to leave before the next poll.
    #[inline]
    fn has_urgent_output(&self) -> bool {
        self.ack.need() == Need::Now || self.recovery.board.lost() > 0 || self.snd.has_unsent()
    }

    /// [`Connection::current_readiness`] of a connection that is plain.
    #[inline]
    fn plain_readiness(&self) -> Readiness {
        let readable = if self.rcv.buffer().is_empty() { Readiness::NONE } else { Readiness::READABLE };
        let ready = if self.is_writable() { readable | Readiness::WRITABLE } else { readable };
        debug_assert_eq!(ready, self.current_readiness(), "{}", self.flow);
        ready
    }
}
