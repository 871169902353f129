//! A segment arrives.

pub(crate) mod acceptability;
mod listen;
pub(crate) mod seg;
mod syn_received;
mod syn_sent;
pub(crate) mod synchronized;
pub(crate) mod time_wait;

use crate::Service;
use crate::tcp::counters::Counter;
use crate::tcp::demux::ids::{ConnectionId, ListenerId};
use crate::tcp::demux::slots::Slot;
use crate::tcp::engine::Tcp;
use crate::tcp::fast_path::header_prediction::Predicted;
use crate::tcp::flow::Flow;
use crate::tcp::segment_arrives::seg::Answer;
use crate::tcp::segment_arrives::seg::Deliver;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::state::State;
use crate::tcp::tcb::time_wait::TimeWait;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::{Outgoing, Output};
use sidestep_wire::Addresses;
use sidestep_wire::tcp::{Flags, Options, Segment, SequenceNumber, View};

/// A segment that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The addresses of the IP header: the peer's as the source, ours as the destination.
    pub addresses: &'a Addresses,
    /// The segment.
    pub segment: View<'a>,
    /// Somebody has verified the checksum already (the card, or a peer on this host that made none).
    pub is_verified: bool,
}

/// For whom a segment was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A connection that is, or was until this segment, open.
    Connection(ConnectionId),
    /// A listener.
    Listener(ListenerId),
    /// A connection that is only waited out.
    TimeWait,
    /// A connection that is being handed over to another TCP, or was: the segment is dropped.
    HandedOver,
    /// Nobody.
    Nobody,
    /// Its checksum is wrong.
    Damaged,
}

