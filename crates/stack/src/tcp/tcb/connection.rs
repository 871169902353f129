//! One connection: its parts, and what befalls all of them.

use crate::tcp::ack::challenge::Challenge;
use crate::tcp::ack::generation::{Acknowledge, Need};
use crate::tcp::config::{Config, us};
use crate::tcp::congestion::{CongestionControl, Controller};
use crate::tcp::counters::{Counter, Counters};
use crate::tcp::demux::slots::{ConnectionId, ListenerId};
use crate::tcp::error::Error;
use crate::tcp::events::Readiness;
use crate::tcp::flow::Flow;
use crate::tcp::loss_recovery::Recovery;
use crate::tcp::options::Options;
use crate::tcp::tcb::receive::Receive;
use crate::tcp::tcb::send::Send;
use crate::tcp::tcb::state::State;
use crate::tcp::tcb::timestamps::Timestamps;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::{Deadlines, Timer};
use crate::tcp::timers::rto::Rtt;
use crate::tcp::transmit::output::Output;
use crate::tcp::transmit::template::Template;
use sidestep_wire::tcp::SequenceNumber;

/// What a step of a connection may use of the stack.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) config: &'a Config,
    pub(crate) counters: &'a mut Counters,
    pub(crate) output: &'a mut dyn Output,
}

/// What a connection is made of before anything has been sent or heard.
#[derive(Clone, Copy)]
pub(crate) struct NewConnection {
    pub(crate) flow: Flow,
    pub(crate) options: Options,
    pub(crate) iss: SequenceNumber,
    /// The offset of our timestamps.
    pub(crate) clock_offset: u32,
    pub(crate) path_mtu: u16,
    pub(crate) listener: Option<ListenerId>,
}

pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) flow: Flow,
    pub(crate) state: State,
    pub(crate) options: Options,
    pub(crate) template: Template,
    pub(crate) send: Send,
    pub(crate) receive: Receive,
    pub(crate) recovery: Recovery,
    pub(crate) congestion: Controller,
    pub(crate) rtt: Rtt,
    /// Agreed on, or, before the peer's SYN, offered.
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) sack: bool,
    pub(crate) acknowledge: Acknowledge,
    pub(crate) challenge: Challenge,
    pub(crate) deadlines: Deadlines,
    /// The largest segment to send, payload and options: the least of the peer's wish, the path and the option.
    pub(crate) segment_bytes: u32,
    /// What the peer's SYN asked for.
    pub(crate) peer_segment_bytes: u16,
    pub(crate) path_mtu: u16,
    /// Why the connection has ended.
    pub(crate) error: Option<Error>,
    /// The peer's SYN offers window scaling.
    pub(crate) peer_scales: bool,
    /// Up to here the congestion control knows of the pause since the last sending.
    pub(crate) pause_counted_at: Instant,
    /// The cork has held back long enough.
    pub(crate) cork_expired: bool,
    /// What ICMP said; becomes the error if the peer stays silent (RFC 9293 section 3.9.2.2).
    pub(crate) soft_error: Option<Error>,
    /// Where it will be, or was, accepted.
    pub(crate) listener: Option<ListenerId>,
    /// The application has a handle.
    pub(crate) is_held: bool,
    /// When the application has let go of it; the clock's beginning before.
    pub(crate) orphaned_at: Instant,
    /// Memory that it counts for as a closed connection whose data is not all acknowledged; 0: it is none, or not yet.
    pub(crate) orphan_bytes: u32,
    /// Bytes that were not acknowledged when it ended.
    pub(crate) lost_bytes: u32,
    /// Whether the listener was told.
    pub(crate) announced: bool,
    pub(crate) last_sent_at: Instant,
    pub(crate) last_heard_at: Instant,
    /// Keep-alive probes without an answer.
    pub(crate) unanswered_probes: u32,
    /// What the application was told last.
    pub(crate) readiness: Readiness,
    /// Something new came that the same readiness does not show.
    pub(crate) must_tell: bool,
    /// The sink had no room, or an ACK waits for the next poll.
    pub(crate) is_due: bool,
    /// Segments of its flow find it.
    pub(crate) in_demux: bool,
    /// The fast path may be taken (`fast_path/`): kept by `settle`, so it may be late to
    /// say yes, after accept for one, but never to say no.
    pub(crate) is_plain: bool,
    pub(crate) statistics: Statistics,
}

