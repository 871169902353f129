//! Initial sequence numbers (RFC 6528).

use crate::tcp::demux::hash::{Secret, sip_hash_flow};
use crate::tcp::flow::Flow;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::SequenceNumber;

/// ISN = M + F(flow, secret), where M advances by one every 4 microseconds (RFC 6528 section 3), which was meant for networks
/// where that is little. A connection of a few bytes may end here within 20 us, and the next one of its flow would begin
/// among its numbers: a late ACK of the old FIN would then open the new one. M advances every 64 ns, as in Linux, and comes
/// around after 275 s, more than TIME-WAIT.
const TICK_SHIFT: u32 = 6;

/// Chooses initial sequence numbers.
pub(crate) struct InitialSequence {
    key: [u64; 2],
}

impl InitialSequence {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self { key: [secret.0[0], secret.0[1]] }
    }

    /// The number to begin `flow` with at `now`.
    pub(crate) fn choose(&self, flow: &Flow, now: Instant) -> SequenceNumber {
        let moving = (now.as_nanos() >> TICK_SHIFT) as u32;
        SequenceNumber(moving.wrapping_add(sip_hash_flow(self.key, flow, 0) as u32))
    }

    /// The offset of the timestamp clock for `flow`, so that it tells nothing of this host's uptime or of other flows
    /// (RFC 7323 section 7.1), yet goes on from one connection of a flow to the next (RFC 6191).
    pub(crate) fn timestamp_offset(&self, flow: &Flow) -> u32 {
        sip_hash_flow(self.key, flow, 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow::new(([192, 0, 2, 1], port).into(), ([192, 0, 2, 2], 80).into()).unwrap()
    }

    /// RFC 6528 section 3: the numbers of one flow go up with time, those of two flows have nothing in common.
    #[test]
    fn numbers_advance_per_flow_and_differ_between_flows() {
        let numbers = InitialSequence::new(&Secret([1, 2, 3, 4]));
        let at = |port, us: u64| numbers.choose(&flow(port), Instant::from_nanos(us * 1000));
        assert_eq!(at(1, 64_000).since(at(1, 0)), 1_000_000);
        assert_ne!(at(1, 0), at(2, 0));
        assert_ne!(InitialSequence::new(&Secret([9, 2, 3, 4])).choose(&flow(1), Instant::default()), at(1, 0));
        assert_ne!(numbers.timestamp_offset(&flow(1)), numbers.timestamp_offset(&flow(2)));
    }
}
