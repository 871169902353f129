//! Generation of our ACKs (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).

use super::challenge::ChallengeLimit;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::SequenceNumber;

/// The urgency of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Nothing new to acknowledge.
    #[default]
    None,
    /// It may wait for data, or for the timer.
    Delayed,
    /// In the poll behind the burst (`burst_gap_us`), if no data has taken it along by then.
    Poll,
    /// Before anything else is done.
    Now,
}

/// The ACK that is owed to the peer.
#[derive(Debug, Default)]
pub(crate) struct AckGeneration {
    need: Need,
    /// Last.ACK.sent of RFC 7323.
    last_sent: SequenceNumber,
    challenge: ChallengeLimit,
}

impl AckGeneration {
    #[inline]
    pub(crate) fn need(&self) -> Need {
        self.need
    }

    /// The last number that was acknowledged (Last.ACK.sent of RFC 7323).
    #[inline]
    pub(crate) fn last_sent(&self) -> SequenceNumber {
        self.last_sent
    }

    /// The peer's SYN has come: the number behind it counts as acknowledged.
    pub(crate) fn begin(&mut self, nxt: SequenceNumber) {
        self.last_sent = nxt;
    }

    /// Nothing is owed any more.
    pub(crate) fn cancel(&mut self) {
        self.need = Need::None;
    }

    /// Returns whether a segment that could be forged may be answered (RFC 5961 section 7).
    pub(crate) fn allows_challenge(&mut self, now: Instant, per_second: u32) -> bool {
        self.challenge.allows(now, per_second)
    }

    pub(crate) fn challenge_limit(&self) -> &ChallengeLimit {
        &self.challenge
    }

    pub(crate) fn set_challenge_limit(&mut self, limit: ChallengeLimit) {
        self.challenge = limit;
    }

    /// Asks for an ACK, no later than `need`.
    #[inline]
    pub(crate) fn request(&mut self, need: Need) {
        self.need = self.need.max(need);
    }

    /// Data has come in order: the `most`th full segment is acknowledged at once, the second in the next poll, which with two
    /// is RFC 9293 SHLD-18 by the letter, and with more one ACK for all that a burst has brought, as Linux sends for segments
    /// that its card or GRO has put together. Others are acknowledged as `quickack` says.
    #[inline]
    pub(crate) fn data_in_order(&mut self, nxt: SequenceNumber, segment_bytes: u32, quickack: bool, most: u32) {
        let waiting = nxt.since(self.last_sent);
        self.request(match () {
            () if waiting >= segment_bytes.saturating_mul(most) => Need::Now,
            () if quickack || waiting >= 2 * segment_bytes => Need::Poll,
            () => Need::Delayed,
        });
    }

    /// A segment with this acknowledgement has left.
    #[inline]
    pub(crate) fn sent(&mut self, ack: SequenceNumber) {
        (self.need, self.last_sent) = (Need::None, ack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 section 3.8.6.3, SHLD-18
    #[test]
    fn every_second_full_segment_is_acknowledged() {
        let mut owed = AckGeneration::default();
        owed.data_in_order(SequenceNumber(1000), 1000, false, 2);
        assert_eq!(owed.need(), Need::Delayed);
        owed.data_in_order(SequenceNumber(1999), 1000, false, 2);
        assert_eq!(owed.need(), Need::Delayed, "two, but not full ones");
        owed.data_in_order(SequenceNumber(2000), 1000, false, 2);
        assert_eq!(owed.need(), Need::Now);
        owed.sent(SequenceNumber(2000));
        owed.data_in_order(SequenceNumber(2100), 1000, true, 2);
        assert_eq!(owed.need(), Need::Poll);
    }

    #[test]
    fn a_burst_is_acknowledged_once() {
        let mut owed = AckGeneration::default();
        for segments in 1..16 {
            owed.data_in_order(SequenceNumber(segments * 1000), 1000, false, 16);
            assert_eq!(owed.need(), if segments == 1 { Need::Delayed } else { Need::Poll }, "{segments}");
        }
        owed.data_in_order(SequenceNumber(16_000), 1000, false, 16);
        assert_eq!(owed.need(), Need::Now, "but not for ever");
    }
}
