//! STATUS (RFC 9293 section 3.10.6): events, readiness, errors, facts and options.

use crate::tcp::ack::generation::Need;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::events::{Event, Place, Readiness};
use crate::tcp::facts::Facts;
use crate::tcp::options::Options;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// The next connection or listener of which something can be told. Each stands in the queue at most once, and is told
    /// again only after something new.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            match self.events.pop()? {
                Place::Connection(index) => {
                    if let Some(connection) =
                        self.slots.connection_at(index).filter(|connection| connection.owner.is_held())
                    {
                        return Some(Event::Connection(connection.id));
                    }
                }
                Place::Listener(index) => {
                    if let Some(listener) = self.listeners.at_mut(index) {
                        return Some(Event::Listener(listener.id));
                    }
                }
            }
        }
    }

    /// The readiness of a connection; none for a wrong handle.
    #[inline]
    pub fn readiness(&self, id: ConnectionId) -> Readiness {
        self.slots
            .any(id)
            .filter(|connection| connection.owner.is_held())
            .map_or(Readiness::NONE, Connection::current_readiness)
    }

    /// The error that has ended the connection, or what ICMP has said of it; told once. `SO_ERROR`
    pub fn take_error(&mut self, id: ConnectionId) -> Result<Option<Error>, Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        let soft = connection.notices.take_soft_error();
        Ok(connection.notices.take_error().or(soft))
    }

    /// The connection's state.
    pub fn state(&self, id: ConnectionId) -> Result<State, Error> {
        Ok(self.slots.any(id).ok_or(Error::NotFound)?.state)
    }

    /// The facts of a connection. Also of one that waits to be accepted, or was closed and is not over yet.
    pub fn facts(&self, id: ConnectionId) -> Result<Facts, Error> {
        let connection = self.slots.any(id).ok_or(Error::NotFound)?;
        Ok(Facts::of(connection, connection.rtt.rto_ns(&self.config)))
    }

    /// The connection's options.
    pub fn options(&self, id: ConnectionId) -> Result<Options, Error> {
        Ok(self.slots.any(id).ok_or(Error::NotFound)?.options)
    }

    /// Changes the connection's options; what they held back leaves at once.
    pub fn set_options(
        &mut self,
        now: Instant,
        id: ConnectionId,
        options: Options,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        options.check()?;
        self.slots.held(id).ok_or(Error::NotFound)?;
        self.step(now, id.index, output, |connection, cx| {
            let before = std::mem::replace(&mut connection.options, options);
            connection.rcv.set_limit(options.receive_buffer_bytes);
            if !options.urgent_held {
                connection.notices.set_urgent(false);
            }
            if before.segment_bytes_max != options.segment_bytes_max {
                connection.mss.set_limit(options.segment_bytes_max);
                connection.follow_segment_size();
            }
            if before.congestion != options.congestion {
                let segments = cx.config.initial_window_segments;
                connection.congestion = cx.config.controller(&options, connection.payload_bytes(), segments);
            }
            if before.keepalive != options.keepalive && connection.state.is_synchronized() {
                connection.arm_keepalive(cx);
            }
            if options.quickack && connection.ack.need() == Need::Delayed {
                connection.ack.request(Need::Now);
            }
        });
        Ok(())
    }
}
