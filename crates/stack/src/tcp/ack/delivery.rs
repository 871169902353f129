//! The delivery of one ACK: what it says has arrived.

use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{SackBlock, SequenceNumber};

/// The segments that one ACK reports as delivered, in sum.
pub(crate) struct Delivery {
    pub(crate) ack: SequenceNumber,
    /// Bytes acknowledged in order.
    pub(crate) newly_acked: u32,
    /// Bytes that arrived according to this ACK, in order or sacked.
    pub(crate) delivered: u32,
    /// The time at which the oldest segment was sent that was sent once: the start of an RTT sample.
    pub(crate) rtt_from: Option<Instant>,
    pub(crate) has_retransmitted: bool,
    /// The last sent of the segments that arrived.
    pub(crate) newest: Option<Sent>,
    pub(crate) in_flight_before: u32,
    /// What it reports as a duplicate (D-SACK, RFC 2883).
    pub(crate) duplicate: Option<SackBlock>,
    /// It is a duplicate ACK as RFC 5681 section 2 defines it.
    pub(crate) is_duplicate: bool,
    /// It is one of a peer that does not sack, and says that one more segment has left the network.
    pub(crate) tells_departure: bool,
}

impl Delivery {
    /// The delivery before anything of the ACK was taken.
    #[inline]
    pub(crate) fn new(connection: &Connection, ack: SequenceNumber) -> Self {
        Self {
            ack,
            newly_acked: ack.since(connection.snd.una()),
            delivered: 0,
            rtt_from: None,
            newest: None,
            has_retransmitted: false,
            in_flight_before: connection.recovery.pipe(connection.payload_bytes()),
            duplicate: None,
            is_duplicate: false,
            tells_departure: false,
        }
    }

    /// The round trip that it measures, in ns (Karn's algorithm, RFC 6298 section 3).
    #[inline]
    pub(crate) fn rtt_sample_ns(&self, now: Instant) -> Option<u64> {
        self.rtt_from.filter(|_| !self.has_retransmitted).map(|since| now.since_ns(since))
    }

    #[inline]
    pub(crate) fn add(&mut self, segment: &Sent) {
        self.delivered += segment.bytes();
        let key = |sent: &Sent| (sent.sent_at, sent.end.since(segment.start).cast_signed());
        if self.newest.as_ref().is_none_or(|newest| key(newest) < key(segment)) {
            self.newest = Some(*segment);
        }
        if segment.resent {
            self.has_retransmitted = true;
        } else if self.rtt_from.is_none_or(|since| segment.sent_at < since) {
            self.rtt_from = Some(segment.sent_at);
        }
    }
}
