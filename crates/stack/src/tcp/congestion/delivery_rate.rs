//! Samples of the delivery rate (draft-ietf-ccwg-bbr-04 section 4.1, before it draft-cheng-iccrg-delivery-rate-estimation): how fast
//! what was sent has arrived, measured between two ACKs a flight apart.

use crate::tcp::loss_recovery::scoreboard::Sent;
use crate::tcp::time::{Instant, SECOND_NS};

/// The unit of the times in a [`Stamp`]: 64 ns; so 32 bits are enough for 274 s.
const TICK_SHIFT: u32 = 6;

/// The state of the connection when a segment left, kept with the segment (section 4.1.2.1.2, P.*). Counters are cut to 32 bits:
/// only differences are used, and no more than 2^30 bytes are in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// P.delivered
    delivered: u32,
    /// P.lost
    lost: u32,
    /// P.tx_in_flight, the segment itself included; 0: no stamp.
    in_flight: u32,
    /// P.send_time - P.delivered_time, in ticks.
    since_delivery: u32,
    /// P.send_time - P.first_send_time, in ticks.
    send_elapsed: u32,
    /// P.is_app_limited
    is_app_limited: bool,
}

impl Stamp {
    /// Returns whether the controller has seen the segment leave.
    fn is_set(&self) -> bool {
        self.in_flight > 0
    }
}

/// The counters of one connection (section 4.1.2.1.1, C.*).
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// C.delivered, bytes.
    delivered: u64,
    /// C.lost, bytes.
    lost: u64,
    /// C.delivered_time
    delivered_time: Instant,
    /// C.first_send_time
    first_send_time: Instant,
    /// C.app_limited: samples are application-limited until so much is delivered; 0: they are not.
    app_limited: u64,
}

/// A rate sample (section 4.1.2.1.3, RS.*), and what came with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// RS.newly_acked, bytes.
    pub(crate) newly_acked: u32,
    /// RS.delivery_rate, bytes/s; 0: the ACK tells none.
    pub(crate) delivery_rate: u64,
    /// RS.delivered, bytes.
    pub(crate) delivered: u32,
    /// RS.prior_delivered, bytes.
    pub(crate) prior_delivered: u64,
    /// RS.lost: lost between the sending of the segment and now, bytes.
    pub(crate) lost: u32,
    /// RS.tx_in_flight, bytes.
    pub(crate) tx_in_flight: u32,
    /// RS.is_app_limited
    pub(crate) is_app_limited: bool,
    /// RS.rtt, ns; `None`: ambiguous.
    pub(crate) rtt_ns: Option<u64>,
}

impl DeliveryRate {
    /// C.delivered, bytes.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns whether samples are application-limited now.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// Section 4.1.2.2: a segment leaves; `in_flight` counts it.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant, bytes: u32, in_flight: u32) -> Stamp {
        if in_flight <= bytes {
            (self.first_send_time, self.delivered_time) = (now, now);
        }
        Stamp {
            delivered: self.delivered as u32,
            lost: self.lost as u32,
            in_flight: in_flight.max(1),
            since_delivery: ticks(now.since_ns(self.delivered_time)),
            send_elapsed: ticks(now.since_ns(self.first_send_time)),
            is_app_limited: self.is_app_limited(),
        }
    }

    /// `bytes` have arrived.
    #[inline]
    pub(crate) fn note_delivered(&mut self, now: Instant, bytes: u32) {
        self.delivered += u64::from(bytes);
        self.delivered_time = now;
    }

    /// `bytes` are believed to be lost.
    pub(crate) fn note_lost(&mut self, bytes: u32) {
        self.lost += u64::from(bytes);
    }

    /// Section 4.1.2.4: there is nothing more to send than what is in flight.
    #[inline]
    pub(crate) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// GenerateRateSample() of section 4.1.2.3: `newest` is the last sent of the segments that the ACK reports, and what they carried is
    /// counted.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        newly_acked: u32,
        newest: Option<&Sent>,
        least_rtt_ns: u64,
    ) -> Sample {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Some(newest) = newest.filter(|newest| newest.stamp.is_set()) else {
            return Sample { newly_acked, prior_delivered: self.delivered, ..Sample::default() };
        };
        let stamp = &newest.stamp;
        self.first_send_time = newest.sent_at;
        let rtt_ns = now.since_ns(newest.sent_at);
        let delivered = (self.delivered as u32).wrapping_sub(stamp.delivered);
        let ack_elapsed_ns = rtt_ns.saturating_add(nanoseconds(stamp.since_delivery));
        let interval_ns = ack_elapsed_ns.max(nanoseconds(stamp.send_elapsed));
        // An interval below the least round trip is of a segment that was sent again without need (section 4.1.3.4).
        let is_reliable = interval_ns > 0 && interval_ns >= least_rtt_ns;
        Sample {
            newly_acked,
            delivery_rate: if is_reliable { bytes_per_second(delivered, interval_ns) } else { 0 },
            delivered,
            prior_delivered: self.delivered - u64::from(delivered),
            lost: self.lost_since(stamp),
            tx_in_flight: stamp.in_flight,
            is_app_limited: stamp.is_app_limited,
            rtt_ns: (!newest.resent).then_some(rtt_ns),
        }
    }

    /// The sample of a segment that is believed to be lost (section 5.5.10.2, BBRHandleLostPacket).
    pub(crate) fn sample_of_lost(&self, lost: &Sent) -> Option<Sample> {
        lost.stamp.is_set().then(|| Sample {
            lost: self.lost_since(&lost.stamp),
            tx_in_flight: lost.stamp.in_flight,
            is_app_limited: lost.stamp.is_app_limited,
            ..Sample::default()
        })
    }

    fn lost_since(&self, stamp: &Stamp) -> u32 {
        (self.lost as u32).wrapping_sub(stamp.lost)
    }
}

