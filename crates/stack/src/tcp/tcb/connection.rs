//! The TCB of one connection: its parts, and the changes that concern all of them.

use crate::tcp::ack::generation::{AckGeneration, Need};
use crate::tcp::config::{Config, us};
use crate::tcp::congestion::{CongestionControl, Controller, Usage};
use crate::tcp::counters::{Counter, Counters};
use crate::tcp::demux::ids::{ConnectionId, ListenerId};
use crate::tcp::error::Error;
use crate::tcp::events::Readiness;
use crate::tcp::flow::Flow;
use crate::tcp::loss_recovery::Recovery;
use crate::tcp::options::Options;
use crate::tcp::tcb::marks::Marks;
use crate::tcp::tcb::mss::Mss;
use crate::tcp::tcb::negotiated::Negotiated;
use crate::tcp::tcb::notices::Notices;
use crate::tcp::tcb::owner::Owner;
use crate::tcp::tcb::receive::ReceiveSpace;
use crate::tcp::tcb::send::SendSpace;
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::{Deadlines, Timer};
use crate::tcp::timers::liveness::Liveness;
use crate::tcp::timers::rto::Rtt;
use crate::tcp::transmit::output::Output;
use crate::tcp::transmit::template::Template;
use sidestep_wire::tcp::SequenceNumber;

/// Congestion windows that a send buffer may hold: what is in flight, what a program has handed over since, and what was sacked behind a
/// hole that takes several round trips to fill (Linux: two, three for BBR, with its packets' overhead; with three BBR lost 4 %
/// of its rate over a path with a queue of two packets).
const SEND_BUFFER_WINDOWS: u32 = 6;

/// The parts of the stack that a step of a connection may use.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) config: &'a Config,
    pub(crate) counters: &'a mut Counters,
    pub(crate) output: &'a mut dyn Output,
}

/// The parameters of a new connection.
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

/// The TCB of one connection, cut into parts that keep their own invariants.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) flow: Flow,
    pub(crate) state: State,
    pub(crate) options: Options,
    pub(crate) template: Template,
    pub(crate) snd: SendSpace,
    /// [`SEND_BUFFER_WINDOWS`] times the largest congestion window so far.
    send_windows_bytes: u32,
    pub(crate) rcv: ReceiveSpace,
    pub(crate) negotiated: Negotiated,
    pub(crate) mss: Mss,
    pub(crate) ack: AckGeneration,
    pub(crate) recovery: Recovery,
    pub(crate) congestion: Controller,
    pub(crate) usage: Usage,
    pub(crate) rtt: Rtt,
    pub(crate) liveness: Liveness,
    pub(crate) deadlines: Deadlines,
    pub(crate) owner: Owner,
    pub(crate) notices: Notices,
    pub(crate) marks: Marks,
    pub(crate) statistics: Statistics,
}

