//! Active OPEN (RFC 9293 section 3.10.1): connect, and the tuples from which that can be done.

use crate::tcp::counters::Counter;
use crate::tcp::demux::ids::{ConnectionId, ListenerId};
use crate::tcp::demux::slots::Slot;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::flow::Flow;
use crate::tcp::options::Options;
use crate::tcp::tcb::connection::{Connection, NewConnection};
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use crate::tcp::tuple::Tuple;
use sidestep_wire::tcp::SequenceNumber;
use std::net::SocketAddr;

impl Tcp {
    /// Begins a connection from `local` to `remote`: the SYN leaves at once. Both are complete: the caller has chosen the
    /// source address by its routes, and the port. `path_mtu`: the largest IP packet of the path, `None` for
    /// [`crate::tcp::Config::mtu_bytes`]. An event reports the outcome: writable, or an error.
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        path_mtu: Option<u16>,
        options: Options,
        output: &mut dyn Output,
    ) -> Result<ConnectionId, Error> {
        options.check()?;
        let flow = Flow::new(local, remote).filter(|flow| flow.local_port != 0 && flow.remote_port != 0);
        let flow = flow.ok_or(Error::InvalidAddress)?;
        let iss_min = self.vacate(now, &flow)?;
        let iss = self.isn.choose(&flow, now);
        let iss = iss_min.map_or(iss, |least| iss.later(least));
        let id = self.open(now, flow, options, iss, path_mtu, None)?;
        if iss_min.is_some() {
            self.counters.count(Counter::TimeWaitReused);
        }
        self.step(now, id.index, output, |connection, _| connection.active_open());
        Ok(id)
    }

    pub(crate) fn open(
        &mut self,
        now: Instant,
        flow: Flow,
        options: Options,
        iss: SequenceNumber,
        path_mtu: Option<u16>,
        listener: Option<ListenerId>,
    ) -> Result<ConnectionId, Error> {
        if self.slots.open >= self.config.connections_max {
            return Err(Error::TooManyConnections);
        }
        let clock_offset = self.isn.timestamp_offset(&flow);
        let path_mtu = path_mtu.unwrap_or(self.config.mtu_bytes as u16);
        let id = self.slots.reserve();
        let beginning = NewConnection { flow, options, iss, clock_offset, path_mtu, listener };
        self.slots.open(Box::new(Connection::new(id, beginning, &self.config, now)));
        self.demux.insert(&flow, id.index);
        Ok(id)
    }

    /// Returns whether [`Tcp::connect`] would begin a connection from `local` to `remote`: where the tuple is free or replaceable.
    pub fn tuple(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Tuple {
        let Some(index) = Flow::new(local, remote).and_then(|flow| self.index_of(&flow)) else { return Tuple::Free };
        match self.slots.slot(index) {
            Slot::TimeWait(waiting) => waiting.tuple(now),
            Slot::Free | Slot::Open(_) | Slot::Frozen(_) | Slot::HandedOver(_) => Tuple::Used,
        }
    }

    /// Makes room for a connection from here; gives the least number that it may begin with, where there was one before.
    pub(crate) fn vacate(&mut self, now: Instant, flow: &Flow) -> Result<Option<SequenceNumber>, Error> {
        let Some(index) = self.index_of(flow) else { return Ok(None) };
        match self.slots.slot(index) {
            Slot::TimeWait(waiting) if waiting.tuple(now) == Tuple::Replaceable => {
                let iss_min = waiting.iss_min();
                self.release_time_wait(index);
                Ok(Some(iss_min))
            }
            _ => Err(Error::AddressInUse),
        }
    }
}
