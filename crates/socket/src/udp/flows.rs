//! The destinations that a socket has sent to of late, each with its prebuilt header or the reason why it has none.

use crate::reason::Reason;
use crate::route_cache::Stamp;
use sidestep_stack::udp::FlowHeader;
use std::net::SocketAddr;

/// Destinations remembered per socket. A feed handler asks a few servers for retransmissions; a server that answers
/// thousands builds a header anew for each, some 100 ns.
const FLOWS_MAX: usize = 32;

/// One destination.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) to: SocketAddr,
    /// The stamp of the tables that the route was found in.
    pub(crate) stamp: Stamp,
    /// The header in front of each datagram, or why the kernel sends them.
    pub(crate) header: Result<FlowHeader, Reason>,
}

/// Destinations, the last one used first.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    last: usize,
    /// The next to go when there is no room.
    victim: usize,
}

impl Flows {
    /// The entry of a destination, if its route still stands.
    #[inline]
    pub(crate) fn find(&mut self, to: &SocketAddr, stamp: Stamp) -> Option<&mut Flow> {
        let fits = |flow: &Flow| flow.to == *to;
        if !self.flows.get(self.last).is_some_and(fits) {
            self.last = self.flows.iter().position(fits)?;
        }
        self.flows.get_mut(self.last).filter(|flow| flow.stamp == stamp)
    }

    /// Returns whether anything was sent there of late.
    pub(crate) fn has(&self, to: &SocketAddr) -> bool {
        self.flows.iter().any(|flow| flow.to == *to)
    }

    /// Remembers a destination anew.
    pub(crate) fn insert(&mut self, flow: Flow) -> &mut Flow {
        self.last = match self.flows.iter().position(|known| known.to == flow.to) {
            Some(place) => {
                self.flows[place] = flow;
                place
            }
            None if self.flows.len() < FLOWS_MAX => {
                self.flows.push(flow);
                self.flows.len() - 1
            }
            None => {
                self.victim = (self.victim + 1) % FLOWS_MAX;
                self.flows[self.victim] = flow;
                self.victim
            }
        };
        &mut self.flows[self.last]
    }

    /// Lowers the MTU of one destination, as ICMP told the kernel.
    pub(crate) fn lower_mtu(&mut self, to: &SocketAddr, mtu: u32) {
        for flow in self.flows.iter_mut().filter(|flow| flow.to == *to) {
            if let Ok(header) = &mut flow.header
                && header.mtu() > mtu
            {
                header.set_mtu(mtu);
            }
        }
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow { to: ([198, 18, 0, 1], port).into(), stamp: Stamp::default(), header: Err(Reason::NoRoute) }
    }

    #[test]
    fn destinations_are_found_and_the_oldest_go() {
        let mut flows = Flows::default();
        for port in 1..=100 {
            flows.insert(flow(port));
        }
        assert_eq!(flows.flows.len(), FLOWS_MAX);
        assert!(flows.find(&([198, 18, 0, 1], 100).into(), Stamp::default()).is_some());
        assert!(flows.find(&([198, 18, 0, 1], 1).into(), Stamp::default()).is_none());
        let again = flows.insert(Flow { header: Err(Reason::Broadcast), ..flow(100) });
        assert_eq!(again.header.as_ref().unwrap_err(), &Reason::Broadcast);
        assert_eq!(flows.flows.iter().filter(|flow| flow.to.port() == 100).count(), 1);
    }
}
