//! Recovery from loss: fast (RFC 6675, RFC 6582, RFC 8985), after a timeout (RFC 6298, RFC 5681), and back when it was a
//! mistake.

mod detection;
mod phases;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod scoreboard;
pub(crate) mod tail_probe;
mod tlp;
mod undo;

use crate::tcp::loss_recovery::prr::Prr;
use crate::tcp::loss_recovery::rack::Rack;
use crate::tcp::loss_recovery::scoreboard::Scoreboard;
use crate::tcp::loss_recovery::tail_probe::TailProbe;
use crate::tcp::loss_recovery::undo::Undo;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::SequenceNumber;

/// Duplicate ACKs that mean a loss, of a peer that does not sack (RFC 5681 section 3.2).
pub(crate) const DUPLICATE_ACKS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// A loss was seen; sending goes on, proportionally to what arrives.
    Fast,
    /// The timer expired; slow start from one segment.
    Timeout,
}

pub(crate) struct Recovery {
    pub(crate) board: Scoreboard,
    pub(crate) rack: Rack,
    pub(crate) phase: Phase,
    /// Recovery is over when this is acknowledged (RecoveryPoint of RFC 6675).
    pub(crate) point: SequenceNumber,
    /// Duplicate ACKs of a peer that does not sack.
    pub(crate) duplicate_acks: u32,
    pub(crate) prr: Prr,
    pub(crate) tail: Option<TailProbe>,
    pub(crate) undo: Option<Undo>,
    /// The time at which the first of the segments was sent again that are in flight or believed lost, or earlier.
    first_resent_at: Option<Instant>,
}

impl Recovery {
    pub(crate) fn new(iss: SequenceNumber) -> Self {
        Self {
            board: Scoreboard::default(),
            rack: Rack::default(),
            phase: Phase::Open,
            point: iss,
            duplicate_acks: 0,
            prr: Prr::default(),
            tail: None,
            undo: None,
            first_resent_at: None,
        }
    }

    /// Bytes in the network as far as known. A duplicate ACK of a peer that does not sack says that one segment left it.
    #[inline]
    pub(crate) fn pipe(&self, payload_bytes: u32) -> u32 {
        self.board.in_flight_bytes().saturating_sub(self.duplicate_acks.saturating_mul(payload_bytes))
    }

    /// Counts a duplicate ACK of a peer that does not sack. False if no segment can have caused it: not more leave the network than are in
    /// it, the first of them not among them, as it is what is missing (RFC 5681 section 5, tcp_limit_reno_sacked of Linux); and after
    /// a timeout slow start counts ACKs of new data only (RFC 5681 section 3.1).
    pub(crate) fn count_duplicate(&mut self) -> bool {
        let missing = self.board.lost().max(1) as usize;
        let may_have_left = self.board.len().saturating_sub(missing);
        let is_possible = self.phase != Phase::Timeout && (self.duplicate_acks as usize) < may_have_left;
        self.duplicate_acks += u32::from(is_possible);
        is_possible
    }

    /// Recovery is over.
    pub(crate) fn end_recovery(&mut self) {
        self.phase = Phase::Open;
        self.duplicate_acks = 0;
        self.rack.end_recovery();
    }
}
