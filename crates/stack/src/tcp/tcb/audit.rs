//! Invariants of a connection between two calls. Only for tests: feature `audit`.

use crate::tcp::ack::generation::Need;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::state::State;
use crate::tcp::timers::deadlines::Timer;

/// Fails with the rule that is broken, as it stands in the code.
macro_rules! rule {
    ($holds:expr, $($values:tt)*) => {
        if !$holds {
            return Err(format!("{}: {}", stringify!($holds), format!($($values)*)));
        }
    };
}
pub(crate) use rule;

impl Connection {
    /// The first rule that does not hold.
    pub(crate) fn audit(&self) -> Result<(), String> {
        if self.state == State::Closed {
            rule!(self.deadlines.earliest() == crate::tcp::Instant::NEVER, "{self:?} has timers");
            return Ok(());
        }
        self.audit_numbers()?;
        self.audit_board()?;
        self.audit_receiver()?;
        self.audit_timers()
    }

    /// RFC 9293 section 3.3.1: SND.UNA =< SND.NXT, and what is kept lies between them and behind.
    fn audit_numbers(&self) -> Result<(), String> {
        let send = &self.snd;
        rule!(send.una().is_at_or_before(send.nxt()), "{} {}", send.una(), send.nxt());
        rule!(send.iss().is_at_or_before(send.una()), "{} {}", send.iss(), send.una());
        rule!(send.wnd() <= send.wnd_max(), "{} {}", send.wnd(), send.wnd_max());
        if self.state == State::TimeWait {
            return Ok(());
        }
        let data_end = send.data_start() + send.buffer().len() as u32;
        match send.finish() {
            Some(finish) => {
                rule!(send.nxt() == finish + 1, "{} {finish}", send.nxt());
                rule!(send.is_fin_queued(), "a FIN that nobody wanted");
                rule!(send.is_fin_acknowledged() || data_end == finish, "{data_end} {finish}");
            }
            None if send.nxt() != send.iss() => {
                rule!(send.nxt().is_at_or_before(data_end), "{} {data_end}", send.nxt());
            }
            None => {}
        }
        let is_closing =
            matches!(self.state, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait);
        rule!(!is_closing || send.is_fin_queued(), "{:?} without a wish to finish", self.state);
        rule!(self.state != State::FinWait2 || send.is_fin_acknowledged(), "{:?}", send.finish());
        Ok(())
    }

    /// The scoreboard covers what is in flight, in order, without gaps; its sums are right.
    fn audit_board(&self) -> Result<(), String> {
        let (send, board) = (&self.snd, &self.recovery.board);
        if self.state == State::TimeWait {
            return Ok(());
        }
        let (mut next, mut bytes, mut sacked, mut lost, mut resent) = (send.una(), 0, 0, 0, 0);
        for index in 0..board.len() {
            let Some(record) = board.at(index) else { return Err("a record is missing".into()) };
            rule!(record.start == next, "record {index} begins at {} not {next}", record.start);
            rule!(record.start.is_before(record.end), "record {index} is empty");
            rule!(!(record.sacked && record.lost), "record {index} is sacked and lost");
            (sacked, lost) = (sacked + u32::from(record.sacked), lost + u32::from(record.lost));
            if !record.sacked && !record.lost {
                bytes += record.bytes();
                resent += u32::from(record.resent);
            }
            next = record.end;
        }
        rule!(
            next == send.nxt(),
            "{} in flight, {} on the board",
            send.nxt().since(send.una()),
            next.since(send.una())
        );
        let sums = (board.in_flight_bytes(), board.sacked(), board.lost(), board.resent_in_flight());
        rule!(sums == (bytes, sacked, lost, resent), "{sums:?} {bytes} {sacked} {lost} {resent}");
        rule!(self.negotiated.sack() || sacked == 0, "sacked without agreement");
        Ok(())
    }

    /// Data that waits lies within the window and the buffer's limit.
    fn audit_receiver(&self) -> Result<(), String> {
        if !self.state.is_synchronized() {
            return Ok(());
        }
        let receive = &self.rcv;
        let (window, waiting) = (receive.window(), receive.buffer().len());
        rule!(window < 1 << 30, "the window has wrapped: {window}");
        rule!(receive.segment_bytes() <= 65_535, "{}", receive.segment_bytes());
        let limit = receive.limit_bytes() as usize;
        rule!(waiting + window as usize <= limit, "{waiting} wait, the window is {window}, the limit {limit}");
        receive.assembler().audit(receive.nxt(), receive.nxt() + window)?;
        rule!(!receive.is_finished() || !self.state.can_receive(), "finished, but {:?}", self.state);
        Ok(())
    }

    /// A timer is armed for all that waits for the peer or for time, and for nothing else.
    fn audit_timers(&self) -> Result<(), String> {
        let armed = |timer| self.deadlines.is_armed(timer);
        let has_flight = !self.recovery.board.is_empty() && self.state != State::TimeWait;
        rule!(!has_flight || armed(Timer::Retransmit) || self.marks.is_due(), "{self:?}: in flight without a timer");
        let has_cause = has_flight || self.waits_for_sink();
        rule!(has_cause || !armed(Timer::Retransmit), "{self:?}: a retransmission timer for nothing");
        rule!(has_flight || !armed(Timer::TailProbe), "{self:?}: a tail probe for nothing");
        rule!(has_flight || !armed(Timer::Reorder), "{self:?}: a reordering timer for nothing");
        rule!(self.state != State::TimeWait || armed(Timer::Close), "{self:?}: TIME-WAIT for ever");
        rule!(self.state != State::FinWait2 || !self.owner.is_orphan() || armed(Timer::Close), "{self:?}: for ever");
        let may_wait = self.ack.need() != Need::Delayed || armed(Timer::DelayedAck) || self.marks.is_due();
        rule!(may_wait, "{self:?}: a delayed ACK without a timer");
        rule!(
            self.ack.need() < Need::Poll || self.marks.is_due() || self.state == State::SynSent,
            "{self:?}: ACK owed"
        );
        let has_something = self.snd.is_syn_acknowledged() && self.snd.has_unsent() && self.state != State::TimeWait;
        let waits = armed(Timer::Retransmit) || armed(Timer::Persist) || armed(Timer::Cork);
        rule!(!has_something || waits, "{self:?}: unsent data waits for nothing");
        rule!(
            !has_flight || self.recovery.phase == Phase::Open || self.recovery.point.is_after(self.snd.una()),
            "{self:?}: recovery without end"
        );
        Ok(())
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (send, receive) = (&self.snd, &self.rcv);
        write!(f, "{} {:?} una +{}", self.flow, self.state, send.una().since(send.iss()))?;
        write!(f, " nxt +{} wnd {} unsent {}", send.nxt().since(send.iss()), send.wnd(), send.unsent())?;
        write!(f, " phase {:?} board {}", self.recovery.phase, self.recovery.board.len())?;
        write!(f, " rcv +{} window {}", receive.nxt().since(receive.irs()), receive.window())
    }
}
