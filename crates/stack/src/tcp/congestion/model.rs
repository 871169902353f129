//! The events of a connection that a model of the path has to see: segments that leave, arrive, are lost.

use super::CongestionControl;
use super::bbr::{Ack, Departure};
use crate::tcp::ack::delivery::Delivery;
use crate::tcp::loss_recovery::Phase;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::time::Instant;

impl Connection {
    /// The segment at `index` of the scoreboard has left, for the first time or again.
    #[inline]
    pub(crate) fn note_departure(&mut self, index: usize, now: Instant) {
        if !self.congestion.has_model() {
            return;
        }
        let Some(segment) = self.recovery.board.at(index) else { return };
        let in_flight = self.recovery.pipe(self.payload_bytes());
        let is_last = !self.has_full_segment_to_send();
        let departure = Departure { now, bytes: segment.bytes(), in_flight, is_last };
        if let Some(model) = self.congestion.model() {
            let stamp = model.on_sent(&departure);
            self.recovery.board.set_stamp(index, stamp);
        }
    }

    /// NoUnsentData() and the like of draft-ietf-ccwg-bbr-04 section 4.1.2.4; less than a segment counts as nothing, as on Linux.
    fn has_full_segment_to_send(&self) -> bool {
        self.recovery.board.lost() > 0 || self.snd.unsent() >= self.payload_bytes()
    }

    /// Takes what an ACK reports as delivered; losses are looked for after it.
    #[inline]
    pub(crate) fn note_delivery(&mut self, now: Instant, delivery: &Delivery) {
        if let Some(model) = self.congestion.model() {
            model.on_delivered(now, delivery.delivered);
        }
    }

    /// Lets the model take an ACK. Returns false if the congestion control has none.
    #[inline]
    pub(crate) fn update_model(&mut self, now: Instant, delivery: &Delivery, lost: u32) -> bool {
        if !self.congestion.has_model() {
            return false;
        }
        if delivery.delivered == 0 {
            return true;
        }
        let window = self.congestion.window_bytes();
        let used = self.usage.update(self.snd.una(), self.snd.nxt(), delivery.in_flight_before);
        let ack = Ack {
            now,
            newly_acked: delivery.delivered,
            newest: delivery.newest.as_ref(),
            in_flight: (delivery.in_flight_before, self.recovery.pipe(self.payload_bytes())),
            srtt_ns: self.rtt.srtt_ns().unwrap_or(0),
            is_cwnd_limited: used.saturating_add(self.payload_bytes()) > window,
            has_unsent: self.has_full_segment_to_send(),
            has_losses: lost > 0,
            is_recovering: self.recovery.phase != Phase::Open,
        };
        if let Some(model) = self.congestion.model() {
            model.on_ack(&ack);
        }
        true
    }
}
