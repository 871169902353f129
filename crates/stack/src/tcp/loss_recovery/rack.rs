//! Losses by time: what was sent long enough before something that has arrived is lost (RACK, RFC 8985 section 6).

use crate::tcp::loss_recovery::scoreboard::{Scoreboard, Sent};
use crate::tcp::time::Instant;
use crate::tcp::timers::rto::Rtt;
use sidestep_wire::tcp::SequenceNumber;

/// Sacked segments after which a hole is a loss, as long as no reordering was seen (RFC 8985 section 5.1).
const DUPLICATES: u32 = 3;
/// Recoveries for which a widened window stays (RFC 8985 section 6.2 step 4).
const PERSISTENCE: u32 = 16;
/// The window is at most this many quarters of the least round trip; it is cut to the smoothed one anyway.
const MULTIPLIER_MAX: u32 = 255;

/// Rack.* of RFC 8985.
#[derive(Debug, Default)]
pub(crate) struct Rack {
    /// The latest sent of all delivered segments.
    newest: Option<(Instant, SequenceNumber)>,
    rtt_ns: u64,
    /// The highest number delivered up to the last ACK, and with this one: the blocks of one ACK come in any order, and that
    /// is no reordering.
    forward: Option<SequenceNumber>,
    forward_now: Option<SequenceNumber>,
    reordering_seen: bool,
    multiplier: u32,
    persistence: u32,
    duplicate_round: Option<SequenceNumber>,
}

impl Rack {
    /// A segment was delivered (RFC 8985 section 6.2 steps 1 to 3).
    #[inline]
    pub(crate) fn delivered(&mut self, segment: &Sent, now: Instant, rtt: &Rtt) {
        self.look_for_reordering(segment);
        let rtt_ns = now.since_ns(segment.sent_at);
        // Step 2: the answer to an earlier transmission would be taken for an answer to the last one.
        if segment.resent && rtt_ns < rtt.minimum_ns() {
            return;
        }
        if self.newest.is_none_or(|newest| is_sent_after((segment.sent_at, segment.end), newest)) {
            self.newest = Some((segment.sent_at, segment.end));
            self.rtt_ns = rtt_ns;
        }
    }

    /// Segments that were sent once were delivered in the order in which they were sent; `newest` is the last of them.
    #[inline]
    pub(crate) fn delivered_in_order(&mut self, newest: &Sent, now: Instant) {
        // Step 3 has nothing to find: a number beyond these can only have been sacked, and what was sacked and is in flight again
        // after all (RFC 2018 section 8) was sent twice.
        debug_assert!(self.forward.is_none_or(|forward| newest.end.is_at_or_after(forward)), "{newest:?} {self:?}");
        let forward = self.forward_now.map_or(newest.end, |forward| forward.later(newest.end));
        (self.forward_now, self.forward) = (Some(forward), Some(forward));
        if self.newest.is_none_or(|before| is_sent_after((newest.sent_at, newest.end), before)) {
            (self.newest, self.rtt_ns) = (Some((newest.sent_at, newest.end)), now.since_ns(newest.sent_at));
        }
    }

    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.rtt_ns
    }

    /// Step 3
    fn look_for_reordering(&mut self, segment: &Sent) {
        if self.forward.is_some_and(|forward| segment.end.is_before(forward)) {
            self.reordering_seen |= !segment.resent;
        }
        self.forward_now = Some(self.forward_now.map_or(segment.end, |forward| forward.later(segment.end)));
    }

    /// Segments of another order were believed to be lost.
    pub(super) fn note_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Ends the processing of one ACK.
    #[inline]
    pub(crate) fn end_of_ack(&mut self) {
        self.forward = self.forward_now;
    }

    /// A duplicate was reported: the window was too narrow (step 4). `una` and `nxt` are the sender's.
    pub(crate) fn note_duplicate(&mut self, una: SequenceNumber, nxt: SequenceNumber) {
        if self.duplicate_round.is_some_and(|round| una.is_at_or_after(round)) {
            self.duplicate_round = None;
        }
        if self.duplicate_round.is_none() {
            self.duplicate_round = Some(nxt);
            self.multiplier = (self.multiplier + 1).min(MULTIPLIER_MAX);
            self.persistence = PERSISTENCE;
        }
    }

    /// A recovery is over (step 4).
    pub(crate) fn end_recovery(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.multiplier = 0;
        }
    }

    /// The reordering window, in ns (step 4).
    fn window_ns(&self, board: &Scoreboard, rtt: &Rtt, recovering: bool) -> u64 {
        if !self.reordering_seen && (recovering || board.sacked() >= DUPLICATES) {
            return 0;
        }
        let quarters = u64::from(self.multiplier) + 1;
        (rtt.minimum_ns() * quarters / 4).min(rtt.srtt_ns().unwrap_or(0))
    }

    /// Marks what is lost (step 5), and tells `found_lost` each segment of it. Gives how many segments are, and when to look again for those that only may be.
    pub(crate) fn detect(
        &self,
        board: &mut Scoreboard,
        now: Instant,
        rtt: &Rtt,
        recovering: bool,
        mut found_lost: impl FnMut(&Sent),
    ) -> (u32, Option<Instant>) {
        let Some(newest) = self.newest else { return (0, None) };
        let (before, mut again) = (board.lost(), None::<Instant>);
        let allowed_ns = self.rtt_ns + self.window_ns(board, rtt, recovering);
        for index in 0..board.len() {
            let Some(segment) = board.at(index) else { break };
            if !is_sent_after(newest, (segment.sent_at, segment.end)) {
                if board.resent_in_flight() == 0 {
                    // What follows was sent later still.
                    break;
                }
                continue;
            }
            if segment.sacked || segment.lost {
                continue;
            }
            let deadline = segment.sent_at.after_ns(allowed_ns);
            if deadline <= now {
                board.mark_lost(index);
                found_lost(&segment);
            } else {
                again = Some(again.map_or(deadline, |found| found.max(deadline)));
            }
        }
        (board.lost() - before, again)
    }
}

