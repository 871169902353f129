//! Connections begin: `connect`, `listen`, `accept`, and SYNs.

use crate::tcp::config::us;
use crate::tcp::counters::Counter;
use crate::tcp::demux::slots::{ConnectionId, ListenerId};
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::events::{Place, Readiness};
use crate::tcp::flow::Flow;
use crate::tcp::options::Options;
use crate::tcp::segment_arrives::Received;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::segment_arrives::synchronized::Deliver;
use crate::tcp::segment_arrives::time_wait::TimeWait;
use crate::tcp::tcb::connection::{Connection, Context, NewConnection};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::{Flags, SequenceNumber};
use std::net::SocketAddr;

impl Tcp {
    /// Begins a connection from `local` to `remote`: the SYN leaves at once. Both are complete: the caller has chosen the
    /// source address by its routes, and the port. `path_mtu`: the largest IP packet of the path, `None` for
    /// [`crate::tcp::Config::mtu_bytes`]. The end is told by an event: writable, or an error.
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

    fn open(
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

    /// Listens on `local`; an unspecified address means any of its family. At most `backlog` connections wait to be
    /// accepted. What is accepted gets `options`.
    pub fn listen(&mut self, local: SocketAddr, backlog: usize, options: Options) -> Result<ListenerId, Error> {
        options.check()?;
        self.listeners.add(local, backlog, options)
    }

    /// Takes the connection that has waited longest; an event tells if it has data already. [`Error::WouldBlock`]: none
    /// waits.
    pub fn accept(&mut self, id: ListenerId) -> Result<ConnectionId, Error> {
        let listener = self.listeners.held(id).ok_or(Error::NotFound)?;
        let accepted = listener.pop().ok_or(Error::WouldBlock)?;
        let connection = self.slots.connection_at(accepted.index).ok_or(Error::NotFound)?;
        connection.owner.accept();
        connection.notices.set_readiness(connection.current_readiness());
        if connection.current_readiness().has(Readiness::READABLE) {
            self.events.push(Place::Connection(accepted.index));
        }
        Ok(accepted)
    }

    /// Connections that wait to be accepted.
    pub fn backlog(&mut self, id: ListenerId) -> Result<usize, Error> {
        Ok(self.listeners.held(id).ok_or(Error::NotFound)?.waiting())
    }

    /// A SYN, or what is left of a handshake, for a listener (RFC 9293 section 3.10.7.2).
    pub(crate) fn segment_in_listen(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        seg: &Seg<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Received {
        let Some(listener) = self.listeners.at_mut(index) else { return Received::Nobody };
        let id = listener.id;
        if seg.has(Flags::RST) {
            return Received::Listener(id);
        }
        if seg.has(Flags::ACK) {
            return self.ack_in_listen(now, index, flow, seg, output, deliver);
        }
        if seg.has(Flags::SYN) {
            let iss = self.isn.choose(flow, now);
            self.take_syn(now, index, flow, seg, iss, output);
        }
        Received::Listener(id)
    }

    /// An ACK without a connection: a cookie that comes back, or nothing good.
    fn ack_in_listen(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        seg: &Seg<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Received {
        let is_bare = !seg.flags.has_any(Flags::SYN | Flags::RST);
        if is_bare && self.config.syn_cookies && self.take_cookie(now, index, flow, seg, output) {
            if let Some(connection) = self.index_of(flow) {
                self.segment_in_connection(now, connection, flow, *seg, output, deliver);
            }
        } else {
            self.counters.count(Counter::NoConnection);
            self.send_reset(flow, seg, output);
        }
        self.listeners.at_mut(index).map_or(Received::Nobody, |listener| Received::Listener(listener.id))
    }

    /// A SYN for the listener at `index`. Bounded twice: by the queue of half-open connections, and by that of the
    /// established ones.
    fn take_syn(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        iss: SequenceNumber,
        output: &mut dyn Output,
    ) {
        let Some(listener) = self.listeners.at_mut(index) else { return };
        if listener.half_open < self.config.syn_queue_max {
            return self.take_syn_of(now, index, flow, syn, iss, false, output);
        }
        self.counters.count(Counter::SynQueueFull);
        if self.config.syn_cookies {
            self.send_cookie(now, index, flow, syn, output);
        }
    }

    /// A connection in SYN-RECEIVED. `is_answered`: its SYN-ACK was a cookie and has been acknowledged.
    #[expect(clippy::too_many_arguments, reason = "the parts of one SYN")]
    pub(crate) fn take_syn_of(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        iss: SequenceNumber,
        is_answered: bool,
        output: &mut dyn Output,
    ) {
        let Some(listener) = self.listeners.at_mut(index) else { return };
        let (id, options) = (listener.id, listener.options);
        if listener.is_full() {
            return self.counters.count(Counter::AcceptQueueFull);
        }
        let Ok(connection) = self.open(now, *flow, options, iss, None, Some(id)) else {
            return self.counters.count(Counter::ConnectionsFull);
        };
        if let Some(listener) = self.listeners.at_mut(index) {
            listener.half_open += 1;
        }
        self.step(now, connection.index, output, |connection, cx| {
            connection.passive_open(cx, syn);
            if is_answered {
                connection.note_syn_ack_sent();
            }
        });
    }

    /// A SYN begins a new connection out of TIME-WAIT (RFC 6191).
    pub(crate) fn reopen(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        (waiting, iss_min): (&TimeWait, SequenceNumber),
        output: &mut dyn Output,
    ) -> Received {
        let Some(listener) = self.listeners.find(flow.addresses.source(), flow.local_port) else {
            // Nobody would take the new one: the old one answers.
            self.send_stateless(flow, waiting.acknowledgement(now), output);
            return Received::TimeWait;
        };
        self.counters.count(Counter::TimeWaitReused);
        if self.step(now, index, output, |connection, _| connection.end()).is_none() {
            self.release_time_wait(index);
        }
        let iss = self.isn.choose(flow, now).later(iss_min);
        self.take_syn(now, listener, flow, syn, iss, output);
        self.listeners.at_mut(listener).map_or(Received::TimeWait, |listener| Received::Listener(listener.id))
    }

    /// The wait begins anew.
    pub(crate) fn restart_time_wait(&mut self, now: Instant, index: u32) {
        let deadline = now.after_ns(us(self.config.time_wait_us));
        if let Some(connection) = self.slots.connection_at(index) {
            connection.deadlines.arm(Timer::Close, deadline);
            connection.deadlines.set_told(deadline);
        }
        self.wheel.arm(index, deadline);
    }

    /// Stores what judging has changed.
    pub(crate) fn store_time_wait(&mut self, index: u32, waiting: TimeWait) {
        if let Some(connection) = self.slots.connection_at(index) {
            connection.ack.set_challenge_limit(waiting.challenge);
        } else if let Some(place) = self.slots.time_wait_at(index) {
            *place = waiting;
        }
    }

    /// Stops listening. Connections that nobody has accepted are aborted.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId, output: &mut dyn Output) -> Result<(), Error> {
        self.listeners.remove(id).ok_or(Error::NotFound)?;
        for index in 0..self.slots.len() {
            let Some(connection) = self.slots.connection_at(index).filter(|one| one.owner.listener() == Some(id))
            else {
                continue;
            };
            connection.owner.forget_listener();
            self.step(now, index, output, |connection: &mut Connection, cx: &mut Context<'_>| {
                connection.send_reset(cx);
                connection.fail(Error::Aborted);
            });
        }
        Ok(())
    }
}
