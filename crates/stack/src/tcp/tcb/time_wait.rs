//! TIME-WAIT: late segments are waited out, a new connection may begin (RFC 9293 section 3.10.7.4, RFC 6191, RFC 1337).

use crate::tcp::ack::challenge::ChallengeLimit;
use crate::tcp::config::Config;
use crate::tcp::flow::Flow;
use crate::tcp::segment_arrives::acceptability::is_acceptable;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::timestamps::TimestampClock;
use crate::tcp::time::{Instant, SECOND_NS};
use crate::tcp::tuple::Tuple;
use sidestep_wire::tcp::{Flags, Options, Segment, SequenceNumber};

/// A new connection of a flow begins so far behind the old one's last number that nothing of that can be in its window
/// (RFC 9293 section 3.10.7.4: "provided the initial sequence number is larger"; unscaled windows are below this).
const NUMBERS_APART: u32 = 65_535 + 2;

/// The few numbers that TIME-WAIT needs of a connection.
#[derive(Clone)]
pub(crate) struct TimeWait {
    pub(crate) flow: Flow,
    snd_nxt: SequenceNumber,
    rcv_nxt: SequenceNumber,
    window: u32,
    shift: u8,
    timestamps: Option<TimestampClock>,
    pub(crate) challenge: ChallengeLimit,
}

/// The response to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Drop,
    /// Answer with an ACK; `restart`: wait anew.
    Acknowledge {
        restart: bool,
    },
    /// A new connection begins, with an ISS not before this.
    Reopen {
        iss_min: SequenceNumber,
    },
}

impl TimeWait {
    pub(crate) fn of(connection: &Connection) -> Self {
        Self {
            flow: connection.flow,
            snd_nxt: connection.snd.nxt(),
            rcv_nxt: connection.rcv.nxt(),
            window: connection.rcv.window(),
            shift: connection.rcv.shift(),
            timestamps: connection.negotiated.timestamps().copied(),
            challenge: connection.ack.challenge_limit().clone(),
        }
    }

    pub(crate) fn on_segment(&mut self, seg: &Seg<'_>, now: Instant, config: &Config) -> Response {
        if seg.has(Flags::RST) {
            // RFC 1337 section 3, fix F1: a RST does not end TIME-WAIT, it may be as old as what is waited out.
            return Response::Drop;
        }
        if seg.has(Flags::SYN) && !seg.has(Flags::ACK) && self.may_begin_anew(seg, now) {
            return Response::Reopen { iss_min: self.iss_min() };
        }
        let edge = self.rcv_nxt + self.window.max(1);
        let is_fin_retransmitted = seg.has(Flags::FIN) && seg.end() == self.rcv_nxt && !self.is_old(seg, now);
        if is_fin_retransmitted {
            // RFC 9293: "Acknowledge it, and restart the 2 MSL timeout."
            return self.limited(now, config, true);
        }
        let is_news = seg.len() > 0 || !is_acceptable(seg.seq, seg.end(), self.rcv_nxt, edge);
        if is_news { self.limited(now, config, false) } else { Response::Drop }
    }

    /// The least number that a new connection may begin with.
    pub(crate) fn iss_min(&self) -> SequenceNumber {
        self.snd_nxt + NUMBERS_APART
    }

    /// Returns whether a connection from this side may follow. Both clocks have moved on a second after the peer's last segment
    /// (RFC 7323 section 5.4: a tick is at most that), so nothing of the old connection is taken for the new one's at either
    /// end (PAWS); the peer, whose FIN was acknowledged, has forgotten it (RFC 6191 section 1, and as Linux does).
    pub(crate) fn tuple(&self, now: Instant) -> Tuple {
        match &self.timestamps {
            Some(timestamps) if timestamps.silence_ns(now) > SECOND_NS => Tuple::Replaceable,
            Some(_) => Tuple::Waiting,
            None => Tuple::Used,
        }
    }

    fn is_old(&self, seg: &Seg<'_>, now: Instant) -> bool {
        match (&self.timestamps, seg.options.timestamps) {
            (Some(timestamps), Some(theirs)) => timestamps.is_old(theirs.value, now),
            _ => false,
        }
    }

