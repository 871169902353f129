//! The path's largest packet, as ICMP tells it (RFC 1191, RFC 8201), and other ICMP errors (RFC 5927).

use super::connection::{Connection, Context};
use super::counters::Counter;
use super::error::Error;
use super::state::State;
use sidestep_wire::Addresses;
use sidestep_wire::tcp::SequenceNumber;

/// RFC 8200 section 5
const LEAST_V6: u16 = 1280;

impl Connection {
    /// Whether an ICMP error is about a segment that is under way: anybody can send one, but not everybody knows the
    /// numbers (RFC 5927 section 4).
    pub(super) fn is_under_way(&self, sequence: SequenceNumber) -> bool {
        self.send.una.is_at_or_before(sequence) && sequence.is_before(self.send.nxt)
    }

    /// A router says that packets must be no larger than `mtu`. True if the limit is lower than it was.
    pub(super) fn lower_path_mtu(&mut self, cx: &mut Context<'_>, mtu: u16) -> bool {
        let least = match self.flow.addresses {
            Addresses::V4 { .. } => cx.config.mtu_min_bytes as u16,
            // RFC 8201 section 4: never below the least MTU of IPv6.
            Addresses::V6 { .. } => LEAST_V6,
        };
        let mtu = mtu.max(least);
        if mtu >= self.path_mtu {
            return false;
        }
        self.path_mtu = mtu;
        self.fit_segments();
        cx.counters.count(Counter::PathMtuLowered);
        // RFC 1191 section 6.4: what was too large is sent again at once, and it is not congestion that has lost it.
        let most = self.payload_bytes();
        for index in 0..self.recovery.board.len() {
            if self.recovery.board.at(index).is_some_and(|record| record.bytes() > most) {
                self.recovery.board.mark_lost(index);
            }
        }
        true
    }

    /// The peer cannot be reached. An error only while the connection is being made, and only if it is said to be final;
    /// otherwise it becomes the reason in case the peer stays silent (RFC 9293 section 3.9.2.2, RFC 5461).
    pub(super) fn note_unreachable(&mut self, is_final: bool) {
        if is_final && matches!(self.state, State::SynSent) {
            return self.fail(Error::Refused);
        }
        self.soft_error = Some(Error::Unreachable);
    }
}
