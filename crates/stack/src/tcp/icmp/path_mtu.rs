//! The path MTU (RFC 1191, RFC 8201), and the effect of other ICMP errors (RFC 5927).

use crate::tcp::counters::Counter;
use crate::tcp::error::Error;
use crate::tcp::flow::Flow;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use sidestep_wire::Addresses;
use sidestep_wire::tcp::SequenceNumber;

/// RFC 8200 section 5
const LEAST_V6: u16 = 1280;

impl Connection {
    /// Returns whether an ICMP error is about a segment that is under way: anybody can send one, but not everybody knows the
    /// numbers (RFC 5927 section 4).
    pub(crate) fn is_sequence_in_flight(&self, sequence: SequenceNumber) -> bool {
        self.snd.una().is_at_or_before(sequence) && sequence.is_before(self.snd.nxt())
    }

    /// The path MTU to use when a router reports `mtu`.
    pub(crate) fn clamped_mtu(&self, cx: &Context<'_>, mtu: u16) -> u16 {
        match self.flow.addresses {
            Addresses::V4 { .. } => mtu.max(cx.config.mtu_min_bytes as u16),
            // RFC 8201 section 4: never below the least MTU of IPv6.
            Addresses::V6 { .. } => mtu.max(LEAST_V6),
        }
    }

    /// Packets must be no larger than `mtu` from now on. True if the limit is lower than it was.
    pub(crate) fn lower_path_mtu(&mut self, cx: &mut Context<'_>, mtu: u16) -> bool {
        if mtu >= self.mss.path_mtu() {
            return false;
        }
        self.mss.set_path_mtu(mtu);
        self.follow_segment_size();
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

    /// The peer cannot be reached (Linux tcp_v4_err, tcp_v6_err). While the connection is being made from here that ends it;
    /// one that a peer has begun is forgotten without a word if the way to it does not lead on. Later it becomes the reason in
    /// case the peer stays silent (RFC 9293 section 3.9.2.2, RFC 5461).
    pub(crate) fn process_icmp_error(&mut self, cx: &Context<'_>, sequence: SequenceNumber, why: Undelivered) {
        let error = why.error(&self.flow);
        match self.state {
            State::SynSent => return self.fail(error),
            State::SynReceived if self.owner.listener().is_none() => return self.fail(error),
            State::SynReceived if why.is_routing_error() => return self.fail(error),
            _ => {}
        }
        self.notices.set_soft_error(error);
        // RFC 6069 section 4: of the retransmission, that is the first segment in flight.
        if matches!(why, Undelivered::Network | Undelivered::Host) && sequence == self.snd.una() {
            self.undo_backoff_on_icmp(cx);
        }
    }
}

/// The reason of an ICMP error: why a segment was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// No way to the network.
    Network,
    /// No way to the host.
    Host,
    /// It made all hops it might.
    HopLimit,
    /// The host does not speak TCP.
    Protocol,
    /// Nobody listens on the port.
    Port,
    /// A filter forbids it.
    Prohibited,
}

impl Undelivered {
    /// As Linux maps them (icmp_err_convert, tab_unreach): what a filter of IPv4 forbids it calls unreachable.
    fn error(self, flow: &Flow) -> Error {
        match (self, flow.addresses) {
            (Self::Network, _) => Error::NetworkUnreachable,
            (Self::Host | Self::HopLimit, _) | (Self::Prohibited, Addresses::V4 { .. }) => Error::Unreachable,
            (Self::Prohibited, Addresses::V6 { .. }) => Error::Prohibited,
            (Self::Protocol, _) => Error::ProtocolUnreachable,
            (Self::Port, _) => Error::Refused,
        }
    }

    fn is_routing_error(self) -> bool {
        matches!(self, Self::Network | Self::Host | Self::HopLimit)
    }
}