    /// RFC 6191 section 2: a later clock, or, without clocks, a later number.
    fn may_begin_anew(&self, syn: &Seg<'_>, now: Instant) -> bool {
        let is_later_number = syn.seq.is_after(self.rcv_nxt);
        match (&self.timestamps, syn.options.timestamps) {
            (Some(timestamps), Some(theirs)) if theirs.value == timestamps.recent => is_later_number,
            (Some(timestamps), Some(theirs)) => !timestamps.is_old(theirs.value, now),
            _ => is_later_number,
        }
    }

    fn limited(&mut self, now: Instant, config: &Config, restart: bool) -> Response {
        if self.challenge.allows(now, config.challenge_acks_per_second) {
            Response::Acknowledge { restart }
        } else {
            Response::Drop
        }
    }

    /// The ACK to answer with.
    pub(crate) fn acknowledgement(&self, now: Instant) -> Segment {
        Segment {
            source_port: self.flow.local_port,
            destination_port: self.flow.remote_port,
            sequence: self.snd_nxt,
            acknowledgement: self.rcv_nxt,
            flags: Flags::ACK,
            window: (self.window >> self.shift).min(u32::from(u16::MAX)) as u16,
            urgent_pointer: 0,
            options: Options { timestamps: self.timestamps.map(|timestamps| timestamps.option(now)), ..Options::NONE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_wire::tcp;

    fn waiting(recent: Option<u32>) -> TimeWait {
        let timestamps = recent.map(|recent| {
            let mut timestamps = TimestampClock::new(0);
            timestamps.begin(recent, Instant::default());
            timestamps
        });
        let flow = Flow::new(([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()).unwrap();
        let (snd_nxt, rcv_nxt) = (SequenceNumber(500), SequenceNumber(1000));
        TimeWait { flow, snd_nxt, rcv_nxt, window: 100, shift: 0, timestamps, challenge: ChallengeLimit::default() }
    }

    fn on_segment(waiting: &mut TimeWait, seq: u32, flags: Flags, clock: Option<u32>) -> Response {
        let timestamps = clock.map(|value| tcp::Timestamps { value, echo: 0 });
        let options = Options { timestamps, ..Options::NONE };
        let (seq, ack) = (SequenceNumber(seq), SequenceNumber(500));
        let seg = Seg { seq, ack, flags, window: 0, options, payload: &[] };
        waiting.on_segment(&seg, Instant::default(), &Config::default())
    }

    const REOPEN: Response = Response::Reopen { iss_min: SequenceNumber(500 + NUMBERS_APART) };
    const CHALLENGE: Response = Response::Acknowledge { restart: false };

    /// RFC 1337 section 3
    #[test]
    fn a_reset_does_not_end_it() {
        assert_eq!(on_segment(&mut waiting(None), 1000, Flags::RST, None), Response::Drop);
    }

    /// RFC 6191 section 2
    #[test]
    fn a_later_syn_begins_anew() {
        assert_eq!(on_segment(&mut waiting(Some(50)), 7, Flags::SYN, Some(51)), REOPEN);
        assert_eq!(on_segment(&mut waiting(Some(50)), 7, Flags::SYN, Some(49)), CHALLENGE);
        assert_eq!(on_segment(&mut waiting(Some(50)), 7, Flags::SYN, Some(50)), CHALLENGE);
        assert_eq!(on_segment(&mut waiting(Some(50)), 1001, Flags::SYN, Some(50)), REOPEN);
        assert_eq!(on_segment(&mut waiting(None), 1001, Flags::SYN, None), REOPEN);
        assert_eq!(on_segment(&mut waiting(None), 1000, Flags::SYN, None), CHALLENGE);
        assert_eq!(on_segment(&mut waiting(None), 5000, Flags::SYN | Flags::ACK, None), CHALLENGE);
    }

    /// RFC 9293 section 3.10.7.4, eighth check
    #[test]
    fn a_finish_that_comes_again_restarts_the_wait() {
        let mut waiting = waiting(None);
        let finish = Flags::FIN | Flags::ACK;
        assert_eq!(on_segment(&mut waiting, 999, finish, None), Response::Acknowledge { restart: true });
        assert_eq!(on_segment(&mut waiting, 1000, Flags::ACK, None), Response::Drop, "an ACK is not answered");
        assert_eq!(on_segment(&mut waiting, 900, Flags::ACK, None), CHALLENGE, "an old one is");
        (0..20).for_each(|_| _ = on_segment(&mut waiting, 999, finish, None));
        assert_eq!(on_segment(&mut waiting, 999, finish, None), Response::Drop, "so many per second");
    }
}
