//! The round trip and the retransmission timeout (RFC 6298).

use crate::tcp::config::{Config, us};
use crate::tcp::time::{Instant, SECOND_NS};

/// The least that the variance adds (G of RFC 6298 section 2): no clock of a busy host is steady below this.
const GRANULARITY_NS: u64 = 65_536;
/// Doublings beyond which the timeout is at its greatest anyway.
const BACKOFF_MAX: u32 = 20;
/// The lifetime of the least round trip, so that a longer path is noticed.
const MINIMUM_LIFETIME_NS: u64 = 300 * SECOND_NS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    srtt_ns: Option<u64>,
    rttvar_ns: u64,
    minimum_ns: u64,
    minimum_since: Instant,
    latest_ns: u64,
    backoff: u32,
    /// The SYN had to be sent again.
    syn_lost: bool,
}

impl Rtt {
    /// A measured round trip of a segment that was sent once (Karn's algorithm, RFC 6298 section 3).
    #[inline]
    pub(crate) fn sample(&mut self, now: Instant, sample_ns: u64) {
        let sample_ns = sample_ns.max(1);
        match self.srtt_ns {
            // RFC 6298 (2.2)
            None => {
                self.srtt_ns = Some(sample_ns);
                self.rttvar_ns = sample_ns / 2;
            }
            // RFC 6298 (2.3): beta 1/4, alpha 1/8
            Some(smoothed) => {
                let off = smoothed.abs_diff(sample_ns);
                self.rttvar_ns = self.rttvar_ns - self.rttvar_ns / 4 + off / 4;
                self.srtt_ns = Some(smoothed - smoothed / 8 + sample_ns / 8);
            }
        }
        self.latest_ns = sample_ns;
        if self.minimum_ns == 0
            || sample_ns <= self.minimum_ns
            || now.since_ns(self.minimum_since) > MINIMUM_LIFETIME_NS
        {
            (self.minimum_ns, self.minimum_since) = (sample_ns, now);
        }
        // RFC 6298 section 5, last paragraph: a new measurement takes the backoff away.
        self.backoff = 0;
    }

    /// The retransmission timeout without any backoff, in ns.
    #[inline]
    pub(crate) fn rto_without_backoff_ns(&self, config: &Config) -> u64 {
        match self.srtt_ns {
            // RFC 6298 (2.3), (2.4)
            Some(smoothed) => (smoothed + (4 * self.rttvar_ns).max(GRANULARITY_NS)).max(us(config.rto_min_us)),
            // RFC 6298 (5.7): three times as cautious after a lost SYN.
            None if self.syn_lost => 3 * us(config.rto_initial_us),
            None => us(config.rto_initial_us),
        }
    }

    /// The retransmission timeout now, backed off, in ns.
    #[inline]
    pub(crate) fn rto_ns(&self, config: &Config) -> u64 {
        self.rto_without_backoff_ns(config).saturating_mul(1 << self.backoff).min(us(config.rto_max_us))
    }

    /// RFC 6298 (5.5)
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// RFC 6069 section 4: "undo the last back-off".
    pub(crate) fn undo_one_backoff(&mut self) {
        self.backoff = self.backoff.saturating_sub(1);
    }

    /// Resets the backoff: an ACK proves that the path is alive, though the round trip is not known.
    pub(crate) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The handshake is over; its SYN was sent more than once.
    pub(crate) fn note_syn_retransmitted(&mut self) {
        self.syn_lost = true;
        self.backoff = 0;
    }

    /// The smoothed round trip, in ns.
    #[inline]
    pub(crate) fn srtt_ns(&self) -> Option<u64> {
        self.srtt_ns
    }

    /// The mean deviation, in ns.
    pub(crate) fn rttvar_ns(&self) -> u64 {
        self.rttvar_ns
    }

    /// The least of the last minutes, in ns; 0: none yet.
    #[inline]
    pub(crate) fn minimum_ns(&self) -> u64 {
        self.minimum_ns
    }

    /// The last one measured, in ns.
    pub(crate) fn latest_ns(&self) -> u64 {
        self.latest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// RFC 6298 (2.1), (2.2), (2.3)
    #[test]
    fn the_timeout_follows_the_round_trip() {
        let config = Config { rto_min_us: 100, ..Config::default() };
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto_ns(&config), 1000 * MS);
        rtt.sample(Instant::default(), 100 * MS);
        assert_eq!(rtt.rto_ns(&config), 300 * MS, "SRTT + 4 * R/2");
        rtt.sample(Instant::default(), 200 * MS);
        assert_eq!(rtt.srtt_ns(), Some(112_500_000));
        assert_eq!(rtt.rto_ns(&config), 112_500_000 + 4 * 62_500_000);
    }

    /// RFC 6298 (2.4), (2.5), (5.5)
    #[test]
    fn the_timeout_has_limits() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        rtt.sample(Instant::default(), 1000);
        assert_eq!(rtt.rto_ns(&config), 200 * MS);
        rtt.back_off();
        assert_eq!(rtt.rto_ns(&config), 400 * MS);
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto_ns(&config), 120_000 * MS);
        rtt.sample(Instant::default(), 1000);
        assert_eq!(rtt.rto_ns(&config), 200 * MS);
    }

    /// RFC 6298 (5.7)
    #[test]
    fn a_lost_syn_makes_cautious() {
        let mut rtt = Rtt::default();
        rtt.back_off();
        rtt.note_syn_retransmitted();
        assert_eq!(rtt.rto_ns(&Config::default()), 3000 * MS);
    }

    #[test]
    fn the_minimum_expires() {
        let mut rtt = Rtt::default();
        rtt.sample(Instant::default(), 10);
        rtt.sample(Instant::from_nanos(SECOND_NS), 50);
        assert_eq!(rtt.minimum_ns(), 10);
        rtt.sample(Instant::from_nanos(301 * SECOND_NS), 50);
        assert_eq!(rtt.minimum_ns(), 50);
    }
}
