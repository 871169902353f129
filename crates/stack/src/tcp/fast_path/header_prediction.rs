//! Header prediction (Van Jacobson 1990, RFC 7323 section 5.6): the fast path of a segment that was expected.
//!
//! It takes most segments of a healthy connection: the next bytes in order, an ACK of data in flight, or both. It has the same
//! effect as the slow path (`segment_arrives/`), by the same functions, and leaves out only checks whose result is known. A
//! segment that it refuses has changed nothing yet. The simulator runs schedules on both paths and compares what is sent.

use crate::tcp::ack::delivery::Delivery;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::segment_arrives::seg::Deliver;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::{Flags, SequenceNumber, Timestamps, View};

/// A segment with no flags but ACK and PSH, and no options but timestamps in the layout of RFC 7323 appendix A.
#[derive(Clone, Copy)]
pub(crate) struct Predicted<'a> {
    seq: SequenceNumber,
    ack: SequenceNumber,
    window: u16,
    clock: Option<Timestamps>,
    payload: &'a [u8],
}

impl<'a> Predicted<'a> {
    /// `None` if the segment is not of that form.
    #[inline]
    pub(crate) fn of(view: &View<'a>) -> Option<Self> {
        if view.flags().without(Flags::PSH) != Flags::ACK {
            return None;
        }
        let clock = view.usual_timestamps();
        if clock.is_none() && !view.has_no_options() {
            return None;
        }
        Some(Self {
            seq: view.sequence(),
            ack: view.acknowledgement(),
            window: view.window(),
            clock,
            payload: view.payload(),
        })
    }
}

impl Connection {
    /// Returns whether nothing but data is in flight, and nothing but ordinary ACKs is owed. Kept in `marks` from the end of one
    /// step to the next, so that a segment asks one question in place of a dozen.
    pub(crate) fn allows_fast_path(&self) -> bool {
        let (recovery, board) = (&self.recovery, &self.recovery.board);
        self.state == State::Established
            && self.owner.is_held()
            && !self.snd.is_fin_queued()
            && self.rcv.is_in_order()
            && recovery.phase == Phase::Open
            && recovery.tail.is_none()
            && self.liveness.timeouts() == 0
            && recovery.duplicate_acks == 0
            && board.is_plain()
    }

    /// Returns whether the fast path takes this segment.
    #[inline]
    fn is_predicted(&self, segment: &Predicted<'_>) -> bool {
        let is_timely = match (self.negotiated.timestamps(), &segment.clock) {
            (Some(ours), Some(theirs)) => ours.is_ahead(theirs.value),
            (None, None) => true,
            _ => false,
        };
        let advanced = segment.ack.since(self.snd.una());
        let length = segment.payload.len() as u32;
        self.marks.fast_path()
            && is_timely
            && segment.seq == self.rcv.nxt()
            && length <= self.rcv.window()
            && advanced <= self.snd.nxt().since(self.snd.una())
            && (advanced > 0 || length > 0)
            // The slow path takes care of a window that closes or opens.
            && segment.window > 0
            && self.snd.wnd() > 0
    }

    /// Takes the segment. Returns false, and has changed nothing, if the slow path has to take it.
    #[inline]
    pub(crate) fn process_predicted(
        &mut self,
        cx: &mut Context<'_>,
        segment: &Predicted<'_>,
        deliver: Deliver<'_>,
    ) -> bool {
        if !self.is_predicted(segment) {
            return false;
        }
        debug_assert!(self.allows_fast_path(), "{} is not plain", self.flow);
        self.statistics.segments_in += 1;
        self.note_peer_alive(cx, segment.seq, segment.clock);
        self.process_predicted_ack(cx, segment);
        if !segment.payload.is_empty() {
            self.statistics.bytes_in += segment.payload.len() as u64;
            self.take_in_order(cx, segment.payload, deliver);
        }
        true
    }

    #[inline]
    fn process_predicted_ack(&mut self, cx: &mut Context<'_>, segment: &Predicted<'_>) {
        let window = u32::from(segment.window) << self.snd.shift();
        self.snd.update_window(segment.seq, segment.ack, window);
        if self.recovery.board.is_empty() {
            self.liveness.reset_window_probes();
            return;
        }
        let mut delivery = Delivery::new(self, segment.ack);
        self.update_scoreboard_in_order(cx, &mut delivery);
        self.respond_to_ack(cx, &delivery);
    }
}
