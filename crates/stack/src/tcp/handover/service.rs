//! Out of service and back: freeze, thaw, forget, release.

use super::record::{Handover, Unfit};
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::events::Place;
use crate::tcp::flow::Flow;
use crate::tcp::tcb::connection::Context;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Takes a connection out of service and gives its record. Until [`Tcp::thaw`] or [`Tcp::forget`] its handle is wrong for every
    /// other call, and neither a timer nor a segment changes it.
    pub fn freeze(&mut self, now: Instant, id: ConnectionId) -> Result<Handover, Unfit> {
        let connection = self.slots.any(id).filter(|connection| connection.owner.listener().is_none());
        let connection = connection.ok_or(Unfit::NotFound)?;
        if let Some(unfit) = Unfit::of(connection) {
            return Err(unfit);
        }
        let record = Handover::of(connection, now);
        self.wheel.cancel(id.index);
        self.slots.freeze(id.index);
        Ok(record)
    }

    /// Puts a frozen connection back into service: it goes on as before, and acknowledges at once what it has, as segments were
    /// dropped meanwhile.
    pub fn thaw(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) -> Result<(), Error> {
        let connection = self.slots.thaw(id).ok_or(Error::NotFound)?;
        connection.deadlines.set_told(Instant::NEVER);
        connection.deadlines.search();
        connection.marks.clear_due();
        connection.acknowledge_after_silence();
        self.events.push(Place::Connection(id.index));
        self.finish_step(now, id.index, output, true);
        Ok(())
    }

    /// Frees a frozen connection, which another TCP goes on with. One segment leaves, which has the peer answer: that tells the
    /// other TCP at once what has arrived, where it would have to wait for a timeout. The tuple stays occupied, and segments for
    /// it stay unanswered, until [`Tcp::release`].
    pub fn forget(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) -> Result<(), Error> {
        let frozen = self.slots.frozen(id).ok_or(Error::NotFound)?;
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        // Without room for it a timeout has to do.
        let _ = frozen.ask(&mut cx);
        let orphan_bytes = frozen.owner.take_orphan_bytes();
        if orphan_bytes != 0 {
            self.release_orphan_bytes(orphan_bytes);
        }
        self.slots.leave_flow(id.index);
        Ok(())
    }

    /// Gives a tuple back whose connection was handed over and has ended there. Returns whether there was one.
    pub fn release(&mut self, id: ConnectionId) -> bool {
        let Some(flow) = self.slots.handed_over(id) else { return false };
        self.release_tuple(id.index, &flow);
        true
    }

    pub(crate) fn release_tuple(&mut self, index: u32, flow: &Flow) {
        self.demux.remove(flow, index);
        self.slots.release(index);
    }
}
