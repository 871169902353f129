//! The lines of the feed at the trader by a ring of the kernel: the steering program copies every datagram of their groups into it, and the
//! trader reads without a system call.

use sidestep_socket::datagram::UdpPort;
use sidestep_socket::ring_flow::{EntryId, Flow, FlowOptions, Verdict};
use sidestep_sys::Problem;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A reader of the groups, each of which is a line.
pub(super) struct RingFeed {
    flow: Flow,
    /// Of each line: its group, and its entry in the flow.
    lines: Vec<(SocketAddrV4, EntryId)>,
}

impl RingFeed {
    /// Joins groups on an interface, which has `address`, at ports of the kernel's choice. Returns the groups with their ports, too.
    ///
    /// # Errors
    /// There is no control, it has no steering program or no rings here, or it refuses an entry: then no ring carries the group, and a feed by
    /// kernel sockets would be measured under a wrong name.
    pub(super) fn open(
        interface: &str,
        address: Ipv4Addr,
        groups: &[Ipv4Addr],
    ) -> Result<(Self, Vec<SocketAddrV4>), Problem> {
        let name = "sidestep bench".into();
        let mut flow = Flow::open(&FlowOptions { name, ..FlowOptions::on(interface) })?;
        let mut lines = Vec::with_capacity(groups.len());
        for group in groups {
            let group = SocketAddrV4::new(*group, free_port(*group, address)?);
            // The trader is the only receiver: a copy for the kernel would be made and thrown away.
            let entry = flow.join(group.into(), None, Verdict::Drop)?;
            let path = flow.path(entry);
            if !path.is_ring() {
                return Err(not_by_ring(group, path));
            }
            lines.push((group, entry));
        }
        let groups = lines.iter().map(|(group, _)| *group).collect();
        Ok((Self { flow, lines }, groups))
    }

    /// The next datagram of any line, with its line.
    #[inline]
    pub(super) fn receive(&mut self) -> Option<(u8, &[u8])> {
        let packet = self.flow.receive()?;
        // It came by one of the entries: each is a group and a port.
        let line = line_of(&self.lines, packet.destination())?;
        Some((line, packet.payload()))
    }

    /// The way of the first line, in the words of the flow; the others go the same.
    pub(super) fn way(&self) -> String {
        let way = self.lines.first().map_or_else(String::new, |(_, entry)| self.flow.path(*entry).to_string());
        format!("the feed by a {way}, orders by the kernel's TCP, which passes the steering program")
    }

    /// Datagrams that the ring has lost, and those that did not get into it.
    pub(super) fn lost(&self) -> u64 {
        self.flow.statistics().lost().saturating_add(self.flow.dropped())
    }

    /// Errs if any datagram came by a kernel socket: control ended, or revoked the feed.
    pub(super) fn check_way(&self) -> Result<(), Problem> {
        for (group, entry) in &self.lines {
            let path = self.flow.path(*entry);
            if !path.is_ring() {
                return Err(not_by_ring(*group, path));
            }
        }
        let counters = self.flow.statistics();
        if counters.fallbacks == 0 && counters.by_kernel == 0 {
            return Ok(());
        }
        let why = format!(
            "{} datagrams came by kernel sockets, after {} changes from the ring to them",
            counters.by_kernel, counters.fallbacks
        );
        Err(Problem::failed("cannot measure a feed by a ring", why).next("see what control printed, and run again"))
    }
}

fn not_by_ring(group: SocketAddrV4, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot receive {group} by a ring"), why)
        .next("see sidestep doctor for what this host has, and sidestep ps for what control does")
}

/// A port on which nobody receives the group.
fn free_port(group: Ipv4Addr, address: Ipv4Addr) -> Result<u16, Problem> {
    let port = UdpPort::join(SocketAddrV4::new(group, 0), address)?;
    Ok(port.local().map_err(|error| Problem::failed("cannot name the port", error))?.port())
}

/// The line of a datagram's destination.
#[inline]
fn line_of<T>(lines: &[(SocketAddrV4, T)], destination: SocketAddr) -> Option<u8> {
    let at = lines.iter().position(|(group, _)| SocketAddr::V4(*group) == destination)?;
    u8::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_of_the_line_whose_group_and_port_it_has() {
        let group = |last, port| SocketAddrV4::new(Ipv4Addr::new(239, 1, 1, last), port);
        let lines = [(group(1, 5_000), ()), (group(2, 6_000), ())];
        assert_eq!(line_of(&lines, group(1, 5_000).into()), Some(0));
        assert_eq!(line_of(&lines, group(2, 6_000).into()), Some(1));
        assert_eq!(line_of(&lines, group(2, 5_000).into()), None, "another port is another feed");
        assert_eq!(line_of(&lines, "[ff02::1]:5000".parse().unwrap()), None);
    }

    #[test]
    fn without_control_the_reason_is_told_and_nothing_is_measured() {
        let Err(problem) = RingFeed::open("lo", Ipv4Addr::LOCALHOST, &[Ipv4Addr::new(239, 192, 74, 99)]) else {
            panic!("loopback has no steering program");
        };
        let text = problem.to_string();
        assert!(text.contains("cannot receive 239.192.74.99:") && text.contains("by a ring"), "{text}");
    }
}
