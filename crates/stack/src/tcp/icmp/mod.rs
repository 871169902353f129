//! ICMP errors, which the caller passes on from the kernel's error queue or from `wire::icmp`.

pub(crate) mod path_mtu;

use crate::tcp::counters::Counter;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::flow::Flow;
use crate::tcp::icmp::path_mtu::Undelivered;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::SequenceNumber;

impl Tcp {
    /// A router says that a packet of `flow`, whose segment began with `sequence`, was larger than the `mtu` of the way
    /// (RFC 1191, RFC 8201). False if it fits nothing that is under way, or changes nothing.
    pub fn packet_too_big(
        &mut self,
        now: Instant,
        flow: &Flow,
        sequence: SequenceNumber,
        mtu: u16,
        output: &mut dyn Output,
    ) -> bool {
        let Some(index) = self.in_flight_of(flow, sequence) else { return false };
        self.step(now, index, output, |connection, cx| {
            let mtu = connection.clamped_mtu(cx, mtu);
            connection.lower_path_mtu(cx, mtu)
        })
        .unwrap_or(false)
    }

    /// The peer of `flow` cannot be reached, says the answer to a segment that began with `sequence`. Ends a connection only
    /// while it is being made, whatever the reason, as in Linux (tcp_v4_err, tcp_v6_err); otherwise it is the reason in case
    /// the peer stays silent. False if it fits nothing.
    pub fn unreachable(
        &mut self,
        now: Instant,
        flow: &Flow,
        sequence: SequenceNumber,
        why: Undelivered,
        output: &mut dyn Output,
    ) -> bool {
        let Some(index) = self.in_flight_of(flow, sequence) else { return false };
        self.step(now, index, output, |connection, cx| connection.process_icmp_error(cx, sequence, why)).is_some()
    }

    /// The link is up again, or a way is there that was not: what waits for a backed-off timer is sent again. Costs a walk over
    /// all connections.
    pub fn hasten(&mut self, now: Instant, output: &mut dyn Output) {
        for index in 0..self.slots.len() {
            let is_waiting = self.slots.connection_at(index).is_some_and(|connection| connection.is_backed_off());
            if is_waiting {
                self.step(now, index, output, |connection, cx| connection.hasten(cx));
            }
        }
    }

    /// The connection of which `sequence` is under way.
    fn in_flight_of(&mut self, flow: &Flow, sequence: SequenceNumber) -> Option<u32> {
        let index = self.index_of(flow);
        let index = index.filter(|&index| {
            self.slots.connection_at(index).is_some_and(|connection| connection.is_sequence_in_flight(sequence))
        });
        if index.is_none() {
            self.counters.count(Counter::IcmpIgnored);
        }
        index
    }

    /// The caller's routes have another limit for the connection's path now: lower or higher. Also of one that is closed and still
    /// has something to say.
    pub fn set_path_mtu(
        &mut self,
        now: Instant,
        id: ConnectionId,
        mtu: u16,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        self.slots.any(id).ok_or(Error::NotFound)?;
        self.step(now, id.index, output, |connection, cx| {
            if !connection.lower_path_mtu(cx, mtu) && mtu > connection.mss.path_mtu() {
                connection.mss.set_path_mtu(mtu);
                connection.follow_segment_size();
            }
        });
        Ok(())
    }

    /// The interface takes packets of another length now: what is begun from here on asks for that
    /// ([`crate::tcp::Config::mtu_bytes`]).
    pub fn set_interface_mtu(&mut self, mtu: u16) {
        self.config.mtu_bytes = mtu.into();
    }
}
