//! HyStart++ (RFC 9406): the first slow start ends when the round trip grows, before the queue of the path overflows.

use super::Progress;
use sidestep_wire::tcp::SequenceNumber;

/// MIN_RTT_THRESH and MAX_RTT_THRESH, the growth of the round trip that counts (RFC 9406 section 4.3).
const GROWTH_MIN_US: u32 = 4_000;
const GROWTH_MAX_US: u32 = 16_000;
/// MIN_RTT_DIVISOR
const GROWTH_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE: a round with fewer samples says nothing.
const SAMPLES: u8 = 8;
/// CSS_ROUNDS
const CONSERVATIVE_ROUNDS: u8 = 5;
const NONE: u32 = u32::MAX;

/// How the window may grow by an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    SlowStart,
    /// Conservative Slow Start (CSS).
    Conservative,
    /// The slow start threshold is the window of now.
    Over,
}

/// The rounds of a first slow start. Small, as every connection has it: times are in us.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    /// windowEnd
    round_end: SequenceNumber,
    /// lastRoundMinRTT and currentRoundMinRTT.
    last_us: u32,
    current_us: u32,
    /// cssBaselineMinRtt; [`NONE`] outside of CSS.
    baseline_us: u32,
    conservative_rounds: u8,
    samples: u8,
    has_begun: bool,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            round_end: SequenceNumber(0),
            last_us: NONE,
            current_us: NONE,
            baseline_us: NONE,
            conservative_rounds: 0,
            samples: 0,
            has_begun: false,
        }
    }
}

impl HyStart {
    /// RFC 9406 section 4.2
    #[inline]
    pub(super) fn on_ack(&mut self, progress: &Progress) -> Growth {
        if let Some(sample_ns) = progress.rtt_sample_ns {
            let sample_us = u32::try_from(sample_ns / 1000).unwrap_or(NONE);
            self.current_us = self.current_us.min(sample_us);
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        if !self.has_begun || progress.una.is_at_or_after(self.round_end) {
            self.begin_round(progress.nxt);
        }
        match self.baseline_us {
            NONE => Growth::SlowStart,
            _ if self.conservative_rounds < CONSERVATIVE_ROUNDS => Growth::Conservative,
            _ => Growth::Over,
        }
    }

    fn judge(&mut self) {
        if self.baseline_us == NONE {
            if self.last_us != NONE && self.current_us >= self.last_us.saturating_add(growth_us(self.last_us)) {
                (self.baseline_us, self.conservative_rounds) = (self.current_us, 0);
            }
        } else if self.current_us < self.baseline_us {
            // The round trip grew by chance.
            self.baseline_us = NONE;
        }
    }

    fn begin_round(&mut self, nxt: SequenceNumber) {
        (self.round_end, self.has_begun) = (nxt, true);
        (self.last_us, self.current_us, self.samples) = (self.current_us, NONE, 0);
        if self.baseline_us != NONE {
            self.conservative_rounds += 1;
        }
    }
}

/// RttThresh
fn growth_us(last_us: u32) -> u32 {
    (last_us / GROWTH_DIVISOR).clamp(GROWTH_MIN_US, GROWTH_MAX_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::time::Instant;

    const MS: u64 = 1_000_000;

    /// Rounds of ten ACKs each, whose least round trip is `ms`; the growth after each round's last.
    fn rounds(hystart: &mut HyStart, all_ms: &[u64]) -> Vec<Growth> {
        let mut begin = hystart.round_end.0;
        let mut after = Vec::new();
        for ms in all_ms {
            let mut last = Growth::SlowStart;
            for ack in 1..=10 {
                last = hystart.on_ack(&Progress {
                    now: Instant::default(),
                    acknowledged_bytes: 100,
                    rtt_ns: ms * MS,
                    rtt_sample_ns: Some((ms + ack % 3) * MS),
                    una: SequenceNumber(begin.wrapping_add(ack as u32 * 100)),
                    nxt: SequenceNumber(begin.wrapping_add(ack as u32 * 100 + 1000)),
                    is_limited: true,
                });
            }
            begin = begin.wrapping_add(1000);
            after.push(last);
        }
        after
    }

    /// Ready for rounds that begin at 0.
    fn started() -> HyStart {
        HyStart { has_begun: true, ..HyStart::default() }
    }

    /// RFC 9406 section 4.2: an eighth of the round trip, at least 4 ms, at most 16 ms.
    #[test]
    fn a_round_trip_that_grows_ends_slow_start_in_five_rounds() {
        for (before, after) in [(10, 14), (80, 90), (400, 416)] {
            let got = rounds(&mut started(), &[before, before, after, after, after, after, after, after]);
            assert_eq!(got[..2], [Growth::SlowStart; 2], "{before}");
            // The round in which it was seen counts.
            assert_eq!(got[2..7], [Growth::Conservative; 5], "{before}");
            assert_eq!(got[7], Growth::Over, "{before}");
        }
    }

    #[test]
    fn less_than_the_threshold_is_noise() {
        for (before, after) in [(10, 13), (80, 89), (400, 415)] {
            assert_eq!(rounds(&mut started(), &[before, after]), [Growth::SlowStart; 2], "{before}");
        }
    }

    /// Section 4.2: if it falls below the baseline, slow start goes on.
    #[test]
    fn growth_by_chance_is_taken_back() {
        let got = rounds(&mut started(), &[10, 20, 10, 10, 30]);
        let wanted = [Growth::SlowStart, Growth::Conservative, Growth::SlowStart, Growth::SlowStart];
        assert_eq!(got[..4], wanted);
        assert_eq!(got[4], Growth::Conservative);
    }

    /// Rounds without samples, as of retransmissions alone, say nothing.
    #[test]
    fn a_round_without_samples_says_nothing() {
        let mut hystart = started();
        rounds(&mut hystart, &[10]);
        let at =
            |una: u32| Progress { una: SequenceNumber(una), ..Progress::unmeasured(Instant::default(), 1, 1, true) };
        hystart.on_ack(&at(2000));
        assert_eq!(hystart.last_us, 10_000);
        assert_eq!(hystart.on_ack(&at(3000)), Growth::SlowStart);
        assert_eq!(hystart.last_us, NONE);
    }
}
