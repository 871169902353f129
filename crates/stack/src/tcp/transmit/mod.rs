//! What leaves now: lost segments again, then new ones as the windows allow, then an ACK if none of them has carried it.

pub(crate) mod output;
pub(crate) mod template;

use crate::tcp::ack::generation::Need;
use crate::tcp::config::{Config, us};
use crate::tcp::congestion::CongestionControl;
use crate::tcp::counters::Counter;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::send::{Hold, Limits};
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::Outgoing;
use crate::tcp::transmit::template::Template;
use sidestep_wire::tcp::{Flags, Options, SackBlocks, Segment, SequenceNumber};

/// Whether the sink had a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Sent,
    Refused,
}

impl Connection {
    /// Sends what may leave. `is_poll`: an ACK that waited for the poll leaves, too. False if the sink was full.
    #[inline]
    pub(crate) fn transmit(&mut self, cx: &mut Context<'_>, is_poll: bool) -> bool {
        if self.state == State::Closed || self.state == State::TimeWait && self.ack.need() == Need::None {
            return true;
        }
        if !self.transmit_data(cx) {
            self.arm_for_full_sink(cx);
            return false;
        }
        let is_ack_due = match self.ack.need() {
            Need::Now => true,
            Need::Poll => is_poll,
            Need::Delayed => {
                self.delay_ack(cx.now, cx.config);
                false
            }
            Need::None => false,
        };
        // Before the peer's SYN there is nothing to acknowledge.
        !is_ack_due || self.state == State::SynSent || self.send_ack(cx) == Left::Sent
    }

    /// The sink has refused. What was in flight before has its timer; if nothing is, a link that refuses for ever, or a
    /// neighbour that never answers, must not keep the connection for ever: it is given up like one that is not answered.
    #[cold]
    pub(crate) fn arm_for_full_sink(&mut self, cx: &Context<'_>) {
        if self.recovery.board.is_empty() && !self.deadlines.is_armed(Timer::Retransmit) {
            self.liveness.wait_from(cx.now);
            self.arm_retransmit(cx);
        }
    }

    /// It is not the sink any more that holds back, and nothing is in flight yet. What is sent now is sent for the first time:
    /// the waiting counts neither as its timeouts nor for its timer.
    fn end_wait_for_sink(&mut self) {
        if self.deadlines.is_armed(Timer::Retransmit) {
            self.deadlines.cancel(Timer::Retransmit);
            self.liveness.reset_timeouts();
            self.rtt.reset_backoff();
        }
    }

    /// Whether something has never been sent, and it is the sink that holds it back.
    pub(crate) fn waits_for_sink(&self) -> bool {
        self.marks.is_due() && (self.snd.nxt == self.snd.iss || self.snd.has_unsent())
    }

    /// Whether anything may have to leave: what [`Connection::transmit`] looks at.
    #[inline]
    pub(crate) fn has_to_send(&self) -> bool {
        let is_owed = self.ack.need() != Need::None || self.snd.nxt == self.snd.iss;
        is_owed || self.recovery.board.lost() > 0 || self.snd.has_unsent()
    }

    fn transmit_data(&mut self, cx: &mut Context<'_>) -> bool {
        if self.snd.nxt == self.snd.iss {
            return self.send_syn(cx) == Left::Sent;
        }
        if self.recovery.board.lost() > 0 && !self.retransmit_lost(cx) {
            return false;
        }
        if !self.snd.is_syn_acknowledged() || !self.snd.has_unsent() {
            self.deadlines.cancel(Timer::Persist);
            return true;
        }
        self.send_new(cx)
    }

    /// What the congestion window leaves.
    #[inline]
    fn congestion_room(&self) -> u32 {
        match self.recovery.phase {
            Phase::Fast => self.recovery.prr.budget(),
            _ => {
                let pipe = self.recovery.pipe(self.payload_bytes());
                self.congestion.window_bytes().saturating_sub(pipe)
            }
        }
    }

    /// The first number from `iss`: SYN, or SYN-ACK (RFC 9293 section 3.5).
    fn send_syn(&mut self, cx: &mut Context<'_>) -> Left {
        let (start, end) = (self.snd.iss, self.snd.iss + 1);
        if self.emit_syn(cx) == Left::Refused {
            return Left::Refused;
        }
        self.end_wait_for_sink();
        self.snd.nxt = end;
        self.recovery.board.push(start, end, cx.now);
        self.liveness.wait_from(cx.now);
        self.arm_retransmit(cx);
        Left::Sent
    }