/// RFC 8985 section 6.2: by time, then by number.
#[inline]
fn is_sent_after(one: (Instant, SequenceNumber), other: (Instant, SequenceNumber)) -> bool {
    one.0 > other.0 || one.0 == other.0 && one.1.is_after(other.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_wire::tcp::SackBlock;

    const RTT: u64 = 100;

    fn at(number: u32) -> SequenceNumber {
        SequenceNumber(number)
    }

    fn ns(time: u64) -> Instant {
        Instant::from_nanos(time)
    }

    /// Five segments of ten bytes, one each nanosecond; round trips of 100 ns.
    fn sent() -> (Rack, Scoreboard, Rtt) {
        let (mut board, mut rtt) = (Scoreboard::default(), Rtt::default());
        rtt.sample(ns(0), RTT);
        for number in 0..5 {
            board.push(at(number * 10), at(number * 10 + 10), ns(u64::from(number)));
        }
        (Rack::default(), board, rtt)
    }

    fn sack(rack: &mut Rack, board: &mut Scoreboard, rtt: &Rtt, numbers: (u32, u32), now: Instant) {
        let block = SackBlock { start: at(numbers.0), end: at(numbers.1) };
        board.sack(block, |segment| rack.delivered(segment, now, rtt));
        rack.end_of_ack();
    }

    /// RFC 8985 section 6.2 step 4: three sacked segments are enough as long as no reordering was seen.
    #[test]
    fn three_duplicates_lose_a_hole_at_once() {
        let (mut rack, mut board, rtt) = sent();
        sack(&mut rack, &mut board, &rtt, (10, 40), ns(103));
        assert_eq!(rack.detect(&mut board, ns(103), &rtt, false, |_| ()), (1, None));
        assert_eq!(board.next_lost(), Some(0));
    }

    /// Step 5: otherwise a quarter of the round trip is waited.
    #[test]
    fn fewer_wait_for_the_window() {
        let (mut rack, mut board, rtt) = sent();
        sack(&mut rack, &mut board, &rtt, (10, 20), ns(101));
        let (lost, again) = rack.detect(&mut board, ns(101), &rtt, false, |_| ());
        assert_eq!((lost, again), (0, Some(ns(RTT + RTT / 4))));
        assert_eq!(rack.detect(&mut board, ns(RTT + RTT / 4), &rtt, false, |_| ()).0, 1);
        assert_eq!(board.lost(), 1, "what was sent later than all that has arrived may still come");
    }

    /// Step 3 and 4: once reordering was seen, duplicates prove nothing; reported duplicates widen the window.
    #[test]
    fn reordering_and_duplicates_make_patient() {
        let (mut rack, mut board, rtt) = sent();
        sack(&mut rack, &mut board, &rtt, (30, 40), ns(103));
        sack(&mut rack, &mut board, &rtt, (10, 20), ns(104));
        assert!(rack.reordering_seen);
        sack(&mut rack, &mut board, &rtt, (20, 30), ns(104));
        assert_eq!(rack.detect(&mut board, ns(104), &rtt, false, |_| ()).0, 0);
        assert_eq!(rack.window_ns(&board, &rtt, true), 25);
        rack.note_duplicate(at(0), at(50));
        rack.note_duplicate(at(10), at(50));
        assert_eq!(rack.window_ns(&board, &rtt, true), 50, "once per round trip");
        (0..16).for_each(|_| rack.end_recovery());
        assert_eq!(rack.window_ns(&board, &rtt, true), 25);
    }

    /// Step 2: an answer that comes faster than any before was to the first transmission.
    #[test]
    fn an_answer_to_the_first_transmission_proves_nothing_of_the_second() {
        let (mut rack, mut board, rtt) = sent();
        board.retransmit(0, ns(90));
        board.acknowledge(at(10), |segment| rack.delivered(segment, ns(100), &rtt));
        assert_eq!(rack.detect(&mut board, ns(1000), &rtt, false, |_| ()), (0, None));
    }
}