/// The counters of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    /// Segments with data that were dropped.
    pub(crate) dropped: u64,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, new: NewConnection, config: &Config, now: Instant) -> Self {
        let NewConnection { flow, options, iss, clock_offset, path_mtu, listener } = new;
        let initial_window = config.receive_window_initial_bytes;
        let mut connection = Self {
            id,
            flow,
            state: State::Closed,
            options,
            template: Template::new(&flow),
            snd: SendSpace::new(iss),
            send_windows_bytes: 0,
            rcv: ReceiveSpace::new(initial_window, options.receive_buffer_bytes, config.window_scaling),
            negotiated: Negotiated::offer(config, clock_offset),
            mss: Mss::new(&flow, path_mtu, options.segment_bytes_max),
            ack: AckGeneration::default(),
            recovery: Recovery::new(iss),
            congestion: config.controller(&options, 536, config.initial_window_segments),
            usage: Usage::new(iss, now),
            rtt: Rtt::default(),
            liveness: Liveness::new(now),
            deadlines: Deadlines::default(),
            owner: Owner::new(listener),
            notices: Notices::default(),
            marks: Marks::new(),
            statistics: Statistics::default(),
        };
        connection.follow_segment_size();
        connection
    }

    /// Loads what a segment in order needs: a field of each part, so that hardly a line of them is left out.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let numbers = u64::from(self.snd.nxt().0) ^ u64::from(self.rcv.nxt().0) ^ u64::from(self.mss.effective());
        let times = self.rtt.minimum_ns() ^ self.liveness.last_sent_at().as_nanos() ^ self.deadlines.touch();
        let sizes = self.recovery.board.len() ^ self.snd.buffer().len() ^ self.rcv.buffer().len();
        let few = u32::from(self.marks.fast_path()) ^ u32::from(self.options.nodelay) ^ u32::from(self.flow.local_port);
        let counted = self.statistics.segments_in ^ self.statistics.retransmitted;
        let owned = u64::from(self.owner.is_held()) ^ u64::from(self.congestion.window_bytes());
        numbers ^ times ^ sizes as u64 ^ u64::from(few) ^ counted ^ owned ^ self.recovery.rack.touch()
    }

    /// Loads what lies behind the connection's pointers: segments in flight, and the place of the next bytes to send.
    #[inline]
    pub(crate) fn touch_behind(&self) -> u64 {
        let sent = self.recovery.board.at(0).map_or(0, |sent| sent.sent_at.as_nanos());
        sent ^ self.snd.buffer().touch()
    }

    /// The segment size has changed: the congestion window counts in segments.
    pub(crate) fn follow_segment_size(&mut self) {
        let payload_bytes = self.payload_bytes();
        self.congestion.on_segment_bytes(payload_bytes);
    }

    /// The payload of a full segment beside timestamps.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> u32 {
        self.mss.effective() - self.negotiated.option_bytes()
    }

    /// The bytes that the send buffer may hold.
    #[inline]
    fn send_limit(&self) -> usize {
        let options = &self.options;
        options.send_buffer_initial_bytes.max(self.send_windows_bytes).min(options.send_buffer_bytes) as usize
    }

    /// The send buffer grows with the congestion window (tcp_sndbuf_expand of Linux), so that it never limits the rate, and stays
    /// as it is when the window shrinks.
    #[inline]
    pub(crate) fn grow_send_buffer(&mut self) {
        let windows = self.congestion.window_bytes().saturating_mul(SEND_BUFFER_WINDOWS);
        self.send_windows_bytes = self.send_windows_bytes.max(windows);
    }

    /// The number of bytes that the send buffer has room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.send_limit().saturating_sub(self.snd.buffer().len())
    }

    /// As Linux: when a third of the buffer is free, so that a writer is not woken for every ACK.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        let limit = self.send_limit();
        limit.saturating_sub(self.snd.buffer().len()) >= (limit / 3).max(1)
    }

    /// Ends the connection with an error.
    pub(crate) fn fail(&mut self, error: Error) {
        self.notices.fail(error);
        self.end();
    }

    /// Ends the connection. Data that can be read stays.
    pub(crate) fn end(&mut self) {
        self.state = State::Closed;
        self.deadlines.clear();
        self.recovery.board.clear();
        self.owner.set_lost_bytes(self.snd.buffer().len() as u32);
        self.snd.discard();
        self.rcv.forget_holes();
        self.ack.cancel();
    }

    /// Queues a FIN behind all data (RFC 9293 section 3.10.4).
    pub(crate) fn finish(&mut self) {
        if self.snd.is_fin_queued() {
            return;
        }
        self.snd.queue_fin();
        self.state = self.state.after_close();
    }

    /// Enters TIME-WAIT: both sides have sent a FIN, and ours was the first.
    pub(crate) fn enter_time_wait(&mut self, cx: &Context<'_>) {
        self.deadlines.clear();
        self.deadlines.arm(Timer::Close, cx.now.after_ns(us(cx.config.time_wait_us)));
        self.recovery.board.clear();
    }

    /// The application has let go in FIN-WAIT-2, or our FIN was acknowledged after it had: the peer's FIN is not awaited
    /// for ever.
    pub(crate) fn limit_fin_wait_2(&mut self, cx: &Context<'_>) {
        if self.state == State::FinWait2 && self.owner.is_orphan() {
            self.deadlines.arm(Timer::Close, cx.now.after_ns(us(cx.config.fin_wait_2_us)));
        }
    }

    /// The connection was out of service: what the peer sent meanwhile it sends again, the sooner the more it knows.
    pub(crate) fn acknowledge_after_silence(&mut self) {
        self.ack.request(Need::Now);
    }

    /// The user timeout (RFC 5482 section 4), once the connection is established or begun from here; 0: none.
    #[inline]
    pub(crate) fn user_timeout_ns(&self) -> u64 {
        if self.state == State::SynReceived { 0 } else { self.options.user_timeout_ns }
    }

    /// Returns whether a timer is armed for data in flight, and for data that waits for the peer's window.
    pub(crate) fn has_needed_timers(&self) -> bool {
        let in_flight = !self.recovery.board.is_empty();
        let is_open = self.snd.is_syn_acknowledged() && self.state != State::Closed;
        let waits = is_open && self.snd.has_unsent() && !in_flight && !self.marks.is_due();
        let is_armed = |timer| self.deadlines.is_armed(timer);
        (!in_flight || is_armed(Timer::Retransmit)) && (!waits || is_armed(Timer::Persist) || is_armed(Timer::Cork))
    }

    /// Returns whether the slot can be given back.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed && self.owner.is_nobody()
    }

    /// The readiness of now.
    #[inline]
    pub(crate) fn current_readiness(&self) -> Readiness {
        let mut ready = Readiness::NONE;
        let is_ended = matches!(self.state, State::Closed | State::TimeWait);
        let is_input_over = is_ended || self.rcv.is_finished() || self.rcv.is_shut();
        if is_input_over {
            ready = ready | Readiness::PEER_CLOSED;
        }
        if is_input_over || !self.rcv.buffer().is_empty() {
            ready = ready | Readiness::READABLE;
        }
        // A send that fails does not wait, either.
        let is_output_over = is_ended || self.snd.is_fin_queued();
        if is_output_over || self.state.can_send() && self.is_writable() {
            ready = ready | Readiness::WRITABLE;
        }
        if is_input_over && is_output_over {
            ready = ready | Readiness::HANGUP;
        }
        if self.notices.has_error() {
            ready = ready | Readiness::ERROR;
        }
        if self.notices.is_urgent() {
            ready = ready | Readiness::URGENT;
        }
        ready
    }

    /// Sends a challenge ACK (RFC 5961), as often as the limit allows.
    pub(crate) fn challenge(&mut self, cx: &mut Context<'_>) {
        if self.ack.allows_challenge(cx.now, cx.config.challenge_acks_per_second) {
            cx.counters.count(Counter::ChallengeAcks);
            self.ack.request(Need::Now);
        } else {
            cx.counters.count(Counter::ChallengesSuppressed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of a connection without buffers, and the most that a segment touches of it.
    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 1280, "{} bytes", size_of::<Connection>());
    }
}
