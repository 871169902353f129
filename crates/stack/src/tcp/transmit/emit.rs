//! Segments as they leave: header, options, payload, and the sink that takes them.

use crate::tcp::counters::Counter;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::{NoRoom, Outgoing};
use crate::tcp::transmit::template::Template;
use sidestep_wire::tcp::{Flags, Options, SackBlocks, Segment, SequenceNumber};

impl Connection {
    /// A segment without data.
    pub(crate) fn send_ack(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let seq = self.acceptable_seq();
        self.emit_range(cx, seq, seq)
    }

    /// The sequence number of a segment without data: SND.NXT, but not beyond the window. Where more was sent than the window takes now,
    /// a probe at least, or a receiver short of memory has shrunk it, the peer does not look at what is behind it: neither at a
    /// RST (RFC 5961 section 3.2) nor at an ACK (RFC 9293 section 3.10.7.4; Linux tcp_acceptable_seq).
    fn acceptable_seq(&self) -> SequenceNumber {
        self.snd.nxt().earlier(self.snd.una() + self.snd.wnd())
    }

    /// Aborts: the peer is told (RFC 9293 section 3.10.5).
    pub(crate) fn send_reset(&mut self, cx: &mut Context<'_>) {
        let seq = self.acceptable_seq();
        let options = Options { sack: SackBlocks::NONE, ..self.segment_options(cx.now) };
        cx.counters.count(Counter::ResetsOut);
        // Refused, it is as good as lost: nothing depends on it.
        _ = self.emit(cx, seq, Flags::RST | Flags::ACK, 0, options, (seq, seq));
    }

    pub(crate) fn emit_syn(&mut self, cx: &mut Context<'_>) -> Result<(), NoRoom> {
        let answers = self.state != State::SynSent;
        let flags = if answers { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let options = Options {
            maximum_segment_size: Some(self.mss.offered()),
            window_scale: self.negotiated.window_scaling().then_some(self.rcv.shift()),
            sack_permitted: self.negotiated.sack(),
            timestamps: self.negotiated.timestamps_option(cx.now),
            ..Options::NONE
        };
        // RFC 7323 section 2.2: the window of a SYN is not shifted.
        let window = self.rcv.offer(false);
        let start = self.snd.iss();
        self.emit(cx, start, flags, window, options, (start, start))
    }

    /// The numbers `start..end`, with PSH on the last byte there is, and FIN.
    #[inline]
    pub(crate) fn emit_range(
        &mut self,
        cx: &mut Context<'_>,
        start: SequenceNumber,
        end: SequenceNumber,
    ) -> Result<(), NoRoom> {
        let mut flags = Flags::ACK;
        let data_end = self.snd.data_start() + self.snd.buffer().len() as u32;
        // Not on what stands behind it: an ACK with a FIN of its own would be a second FIN, which the peer must answer.
        if self.snd.finish().is_some_and(|finish| start.is_at_or_before(finish) && end.is_after(finish)) {
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
    pub(crate) fn segment_options(&self, now: Instant) -> Options {
        let timestamps = self.negotiated.timestamps_option(now);
        let options = Options { timestamps, ..Options::NONE };
        if !self.negotiated.sack() || !self.rcv.assembler().has_report() {
            return options;
        }
        Options { sack: self.rcv.assembler().blocks(), ..options }.fitted()
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
    ) -> Result<(), NoRoom> {
        let has_ack = flags.has(Flags::ACK);
        let header = self.header(sequence, flags, window, options);
        let payload = self.snd.payload(start, end);
        let template = Template::fits(&header).then_some(&self.template);
        let (connection, service) = (Some(self.id), self.options.service);
        let outgoing = Outgoing { connection, flow: &self.flow, service, header, payload, template };
        if cx.output.segment(&outgoing).is_err() {
            cx.counters.count(Counter::NoRoom);
            return Err(NoRoom);
        }
        self.note_emitted(cx, has_ack);
        Ok(())
    }

    #[inline]
    pub(crate) fn header(&self, sequence: SequenceNumber, flags: Flags, window: u16, options: Options) -> Segment {
        Segment {
            source_port: self.flow.local_port,
            destination_port: self.flow.remote_port,
            sequence,
            acknowledgement: if flags.has(Flags::ACK) { self.rcv.nxt() } else { SequenceNumber(0) },
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
            self.ack.sent(self.rcv.nxt());
            self.rcv.reported();
            self.deadlines.cancel(Timer::DelayedAck);
        }
    }
}
