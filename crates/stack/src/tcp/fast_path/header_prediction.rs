//! The short road of a segment that is just what was expected (header prediction: Van Jacobson 1990, RFC 7323 section 5.6).
//!
//! It takes what nearly every segment of a healthy connection is: the next bytes in order, an ACK of what is in flight, or
//! both, with nothing beside them. It does what the long road (`segment_arrives/`) would do, by the same functions, and leaves out only
//! questions whose answer is known; a segment that it does not take has changed nothing yet. The simulator runs schedules on
//! both roads and compares what is sent.

use crate::tcp::ack::processing::Delivery;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::segment_arrives::synchronized::Deliver;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::tcp::{Flags, SequenceNumber, Timestamps, View};

/// A segment with no flags but ACK and PSH, and no options but timestamps in the layout of RFC 7323 appendix A.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    seq: SequenceNumber,
    ack: SequenceNumber,
    window: u16,
    clock: Option<Timestamps>,
    payload: &'a [u8],
}

impl<'a> Expected<'a> {
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
    /// Whether nothing is under way but data, and nothing is owed but ordinary ACKs. Held in `is_plain` from the end of one
    /// step to the next, so that a segment asks one question in place of a dozen.
    pub(crate) fn is_plain_now(&self) -> bool {
        let (recovery, board) = (&self.recovery, &self.recovery.board);
        self.state == State::Established
            && self.attached
            && !self.send.finish_queued
            && self.receive.is_plain()
            && recovery.phase == Phase::Open
            && recovery.tail.is_none()
            && recovery.timeouts == 0
            && recovery.duplicate_acks == 0
            && board.is_plain()
    }

    /// Whether the short road may be gone.
    #[inline]
    fn expects(&self, segment: &Expected<'_>) -> bool {
        let is_timely = match (&self.timestamps, &segment.clock) {
            (Some(ours), Some(theirs)) => ours.is_ahead(theirs.value),
            (None, None) => true,
            _ => false,
        };
        let advanced = segment.ack.since(self.send.una);
        let length = segment.payload.len() as u32;
        self.is_plain
            && is_timely
            && segment.seq == self.receive.nxt
            && length <= self.receive.window()
            && advanced <= self.send.nxt.since(self.send.una)
            && (advanced > 0 || length > 0)
            // A window that closes or opens is the long road's.
            && segment.window > 0
            && self.send.wnd > 0
    }

    /// Takes the segment; false if it has to go the long road, and nothing has happened.
    #[inline]
    pub(crate) fn arrive_expected(
        &mut self,
        cx: &mut Context<'_>,
        segment: &Expected<'_>,
        deliver: Deliver<'_>,
    ) -> bool {
        if !self.expects(segment) {
            return false;
        }
        debug_assert!(self.is_plain_now(), "{} is not plain", self.flow);
        self.figures.segments_in += 1;
        self.note_life(cx, segment.seq, segment.clock);
        self.take_expected_ack(cx, segment);
        if !segment.payload.is_empty() {
            self.figures.bytes_in += segment.payload.len() as u64;
            self.take_in_order(cx, segment.payload, deliver);
        }
        true
    }

    #[inline]
    fn take_expected_ack(&mut self, cx: &mut Context<'_>, segment: &Expected<'_>) {
        let window = u32::from(segment.window) << self.send.shift;
        self.send.update_window(segment.seq, segment.ack, window);
        if self.recovery.board.is_empty() {
            self.recovery.persist_backoff = 0;
            return;
        }
        let mut delivery = Delivery::new(self, segment.ack);
        self.take_acknowledged(cx, &mut delivery);
        self.take_progress(cx, &delivery);
    }
}
