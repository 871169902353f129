//! The three-way handshake (RFC 9293 section 3.5): both opens, the SYN that arrives, and establishment.

pub(crate) mod cookie;
pub(crate) mod held;
pub(crate) mod isn;
pub(crate) mod listener;
pub(crate) mod syn_flood;

use crate::tcp::counters::Counter;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::timers::deadlines::Timer;
use sidestep_wire::tcp::Options;

impl Connection {
    /// Begins an active open.
    pub(crate) fn active_open(&mut self) {
        self.state = State::SynSent;
    }

    /// Begins a passive open with the peer's SYN.
    pub(crate) fn passive_open(&mut self, cx: &Context<'_>, syn: &Seg<'_>) {
        self.state = State::SynReceived;
        self.take_syn(cx, syn);
    }

    /// Takes note of a SYN-ACK that was sent as a cookie, before this connection, and has been acknowledged.
    pub(crate) fn note_syn_ack_sent(&mut self) {
        self.snd.sent_syn();
        self.rcv.offer(false);
    }

    /// Takes the peer's SYN: number, window (not shifted, RFC 7323 section 2.2), options.
    pub(crate) fn take_syn(&mut self, cx: &Context<'_>, syn: &Seg<'_>) {
        self.rcv.begin(syn.seq);
        self.ack.begin(self.rcv.nxt());
        self.snd.first_window(syn.seq, syn.ack, u32::from(syn.window));
        self.agree(cx, &syn.options);
    }

    /// Agrees on the options that both SYNs carry (RFC 7323 section 1.3, RFC 2018 section 2).
    pub(crate) fn agree(&mut self, cx: &Context<'_>, options: &Options) {
        self.negotiated.agree(options, cx.now);
        match options.window_scale.filter(|_| self.negotiated.window_scaling()) {
            Some(shift) => self.snd.set_shift(shift),
            None => self.rcv.without_scaling(),
        }
        if let Some(bytes) = options.maximum_segment_size {
            self.mss.set_peer(bytes);
        }
        let (bytes, segments) = (self.payload_bytes(), cx.config.initial_window_segments);
        self.congestion = cx.config.controller(&self.options, bytes, segments);
    }

    /// Our SYN is acknowledged.
    pub(crate) fn establish(&mut self, cx: &mut Context<'_>, seg: &Seg<'_>) {
        let syn = self.recovery.board.first();
        self.recovery.board.acknowledge(seg.ack, |_| ());
        self.snd.acknowledge(seg.ack);
        match syn {
            Some(syn) if !syn.resent => self.rtt.sample(cx.now, cx.now.since_ns(syn.sent_at)),
            None => {}
            // RFC 6298 (5.7), RFC 5681 section 3.1: a lost SYN means caution.
            Some(_) => {
                self.rtt.note_syn_retransmitted();
                self.congestion = cx.config.controller(&self.options, self.payload_bytes(), 1);
            }
        }
        self.liveness.reset_timeouts();
        self.recovery.undo = None;
        self.recovery.end_recovery();
        self.recovery.point = self.snd.una();
        self.deadlines.cancel(Timer::Retransmit);
        self.notices.take_soft_error();
        self.notices.request_if(true);
        let counter = if self.owner.listener().is_some() { Counter::OpenedPassive } else { Counter::OpenedActive };
        cx.counters.count(counter);
        self.arm_keepalive(cx);
    }
}
