//! LISTEN (RFC 9293 section 3.10.7.2): SYNs, and what comes back of SYN cookies.

use crate::tcp::counters::Counter;
use crate::tcp::engine::Tcp;
use crate::tcp::flow::Flow;
use crate::tcp::segment_arrives::Received;
use crate::tcp::segment_arrives::seg::{Deliver, Seg};
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::{Flags, SequenceNumber};

impl Tcp {
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
        let (id, is_holding) = (listener.id, listener.held.is_some());
        if seg.has(Flags::RST) {
            return Received::Listener(id);
        }
        if seg.has(Flags::ACK) {
            if is_holding {
                // It may be another TCP's connection.
                return Received::Listener(id);
            }
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
    pub(crate) fn take_syn(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        iss: SequenceNumber,
        output: &mut dyn Output,
    ) {
        if self.listeners.is_deaf {
            return;
        }
        let Some(listener) = self.listeners.at_mut(index) else { return };
        if let Some(held) = &mut listener.held {
            if !held.keep(flow, syn, iss) {
                self.counters.count(Counter::SynQueueFull);
            }
            return;
        }
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
}
