//! Data that was never sent: segment sizes, the limits that hold it back, and the timers for waits that no ACK ends.

use crate::tcp::config::us;
use crate::tcp::congestion::CongestionControl;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::send::{Hold, Limits};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::NoRoom;

impl Connection {
    /// Sends new segments. False if the sink was full.
    #[inline]
    pub(crate) fn send_new(&mut self, cx: &mut Context<'_>) -> bool {
        self.restart_after_idle(cx);
        let sent_before = self.snd.nxt();
        let hold = loop {
            if self.recovery.board.len() >= cx.config.in_flight_segments_max as usize {
                break Hold::Congestion;
            }
            let limits = self.limits(cx.now);
            match self.snd.next_segment(&limits) {
                Err(hold) => break hold,
                Ok((bytes, finish)) => {
                    if self.send_segment(cx, bytes, finish, limits.payload_bytes).is_err() {
                        return false;
                    }
                }
            }
        };
        if self.snd.nxt() != sent_before {
            self.arm_tail_probe(cx);
        }
        self.wait_for(cx, hold);
        true
    }

    #[inline]
    fn limits(&self, now: Instant) -> Limits {
        Limits {
            payload_bytes: self.data_payload_bytes(),
            room_bytes: self.congestion_room(now),
            nodelay: self.options.nodelay,
            cork: self.snd.is_corked(self.options.cork),
        }
    }

    /// The largest payload beside the options that go with it now (RFC 6691).
    #[inline]
    pub(crate) fn data_payload_bytes(&self) -> u32 {
        match self.rcv.assembler().has_report() {
            true => self.mss.effective() - self.segment_options(Instant::default()).bytes() as u32,
            false => self.payload_bytes(),
        }
    }

    /// A new segment of `bytes`, with or without FIN.
    #[inline]
    pub(crate) fn send_segment(
        &mut self,
        cx: &mut Context<'_>,
        bytes: u32,
        finish: bool,
        payload_max: u32,
    ) -> Result<(), NoRoom> {
        let start = self.snd.nxt();
        let saved = self.snd.finish();
        if finish {
            self.snd.set_finish(Some(start + bytes));
        }
        let end = start + bytes + u32::from(finish);
        if self.emit_range(cx, start, end).is_err() {
            self.snd.set_finish(saved);
            return Err(NoRoom);
        }
        self.note_sent(cx, bytes, finish, payload_max);
        Ok(())
    }

    /// A new segment has left: `bytes` from SND.NXT on, and a FIN.
    #[inline]
    pub(crate) fn note_sent(&mut self, cx: &Context<'_>, bytes: u32, finish: bool, payload_max: u32) {
        if self.recovery.board.is_empty() {
            self.liveness.wait_from(cx.now);
            self.end_wait_for_sink();
        }
        let start = self.snd.nxt();
        self.snd.sent(bytes, finish, payload_max);
        self.recovery.board.push(start, self.snd.nxt(), cx.now);
        self.note_departure(self.recovery.board.len() - 1, cx.now);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Config;
    use crate::tcp::counters::Counters;
    use crate::tcp::demux::ids::ConnectionId;
    use crate::tcp::tcb::connection::NewConnection;
    use crate::tcp::time::SECOND_NS;
    use crate::tcp::transmit::output::Outgoing;
    use crate::tcp::{Flow, congestion};
    use sidestep_wire::tcp::SequenceNumber;

    /// A connection in congestion avoidance.
    fn after_loss(config: &Config) -> Connection {
        let flow = Flow::new("192.0.2.1:80".parse().unwrap(), "192.0.2.2:9".parse().unwrap()).unwrap();
        let (options, iss) = (config.options(), SequenceNumber(7));
        let new = NewConnection { flow, options, iss, clock_offset: 0, path_mtu: 1500, listener: None };
        let id = ConnectionId { index: 0, generation: 0 };
        let mut connection = Connection::new(id, new, config, Instant::default());
        connection.congestion.on_loss(Instant::default(), 100_000);
        let (rtt_ns, is_limited) = (SECOND_NS, true);
        let progress = congestion::Progress::unmeasured(Instant::default(), 1000, rtt_ns, is_limited);
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
