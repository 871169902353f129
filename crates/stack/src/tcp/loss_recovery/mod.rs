//! Recovery from loss: fast (RFC 6675, RFC 6582, RFC 8985), after a timeout (RFC 6298, RFC 5681), and back when it was a
//! mistake.

mod detection;
mod phases;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod scoreboard;
pub(crate) mod tail_probe;
mod tlp;

use crate::tcp::congestion::Controller;
use crate::tcp::loss_recovery::prr::Prr;
use crate::tcp::loss_recovery::rack::Rack;
use crate::tcp::loss_recovery::scoreboard::Scoreboard;
use crate::tcp::loss_recovery::tail_probe::TailProbe;
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

/// The state to undo a recovery.
pub(crate) struct Undo {
    before: Option<Controller>,
    /// Segments sent again for which no duplicate was reported yet.
    pub(crate) unproven: u32,
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
        }
    }

    /// Bytes in the network as far as known. A duplicate ACK of a peer that does not sack says that one segment left it.
    #[inline]
    pub(crate) fn pipe(&self, payload_bytes: u32) -> u32 {
        self.board.in_flight_bytes().saturating_sub(self.duplicate_acks.saturating_mul(payload_bytes))
    }

    /// Saves the state to undo the recovery.
    pub(crate) fn save_undo(&mut self, before: &Controller) {
        if self.phase == Phase::Open {
            self.undo = Some(Undo { before: before.saved(), unproven: 0 });
        }
    }

    /// A segment was sent again.
    pub(crate) fn resent(&mut self, index: usize, now: Instant) {
        self.board.retransmit(index, now);
        if let Some(undo) = self.undo.as_mut().filter(|_| self.phase != Phase::Open) {
            undo.unproven += 1;
        }
    }

    /// A duplicate was reported. True if now all that was sent again has proved superfluous: the recovery was a mistake.
    pub(crate) fn undo_on_dsack(&mut self, congestion: &mut Controller) -> bool {
        let Some(undo) = &mut self.undo else { return false };
        if undo.unproven == 0 {
            return false;
        }
        undo.unproven -= 1;
        if undo.unproven > 0 {
            return false;
        }
        congestion.undo(undo.before.as_ref());
        self.undo = None;
        self.phase = Phase::Open;
        self.board.clear_lost();
        true
    }

    /// Recovery is over.
    pub(crate) fn end_recovery(&mut self) {
        self.phase = Phase::Open;
        self.duplicate_acks = 0;
        self.rack.end_recovery();
    }
}
