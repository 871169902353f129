//! ICMP errors about segments, and changes of a path's MTU.

use crate::engine::bypass::Bypass;
use sidestep_control_api::counters::Counters;
use sidestep_control_api::message::{IcmpError, IcmpErrorKind, Unreachable};
use sidestep_stack::tcp::{Flow, Undelivered};
use sidestep_wire::tcp::SequenceNumber;

impl Bypass {
    /// Applies an error to its connection. An error that fits no segment in flight is ignored and counted.
    pub(crate) fn apply_icmp_error(&mut self, error: &IcmpError, counters: &Counters) {
        let (Some(flow), Some(sequence)) = (Flow::new(error.local, error.remote), error.sequence) else { return };
        let sequence = SequenceNumber(sequence);
        match error.kind {
            IcmpErrorKind::TooBig { mtu } => {
                let mtu = crate::route_cache::believed_mtu(mtu, error.remote.ip());
                let least = u16::try_from(mtu).unwrap_or(u16::MAX);
                let is_lower =
                    self.with_tcp(counters, |tcp, now, output| tcp.packet_too_big(now, &flow, sequence, least, output));
                if is_lower {
                    self.routes.lower_mtu(error.remote.ip(), mtu);
                }
            }
            IcmpErrorKind::Unreachable { why } => {
                let why = undelivered(why);
                self.with_tcp(counters, |tcp, now, output| tcp.unreachable(now, &flow, sequence, why, output));
            }
        }
    }

    /// Applies changes of the path's MTU to connections.
    pub(crate) fn update_path_mtus(&mut self, counters: &Counters) {
        for id in std::mem::take(&mut self.headers.changed_mtu) {
            let Some(mtu) = self.headers.mtu(id) else { continue };
            let mtu = mtu.min(self.stack.tcp().config().mtu_bytes) as u16;
            // One that has ended meanwhile has no path.
            let _ = self.with_tcp(counters, |tcp, now, output| tcp.set_path_mtu(now, id, mtu, output));
        }
    }
}

fn undelivered(why: Unreachable) -> Undelivered {
    match why {
        Unreachable::Network => Undelivered::Network,
        Unreachable::Host => Undelivered::Host,
        Unreachable::HopLimit => Undelivered::HopLimit,
        Unreachable::Protocol => Undelivered::Protocol,
        Unreachable::Port => Undelivered::Port,
        Unreachable::Prohibited => Undelivered::Prohibited,
    }
}