fn ticks(ns: u64) -> u32 {
    u32::try_from(ns >> TICK_SHIFT).unwrap_or(u32::MAX)
}

fn nanoseconds(ticks: u32) -> u64 {
    u64::from(ticks) << TICK_SHIFT
}

/// `interval_ns` > 0.
fn bytes_per_second(bytes: u32, interval_ns: u64) -> u64 {
    u64::from(bytes) * SECOND_NS / interval_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss_recovery::scoreboard::Scoreboard;
    use sidestep_wire::tcp::SequenceNumber;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// Ten segments of 1000 bytes, one each millisecond, as a wire of 1 MB/s with a round trip of 20 ms carries them.
    fn sent(rate: &mut DeliveryRate) -> Vec<Sent> {
        let mut board = Scoreboard::default();
        for number in 0..10 {
            let start = SequenceNumber(number * 1000);
            board.push(start, start + 1000, at(u64::from(number)));
            let stamp = rate.stamp(at(u64::from(number)), 1000, (number + 1) * 1000);
            board.set_stamp(number as usize, stamp);
        }
        (0..10).filter_map(|index| board.at(index)).collect()
    }

    fn deliver(rate: &mut DeliveryRate, segment: &Sent, ms: u64) -> Sample {
        rate.note_delivered(at(ms), 1000);
        rate.sample(at(ms), 1000, Some(segment), 0)
    }

    #[test]
    fn the_rate_is_that_of_the_wire() {
        let mut rate = DeliveryRate::default();
        let segments = sent(&mut rate);
        let first = deliver(&mut rate, &segments[0], 20);
        assert_eq!((first.delivered, first.delivery_rate, first.rtt_ns), (1000, 50_000, Some(20 * MS)));
        for (index, segment) in segments.iter().enumerate().skip(1) {
            deliver(&mut rate, segment, 20 + index as u64);
        }
        // Sent after the first ten have arrived, one each millisecond: what arrives in its round trip is what the wire carries.
        let mut next = segments[9];
        (next.sent_at, next.stamp) = (at(30), rate.stamp(at(30), 1000, 20_000));
        (0..19).for_each(|ms| rate.note_delivered(at(31 + ms), 1000));
        let sample = deliver(&mut rate, &next, 50);
        assert_eq!((sample.delivered, sample.tx_in_flight), (20_000, 20_000));
        assert!((950_000..=1_000_000).contains(&sample.delivery_rate), "{sample:?}");
    }

    /// Section 4.1.2.4: the mark lies on what is sent after the application had nothing more, until all of that is delivered.
    #[test]
    fn a_bubble_marks_what_follows_it() {
        let mut rate = DeliveryRate::default();
        let mut segment = sent(&mut rate)[0];
        assert!(!deliver(&mut rate, &segment, 20).is_app_limited);
        rate.mark_app_limited(2000);
        (segment.sent_at, segment.stamp) = (at(21), rate.stamp(at(21), 1000, 3000));
        rate.note_delivered(at(30), 2000);
        assert!(deliver(&mut rate, &segment, 41).is_app_limited);
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn no_time_and_no_stamp_are_no_rate() {
        let mut rate = DeliveryRate::default();
        let segments = sent(&mut rate);
        assert_eq!(deliver(&mut rate, &segments[0], 0).delivery_rate, 0, "no time has passed");
        let bare = Sent { stamp: Stamp::default(), ..segments[1] };
        assert_eq!(deliver(&mut rate, &bare, 20).delivery_rate, 0);
        rate.note_delivered(at(21), 1000);
        assert_eq!(
            rate.sample(at(21), 1000, Some(&segments[2]), 30 * MS).delivery_rate,
            0,
            "below the least round trip"
        );
        assert_eq!(deliver(&mut rate, &segments[9], 400_000).delivery_rate, 10, "stamps do not wrap");
    }

    #[test]
    fn losses_are_counted_from_the_sending_on() {
        let mut rate = DeliveryRate::default();
        rate.note_lost(u32::MAX);
        let segments = sent(&mut rate);
        rate.note_lost(3000);
        assert_eq!(
            rate.sample_of_lost(&segments[5]).map(|sample| (sample.lost, sample.tx_in_flight)),
            Some((3000, 6000))
        );
    }
}
