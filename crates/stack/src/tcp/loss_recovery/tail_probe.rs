//! A probe for a lost tail, so that it is found in two round trips instead of a timeout (TLP, RFC 8985 section 7).

use crate::tcp::config::{Config, us};
use crate::tcp::timers::rto::Rtt;
use sidestep_wire::tcp::SequenceNumber;

/// Before a round trip is known (RFC 8985 section 7.2).
const UNKNOWN_NS: u64 = 1_000_000_000;

/// A probe that is under way (TLP.end_seq, TLP.is_retrans).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailProbe {
    pub(crate) end: SequenceNumber,
    pub(crate) resent: bool,
}

/// The result of a probe, by an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// Nothing yet.
    Open,
    /// Nothing was lost.
    Superfluous,
    /// The probe has repaired a loss: the congestion window pays for it.
    Repaired,
}

impl TailProbe {
    /// RFC 8985 section 7.4.2. `reported`: the ACK reports a duplicate. `bare`: a duplicate ACK without data and SACK.
    pub(crate) fn on_ack(&self, ack: SequenceNumber, reported: bool, bare: bool) -> ProbeResult {
        match () {
            () if ack.is_before(self.end) => ProbeResult::Open,
            () if !self.resent || reported => ProbeResult::Superfluous,
            () if ack.is_after(self.end) => ProbeResult::Repaired,
            () if bare => ProbeResult::Superfluous,
            () => ProbeResult::Open,
        }
    }
}

/// The probe timeout (PTO), in ns (RFC 8985 section 7.2): two round trips; with one segment in
/// flight, so much longer as its ACK may be delayed.
#[inline]
pub(crate) fn pto_ns(rtt: &Rtt, config: &Config, segments_in_flight: usize) -> u64 {
    let Some(smoothed) = rtt.srtt_ns() else { return UNKNOWN_NS };
    let ack_delay_ns = if segments_in_flight == 1 { us(config.peer_delayed_ack_us) } else { 0 };
    (2 * smoothed + ack_delay_ns).max(us(config.tail_probe_min_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::time::Instant;

    /// RFC 8985 section 7.2
    #[test]
    fn two_round_trips_and_the_peers_patience() {
        let (config, mut rtt) = (Config::default(), Rtt::default());
        assert_eq!(pto_ns(&rtt, &config, 2), UNKNOWN_NS);
        rtt.sample(Instant::default(), 10_000_000);
        assert_eq!(pto_ns(&rtt, &config, 2), 20_000_000);
        assert_eq!(pto_ns(&rtt, &config, 1), 220_000_000);
    }

    /// RFC 8985 section 7.4.2
    #[test]
    fn the_probe_is_judged_by_what_comes_back() {
        let end = SequenceNumber(100);
        let probe = TailProbe { end, resent: true };
        assert_eq!(probe.on_ack(end - 1, true, true), ProbeResult::Open);
        assert_eq!(probe.on_ack(end, true, false), ProbeResult::Superfluous);
        assert_eq!(probe.on_ack(end + 1, false, false), ProbeResult::Repaired);
        assert_eq!(probe.on_ack(end, false, true), ProbeResult::Superfluous);
        assert_eq!(probe.on_ack(end, false, false), ProbeResult::Open);
        assert_eq!(TailProbe { resent: false, ..probe }.on_ack(end, false, false), ProbeResult::Superfluous);
    }
}