/// What is counted per connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, beginning: NewConnection, config: &Config, now: Instant) -> Self {
        let NewConnection { flow, options, iss, clock_offset, path_mtu, listener } = beginning;
        let mut connection = Self {
            id,
            flow,
            state: State::Closed,
            options,
            template: Template::new(&flow),
            send: Send::new(iss),
            receive: Receive::new(
                config.receive_window_initial_bytes,
                options.receive_buffer_bytes,
                config.window_scaling,
            ),
            recovery: Recovery::new(iss),
            congestion: Controller::new(options.congestion, 536, config.initial_window_segments),
            rtt: Rtt::default(),
            timestamps: config.timestamps.then(|| Timestamps::new(clock_offset)),
            sack: config.sack,
            acknowledge: Acknowledge::default(),
            challenge: Challenge::default(),
            deadlines: Deadlines::default(),
            segment_bytes: 536,
            peer_segment_bytes: flow.default_segment_bytes(),
            path_mtu,
            error: None,
            peer_scales: false,
            pause_counted_at: now,
            cork_expired: false,
            soft_error: None,
            listener,
            is_held: listener.is_none(),
            orphaned_at: Instant::default(),
            orphan_bytes: 0,
            lost_bytes: 0,
            announced: false,
            last_sent_at: now,
            last_heard_at: now,
            unanswered_probes: 0,
            readiness: Readiness::NONE,
            must_tell: false,
            is_due: false,
            in_demux: true,
            is_plain: false,
            statistics: Statistics::default(),
        };
        connection.fit_segments();
        connection
    }

    /// The segment size that we ask the peer for (RFC 9293 section 3.7.1, MUST-14; RFC 6691: without options).
    pub(crate) fn offered_segment_bytes(&self) -> u16 {
        let path = self.path_mtu.saturating_sub(self.flow.header_bytes());
        match self.options.segment_bytes_max {
            0 => path,
            most => path.min(most),
        }
    }

    /// The segment size to send (RFC 9293 section 3.7.1, MUST-16).
    pub(crate) fn fit_segments(&mut self) {
        // Options take up to 40 bytes: a peer that asks for less than leaves room for data gets a little more.
        const LEAST: u16 = 48;
        self.segment_bytes = u32::from(self.offered_segment_bytes().min(self.peer_segment_bytes).max(LEAST));
        let payload_bytes = self.payload_bytes();
        self.congestion.on_segment_bytes(payload_bytes);
    }

    /// The payload of a full segment beside timestamps.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u32 {
        self.segment_bytes - if self.timestamps.is_some() { 12 } else { 0 }
    }

    /// The application may hand over this many bytes.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        (self.options.send_buffer_bytes as usize).saturating_sub(self.send.buffer.len())
    }

    /// As Linux: when a third of the buffer is free, so that a writer is not woken for every ACK.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        let third = self.options.send_buffer_bytes as usize / 3;
        self.room() >= third.max(1)
    }

    /// The peer has reset the connection, did not answer, or the like.
    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
        self.end();
    }

    /// Nothing more comes or goes. What is there to be read stays.
    pub(crate) fn end(&mut self) {
        self.state = State::Closed;
        self.deadlines.clear();
        self.recovery.board.clear();
        self.lost_bytes = self.send.buffer.len() as u32;
        self.send.buffer.clear();
        self.receive.assembler.clear();
        self.acknowledge.need = Need::None;
    }

    /// This side finishes sending (RFC 9293 section 3.10.4).
    pub(crate) fn finish(&mut self) {
        if self.send.fin_queued {
            return;
        }
        self.send.fin_queued = true;
        self.state = self.state.after_close();
    }

    /// Both sides have finished, and ours was the first: late segments are waited out.
    pub(crate) fn enter_time_wait(&mut self, cx: &Context<'_>) {
        self.deadlines.clear();
        self.deadlines.arm(Timer::Close, cx.now.after_ns(us(cx.config.time_wait_us)));
        self.recovery.board.clear();
    }

    /// The application has let go in FIN-WAIT-2, or our FIN was acknowledged after it had: the peer's FIN is not awaited
    /// for ever.
    pub(crate) fn limit_fin_wait_2(&mut self, cx: &Context<'_>) {
        if self.state == State::FinWait2 && self.is_orphan() {
            self.deadlines.arm(Timer::Close, cx.now.after_ns(us(cx.config.fin_wait_2_us)));
        }
    }

    /// Nobody will read from it or write to it any more.
    #[inline]
    pub(crate) fn is_orphan(&self) -> bool {
        !self.is_held && self.listener.is_none()
    }

    /// The user's timeout (RFC 5482 section 4), once the connection is somebody's; 0: none.
    #[inline]
    pub(crate) fn user_timeout_ns(&self) -> u64 {
        if self.state == State::SynReceived { 0 } else { self.options.user_timeout_ns }
    }

    /// Whether a timer watches over what is in flight, and over what waits for the peer's window.
    pub(crate) fn has_needed_timers(&self) -> bool {
        let in_flight = !self.recovery.board.is_empty();
        let is_open = self.send.is_syn_acknowledged() && self.state != State::Closed;
        let waits = is_open && self.send.has_unsent() && !in_flight && !self.is_due;
        let is_armed = |timer| self.deadlines.is_armed(timer);
        (!in_flight || is_armed(Timer::Retransmit)) && (!waits || is_armed(Timer::Persist) || is_armed(Timer::Cork))
    }

    /// Whether the slot can be given back.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed && !self.is_held && (self.listener.is_none() || !self.announced)
    }

    /// What the application can do now without waiting.
    #[inline]
    pub(crate) fn current_readiness(&self) -> Readiness {
        let mut ready = Readiness::NONE;
        let is_ended = matches!(self.state, State::Closed | State::TimeWait);
        if !self.receive.buffer.is_empty() || self.receive.finished || self.receive.is_shut || is_ended {
            ready = ready | Readiness::READABLE;
        }
        if self.receive.finished {
            ready = ready | Readiness::PEER_CLOSED;
        }
        if is_ended || self.state.can_send() && self.is_writable() {
            ready = ready | Readiness::WRITABLE;
        }
        if is_ended || self.receive.finished && self.send.fin_queued {
            ready = ready | Readiness::HANGUP;
        }
        if self.error.is_some() {
            ready = ready | Readiness::ERROR;
        }
        ready
    }

    /// Answers what could be forged, or is out of the window, as often as is allowed.
    pub(crate) fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.challenge.allows(cx.now, cx.config.challenge_acks_per_second) {
            cx.counters.count(Counter::ChallengeAcks);
            self.acknowledge.ask(Need::Now);
        } else {
            cx.counters.count(Counter::ChallengesSuppressed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ten thousand connections cost in memory, buffers apart; and what a segment drags through the cache at most.
    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 1280, "{} bytes", size_of::<Connection>());
    }
}