impl Tcp {
    /// One segment. `deliver` sees payload in order, in the frame, when nothing older waits to be read: it gives how many of
    /// the bytes it has taken; what it leaves is copied into the connection's buffer. Answers to what could be lost leave at
    /// once through `output`, other ACKs in the next [`Tcp::poll`], unless data takes them along.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        incoming: &Incoming<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Received {
        self.counters.count(Counter::SegmentsIn);
        if !incoming.is_verified && incoming.segment.verify(incoming.addresses).is_err() {
            self.counters.count(Counter::ChecksumBad);
            return Received::Damaged;
        }
        let ports = (incoming.segment.destination_port(), incoming.segment.source_port());
        let index = self.index_of_arrival(incoming.addresses, ports.0, ports.1);
        if let (Some(index), Some(segment)) = (index, Predicted::of(&incoming.segment))
            && let Some(id) = self.receive_predicted(now, index, &segment, output, deliver)
        {
            return Received::Connection(id);
        }
        self.receive_on_slow_path(now, index, incoming, output, deliver)
    }

    /// A segment that was not expected.
    fn receive_on_slow_path(
        &mut self,
        now: Instant,
        index: Option<u32>,
        incoming: &Incoming<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Received {
        let flow = &Flow::of_arrival(incoming.addresses, &incoming.segment);
        let seg = Seg::new(&incoming.segment);
        if seg.options.malformed {
            self.counters.count(Counter::OptionsMalformed);
        }
        let Some(index) = index else {
            return self.segment_without_connection(now, flow, &seg, output, deliver);
        };
        match self.slots.slot(index) {
            Slot::Open(connection) if connection.state == State::TimeWait => {
                let waiting = TimeWait::of(connection);
                self.segment_in_time_wait(now, index, flow, waiting, &seg, output)
            }
            Slot::Open(connection) => {
                let id = connection.id;
                if connection.state == State::SynReceived && !self.may_complete(index, &seg) {
                    return Received::Connection(id);
                }
                self.segment_in_connection(now, index, flow, seg, output, deliver);
                Received::Connection(id)
            }
            Slot::TimeWait(_) => {
                let Some(waiting) = self.slots.time_wait_at(index) else { return Received::Nobody };
                let waiting = waiting.clone();
                self.segment_in_time_wait(now, index, flow, waiting, &seg, output)
            }
            Slot::HandedOver(_) if self.begins_anew(flow, &seg) => {
                self.release_tuple(index, flow);
                self.segment_without_connection(now, flow, &seg, output, deliver)
            }
            Slot::Frozen(_) | Slot::HandedOver(_) => {
                self.counters.count(Counter::HandedOverDropped);
                Received::HandedOver
            }
            Slot::Free => Received::Nobody,
        }
    }

    #[inline]
    pub(crate) fn segment_in_connection(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        seg: Seg<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) {
        let answer = self.step(now, index, output, |connection, cx| connection.segment_arrives(cx, seg, deliver));
        if answer == Some(Answer::Reset) {
            self.send_reset(flow, &seg, output);
        }
    }

    /// A peer connects anew, where the kernel had the connection before: steering brings its SYN here only when the kernel has nothing of
    /// that any more. The word of control, which looks once a second, is then late, or was lost.
    fn begins_anew(&self, flow: &Flow, seg: &Seg<'_>) -> bool {
        let is_syn = seg.has(Flags::SYN) && !seg.has(Flags::ACK) && !seg.has(Flags::RST);
        is_syn && self.listeners.find(flow.addresses.source(), flow.local_port).is_some()
    }

    /// The accept queue is full: the last ACK of a handshake is not taken, the peer's data will bring it again. Others pass.
    fn may_complete(&mut self, index: u32, seg: &Seg<'_>) -> bool {
        let Some(listener) = self.slots.connection_at(index).and_then(|connection| connection.owner.listener()) else {
            return true;
        };
        let is_full = self.listeners.held(listener).is_some_and(|listener| listener.is_full());
        let is_last = seg.has(Flags::ACK) && !seg.has(Flags::RST);
        if is_full && is_last {
            self.counters.count(Counter::AcceptQueueFull);
        }
        !(is_full && is_last)
    }

    /// RFC 9293 section 3.10.7.1 and 3.10.7.2: no connection, but perhaps a listener.
    fn segment_without_connection(
        &mut self,
        now: Instant,
        flow: &Flow,
        seg: &Seg<'_>,
        output: &mut dyn Output,
        deliver: Deliver<'_>,
    ) -> Received {
        if let Some(index) = self.listeners.find(flow.addresses.source(), flow.local_port) {
            return self.segment_in_listen(now, index, flow, seg, output, deliver);
        }
        self.counters.count(Counter::NoConnection);
        if self.config.reset_unknown {
            self.send_reset(flow, seg, output);
        }
        Received::Nobody
    }

    /// A segment without a connection's state behind it. If the sink has no room it is as good as lost on the way.
    pub(crate) fn send_stateless(&mut self, flow: &Flow, header: Segment, output: &mut dyn Output) {
        let service = Service::default();
        let outgoing = Outgoing { connection: None, flow, service, header, payload: [&[], &[]], template: None };
        let counter = if output.segment(&outgoing).is_ok() { Counter::SegmentsOut } else { Counter::NoRoom };
        self.counters.count(counter);
    }

    /// Answers what belongs to no connection (RFC 9293 section 3.10.7.1). A RST is never answered.
    pub(crate) fn send_reset(&mut self, flow: &Flow, seg: &Seg<'_>, output: &mut dyn Output) {
        if seg.has(Flags::RST) {
            return;
        }
        let (sequence, acknowledgement, flags) = if seg.has(Flags::ACK) {
            (seg.ack, SequenceNumber(0), Flags::RST)
        } else {
            (SequenceNumber(0), seg.end(), Flags::RST | Flags::ACK)
        };
        let header = Segment {
            source_port: flow.local_port,
            destination_port: flow.remote_port,
            sequence,
            acknowledgement,
            flags,
            window: 0,
            urgent_pointer: 0,
            options: Options::NONE,
        };
        self.counters.count(Counter::ResetsOut);
        self.send_stateless(flow, header, output);
    }
}