    fn emit_syn(&mut self, cx: &mut Context<'_>) -> Left {
        let answers = self.state != State::SynSent;
        let flags = if answers { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let options = Options {
            maximum_segment_size: Some(self.mss.offered()),
            window_scale: self.negotiated.window_scaling().then_some(self.rcv.shift),
            sack_permitted: self.negotiated.sack(),
            timestamps: self.negotiated.timestamps_option(cx.now),
            ..Options::NONE
        };
        // RFC 7323 section 2.2: the window of a SYN is not shifted.
        let window = self.rcv.offer(false);
        let start = self.snd.iss;
        self.emit(cx, start, flags, window, options, (start, start))
    }

    /// Sends lost segments again, lowest first. False if the sink was full.
    fn retransmit_lost(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(index) = self.recovery.board.next_lost() {
            // The path may take less than it did (RFC 1191); and a peer's window may have shrunk, which only probes respect.
            self.recovery.board.split(index, self.data_payload_bytes());
            let Some(record) = self.recovery.board.at(index) else { return true };
            let in_flight = self.recovery.pipe(self.payload_bytes());
            if record.bytes() > self.congestion_room() && in_flight > 0 {
                return true;
            }
            if self.retransmit(cx, index, u32::MAX) == Left::Refused {
                return false;
            }
        }
        true
    }

    /// Sends the segment at `index` again, at most `bytes_max` of it.
    pub(crate) fn retransmit(&mut self, cx: &mut Context<'_>, index: usize, bytes_max: u32) -> Left {
        let Some(record) = self.recovery.board.at(index) else { return Left::Sent };
        let left = if record.start == self.snd.iss {
            self.emit_syn(cx)
        } else {
            let end = record.start + record.bytes().min(bytes_max);
            self.emit_range(cx, record.start, end)
        };
        if left == Left::Refused {
            return left;
        }
        cx.counters.count(Counter::Retransmitted);
        self.statistics.retransmitted += 1;
        self.recovery.resent(index, cx.now);
        if self.recovery.phase == Phase::Fast {
            self.recovery.prr.sent(record.bytes());
        }
        if !self.deadlines.is_armed(Timer::Retransmit) {
            self.arm_retransmit(cx);
        }
        left
    }

    /// Sends new segments. False if the sink was full.
    #[inline]
    fn send_new(&mut self, cx: &mut Context<'_>) -> bool {
        self.restart_after_idle(cx);
        let sent_before = self.snd.nxt;
        let hold = loop {
            if self.recovery.board.len() >= cx.config.in_flight_segments_max as usize {
                break Hold::Congestion;
            }
            let limits = self.limits();
            match self.snd.next_segment(&limits) {
                Err(hold) => break hold,
                Ok((bytes, finish)) => {
                    if self.send_segment(cx, bytes, finish, limits.payload_bytes) == Left::Refused {
                        return false;
                    }
                }
            }
        };
        if self.snd.nxt != sent_before {
            self.arm_tail_probe(cx);
        }
        self.wait_for(cx, hold);
        true
    }

    #[inline]
    fn limits(&self) -> Limits {
        Limits {
            payload_bytes: self.data_payload_bytes(),
            room_bytes: self.congestion_room(),
            nodelay: self.options.nodelay,
            cork: self.snd.is_corked(self.options.cork),
        }
    }

    /// The largest payload beside the options that go with it now (RFC 6691).
    #[inline]
    pub(crate) fn data_payload_bytes(&self) -> u32 {
        match self.rcv.assembler.has_report() {
            true => self.mss.effective() - self.segment_options(Instant::default()).bytes() as u32,
            false => self.payload_bytes(),
        }
    }

    /// A new segment of `bytes`, with or without FIN.
    #[inline]
    pub(crate) fn send_segment(&mut self, cx: &mut Context<'_>, bytes: u32, finish: bool, payload_max: u32) -> Left {
        let start = self.snd.nxt;
        let saved = self.snd.finish;
        if finish {
            self.snd.finish = Some(start + bytes);
        }
        let end = start + bytes + u32::from(finish);
        if self.emit_range(cx, start, end) == Left::Refused {
            self.snd.finish = saved;
            return Left::Refused;
        }
        self.note_sent(cx, bytes, finish, payload_max);
        Left::Sent
    }

    /// A new segment has left: `bytes` from SND.NXT on, and a FIN.
    #[inline]
    pub(crate) fn note_sent(&mut self, cx: &Context<'_>, bytes: u32, finish: bool, payload_max: u32) {
        if self.recovery.board.is_empty() {
            self.liveness.wait_from(cx.now);
            self.end_wait_for_sink();
        }
        let start = self.snd.nxt;
        self.snd.sent(bytes, finish, payload_max);
        self.recovery.board.push(start, self.snd.nxt, cx.now);
        self.statistics.bytes_out += u64::from(bytes);
        if bytes < payload_max {
            self.deadlines.cancel(Timer::Cork);
        }
        if self.recovery.phase == Phase::Fast {
            self.recovery.prr.sent(bytes);
        }
        // RFC 6298 (5.1)
        if !self.deadlines.is_armed(Timer::Retransmit) {
            self.arm_retransmit(cx);
        }
    }

    /// RFC 5681 section 4.1, if the profile wants it; and time that CUBIC does not count (RFC 9438 section 5.8).
    #[inline]
    pub(crate) fn restart_after_idle(&mut self, cx: &Context<'_>) {
        if !self.recovery.board.is_empty() {
            return;
        }
        let idle_ns = cx.now.since_ns(self.liveness.last_sent_at());
        let config = cx.config;
        // Most often it is plain without the timeout, which is no shorter than this.
        if idle_ns <= us(config.rto_min_us.min(config.rto_initial_us).min(config.rto_max_us)) {
            return;
        }
        let rto_ns = self.rtt.rto_ns(cx.config);
        if idle_ns > rto_ns {
            if cx.config.slow_start_after_idle {
                self.congestion.on_idle(idle_ns, rto_ns);
            }
            self.congestion.on_pause(self.usage.take_pause_ns(self.liveness.last_sent_at(), cx.now));
        }
    }

    /// Arms the timer that ends a wait which no ACK will end.
    #[inline]
    fn wait_for(&mut self, cx: &Context<'_>, hold: Hold) {
        if hold == Hold::Cork && !self.deadlines.is_armed(Timer::Cork) {
            self.deadlines.arm(Timer::Cork, cx.now.after_ns(us(cx.config.cork_us)));
        }
        if self.recovery.board.is_empty() {
            self.end_wait_for_sink();
        }
        if hold != Hold::Window || !self.recovery.board.is_empty() {
            self.deadlines.cancel(Timer::Persist);
        } else if !self.deadlines.is_armed(Timer::Persist) {
            self.arm_persist(cx);
        }
    }

    /// RFC 9293 section 3.8.6.1: the first probe after a retransmission timeout, then exponentially later.
    pub(crate) fn arm_persist(&mut self, cx: &Context<'_>) {
        let rto_ns = self.rtt.rto_ns(cx.config);
        let wait_ns = rto_ns.saturating_mul(1 << self.liveness.window_probes().min(20)).min(us(cx.config.rto_max_us));
        self.deadlines.arm(Timer::Persist, cx.now.after_ns(wait_ns));
    }

    #[inline]
    pub(crate) fn delay_ack(&mut self, now: Instant, config: &Config) {
        if !self.deadlines.is_armed(Timer::DelayedAck) {
            self.deadlines.arm(Timer::DelayedAck, now.after_ns(us(config.delayed_ack_us)));
        }
    }

    /// A segment without data.
    pub(crate) fn send_ack(&mut self, cx: &mut Context<'_>) -> Left {
        let nxt = self.snd.nxt;
        self.emit_range(cx, nxt, nxt)
    }

    /// Aborts: the peer is told (RFC 9293 section 3.10.5).
    pub(crate) fn send_reset(&mut self, cx: &mut Context<'_>) {
        // Where more was sent than the window takes now, a probe at least, the peer would not look at what is behind it
        // (RFC 5961 section 3.2; Linux tcp_acceptable_seq).
        let seq = self.snd.nxt.earlier(self.snd.una + self.snd.wnd);
        let options = Options { sack: SackBlocks::NONE, ..self.segment_options(cx.now) };
        cx.counters.count(Counter::ResetsOut);
        self.emit(cx, seq, Flags::RST | Flags::ACK, 0, options, (seq, seq));
    }

    #[inline]
    pub(crate) fn segment_options(&self, now: Instant) -> Options {
        let timestamps = self.negotiated.timestamps_option(now);
        let options = Options { timestamps, ..Options::NONE };
        if !self.negotiated.sack() || !self.rcv.assembler.has_report() {
            return options;
        }
        Options { sack: self.rcv.assembler.blocks(), ..options }.fitted()
    }

    /// The numbers `start..end`, with PSH on the last byte there is, and FIN.
    #[inline]
    fn emit_range(&mut self, cx: &mut Context<'_>, start: SequenceNumber, end: SequenceNumber) -> Left {
        let mut flags = Flags::ACK;
        let data_end = self.snd.data_start() + self.snd.buffer.len() as u32;
        // Not on what stands behind it: an ACK with a FIN of its own would be a second FIN, which the peer must answer.
        if self.snd.finish.is_some_and(|finish| start.is_at_or_before(finish) && end.is_after(finish)) {
            flags = flags | Flags::FIN;
        }
        // RFC 9293 section 3.9.1.2: PSH when nothing more is buffered.
        if end != start && data_end.is_at_or_before(end) && start.is_before(data_end) {
            flags = flags | Flags::PSH;
        }
        let (window, options) = (self.rcv.offer(true), self.segment_options(cx.now));
        self.emit(cx, start, flags, window, options, (start, end))
    }

    #[inline]
    pub(crate) fn emit(
        &mut self,
        cx: &mut Context<'_>,
        sequence: SequenceNumber,
        flags: Flags,
        window: u16,
        options: Options,
        (start, end): (SequenceNumber, SequenceNumber),
    ) -> Left {
        let has_ack = flags.has(Flags::ACK);
        let header = self.header(sequence, flags, window, options);
        let payload = self.snd.payload(start, end);
        let template = Template::fits(&header).then_some(&self.template);
        let outgoing = Outgoing { connection: Some(self.id), flow: &self.flow, header, payload, template };
        if cx.output.segment(&outgoing).is_err() {
            cx.counters.count(Counter::NoRoom);
            return Left::Refused;
        }
        self.note_emitted(cx, has_ack);
        Left::Sent
    }

    #[inline]
    pub(crate) fn header(&self, sequence: SequenceNumber, flags: Flags, window: u16, options: Options) -> Segment {
        Segment {
            source_port: self.flow.local_port,
            destination_port: self.flow.remote_port,
            sequence,
            acknowledgement: if flags.has(Flags::ACK) { self.rcv.nxt } else { SequenceNumber(0) },
            flags,
            window,
            urgent_pointer: 0,
            options,
        }
    }

    /// A segment, of whatever kind, has left.
    #[inline]
    pub(crate) fn note_emitted(&mut self, cx: &mut Context<'_>, has_ack: bool) {
        cx.counters.count(Counter::SegmentsOut);
        self.statistics.segments_out += 1;
        self.liveness.note_sent(cx.now);
        if has_ack {
            self.ack.sent(self.rcv.nxt);
            self.rcv.assembler.reported();
            self.deadlines.cancel(Timer::DelayedAck);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::counters::Counters;
    use crate::tcp::demux::slots::ConnectionId;
    use crate::tcp::tcb::connection::NewConnection;
    use crate::tcp::time::SECOND_NS;
    use crate::tcp::transmit::output::NoRoom;
    use crate::tcp::{Flow, congestion};

    /// A connection in congestion avoidance.
    fn after_loss(config: &Config) -> Connection {
        let flow = Flow::new("192.0.2.1:80".parse().unwrap(), "192.0.2.2:9".parse().unwrap()).unwrap();
        let (options, iss) = (config.options(), SequenceNumber(7));
        let new = NewConnection { flow, options, iss, clock_offset: 0, path_mtu: 1500, listener: None };
        let id = ConnectionId { index: 0, generation: 0 };
        let mut connection = Connection::new(id, new, config, Instant::default());
        connection.congestion.on_loss(Instant::default(), 100_000);
        let (rtt_ns, is_limited) = (SECOND_NS, true);
        let progress = congestion::Progress { now: Instant::default(), acknowledged_bytes: 1000, rtt_ns, is_limited };
        connection.congestion.on_progress(&progress);
        connection
    }

    /// RFC 9438 section 5.8: a pause is a pause, however often sending is tried behind it.
    #[test]
    fn a_pause_is_counted_once() {
        let config = Config { slow_start_after_idle: false, ..Config::default() };
        let seconds = |seconds: u64| Instant::from_nanos(seconds * SECOND_NS);
        let tried_at = |times: &[u64]| {
            let mut connection = after_loss(&config);
            for &time in times {
                let (mut counters, now) = (Counters::default(), seconds(time));
                let mut full = |_: &Outgoing<'_>| Err(NoRoom);
                let cx = Context { now, config: &config, counters: &mut counters, output: &mut full };
                connection.restart_after_idle(&cx);
            }
            format!("{:?}", connection.congestion)
        };
        let once = tried_at(&[10]);
        assert_eq!(tried_at(&[10, 10, 10]), once);
        assert_eq!(tried_at(&[4, 7, 10]), once, "and none of it is left out");
        assert_ne!(tried_at(&[]), once);
    }
}
