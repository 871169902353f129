//! Whether two addresses and two ports may begin a connection from here, and what is left of the last one.

use crate::tcp::demux::slots::Slot;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::flow::Flow;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::SequenceNumber;
use std::net::SocketAddr;

/// What there is of two addresses and two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tuple {
    /// Nothing: a connection may begin.
    Free,
    /// A connection in TIME-WAIT that a new one may follow now (RFC 6191).
    Replaceable,
    /// One in TIME-WAIT that a new one may follow a second after its last segment.
    Waiting,
    /// A connection, or one in TIME-WAIT without timestamps.
    Used,
}

impl Tcp {
    /// Whether [`Tcp::connect`] would begin a connection from `local` to `remote`: where the tuple is free or replaceable.
    pub fn tuple(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Tuple {
        let Some(index) = Flow::new(local, remote).and_then(|flow| self.index_of(&flow)) else { return Tuple::Free };
        match self.slots.slot(index) {
            Slot::Waiting(waiting) => waiting.tuple(now),
            Slot::Free | Slot::Open(_) => Tuple::Used,
        }
    }

    /// Makes room for a connection from here; gives the least number that it may begin with, where there was one before.
    pub(crate) fn vacate(&mut self, now: Instant, flow: &Flow) -> Result<Option<SequenceNumber>, Error> {
        let Some(index) = self.index_of(flow) else { return Ok(None) };
        match self.slots.slot(index) {
            Slot::Waiting(waiting) if waiting.tuple(now) == Tuple::Replaceable => {
                let iss_min = waiting.iss_min();
                self.release_time_wait(index);
                Ok(Some(iss_min))
            }
            _ => Err(Error::AddressInUse),
        }
    }
}
