//! Steering entries: flows, listeners, multicast groups, in the types of `std::net`.

mod key;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use sidestep_sys::Problem;

pub(crate) use key::{Key, Table, entry_of};

/// The transport of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
}

/// The VLAN tags of a frame. A tag with id 0 carries only a priority and is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vlan {
    /// No tag.
    Untagged,
    /// One tag, 1..=4094.
    Tagged(u16),
    /// Two tags (802.1ad, or two of 802.1Q), 1..=4094 each.
    Double {
        /// The tag next to the Ethernet addresses.
        outer: u16,
        /// The tag next to the IP header.
        inner: u16,
    },
}

/// The VLANs from which a listener or a group takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlanMatch {
    /// Any, and untagged frames.
    Any,
    /// This one.
    Only(Vlan),
}

/// A connection: both addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// This host's side.
    pub local: SocketAddr,
    /// The other side.
    pub remote: SocketAddr,
    /// The tags of its frames.
    pub vlan: Vlan,
}

/// A bound port. An unspecified address (`0.0.0.0`, `::`) stands for every address of its own family: a dual-stack
/// socket has two listeners. It does not match frames that the interface forwards to other hosts, for which the
/// kernel's routes are looked up per frame: a specific address is faster if forwarding is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// This host's address and port.
    pub local: SocketAddr,
    /// The tags of its frames.
    pub vlan: VlanMatch,
}

/// A multicast group and port (UDP). Its datagrams do not reach any other receiver on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The group's address, and the port.
    pub group: SocketAddr,
    /// The only sender accepted (source-specific multicast, RFC 4607); `None` for any. An entry with a source takes
    /// precedence over one without.
    pub source: Option<IpAddr>,
    /// The tags of its frames.
    pub vlan: VlanMatch,
}

/// A steering entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapEntry {
    /// A connection.
    Flow(Flow),
    /// A bound port.
    Listener(Listener),
    /// A multicast group.
    Group(Group),
}

impl From<Flow> for MapEntry {
    fn from(flow: Flow) -> Self {
        Self::Flow(flow)
    }
}

impl From<Listener> for MapEntry {
    fn from(listener: Listener) -> Self {
        Self::Listener(listener)
    }
}

impl From<Group> for MapEntry {
    fn from(group: Group) -> Self {
        Self::Group(group)
    }
}

impl MapEntry {
    /// The fault of the entry itself, in one clause.
    fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Flow(flow) => fault_of_flow(flow),
            Self::Listener(listener) => fault_of_local(listener.local, true).or_else(|| fault_of_match(listener.vlan)),
            Self::Group(group) => fault_of_group(group),
        }
    }

    /// Refuses an entry that no frame could match, or that no stack may own.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let refusal = |fault| {
            Problem::usage(format!("cannot steer {self}"), fault).next("check the addresses, the port and the VLAN")
        };
        self.fault().map_or(Ok(()), |fault| Err(refusal(fault)))
    }
}

fn fault_of_flow(flow: &Flow) -> Option<&'static str> {
    let (local, remote) = (flow.local.ip().to_canonical(), flow.remote.ip().to_canonical());
    let fault = match () {
        () if local.is_ipv4() != remote.is_ipv4() => "its two addresses are of different families",
        () if remote.is_multicast() || remote.is_unspecified() || remote.is_loopback() => {
            "its remote address is not another host's"
        }
        () if flow.remote.port() == 0 => "its remote port is 0",
        () => return fault_of_local(flow.local, false).or_else(|| fault_of_vlan(flow.vlan)),
    };
    Some(fault)
}

fn fault_of_local(local: SocketAddr, may_be_any: bool) -> Option<&'static str> {
    let ip = local.ip().to_canonical();
    match () {
        () if local.port() == 0 => Some("its local port is 0"),
        () if ip.is_multicast() => Some("a multicast address is steered as a group"),
        () if ip.is_loopback() => Some("loopback traffic does not come in by an interface"),
        () if is_broadcast(ip) => Some("broadcasts stay with the kernel"),
        () if ip.is_unspecified() && !may_be_any => Some("a flow has one local address"),
        () => None,
    }
}

fn fault_of_group(group: &Group) -> Option<&'static str> {
    let ip = group.group.ip().to_canonical();
    let source = group.source.map(|source| source.to_canonical());
    match () {
        () if !ip.is_multicast() => Some("its address is not a multicast group"),
        () if group.group.port() == 0 => Some("its port is 0"),
        () if source.is_some_and(|source| source.is_ipv4() != ip.is_ipv4()) => {
            Some("group and source are of different families")
        }
        () if source.is_some_and(|source| source.is_multicast() || source.is_unspecified()) => {
            Some("its source is not a host's address")
        }
        () => fault_of_match(group.vlan),
    }
}

fn fault_of_match(vlan: VlanMatch) -> Option<&'static str> {
    match vlan {
        VlanMatch::Any => None,
        VlanMatch::Only(vlan) => fault_of_vlan(vlan),
    }
}

fn fault_of_vlan(vlan: Vlan) -> Option<&'static str> {
    let numbers = match vlan {
        Vlan::Untagged => return None,
        Vlan::Tagged(number) => [number, number],
        Vlan::Double { outer, inner } => [outer, inner],
    };
    let sound = numbers.iter().all(|number| (1..=4094).contains(number));
    (!sound).then_some("VLAN numbers go from 1 to 4094")
}

fn is_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untagged => Ok(()),
            Self::Tagged(number) => write!(f, " vlan {number}"),
            Self::Double { outer, inner } => write!(f, " vlan {outer}.{inner}"),
        }
    }
}

impl fmt::Display for VlanMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(" any vlan"),
            Self::Only(vlan) => vlan.fmt(f),
        }
    }
}

impl fmt::Display for MapEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(Flow { protocol, local, remote, vlan }) => {
                write!(f, "flow {protocol} {local} from {remote}{vlan}")
            }
            Self::Listener(Listener { protocol, local, vlan }) => write!(f, "listener {protocol} {local}{vlan}"),
            Self::Group(Group { group, source: Some(source), vlan }) => write!(f, "group {group} from {source}{vlan}"),
            Self::Group(Group { group, source: None, vlan }) => write!(f, "group {group}{vlan}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn flow(local: &str, remote: &str) -> MapEntry {
        Flow { protocol: Protocol::Tcp, local: address(local), remote: address(remote), vlan: Vlan::Untagged }.into()
    }

    fn group(group: &str, source: Option<&str>) -> MapEntry {
        let source = source.map(|source| source.parse().unwrap());
        Group { group: address(group), source, vlan: VlanMatch::Any }.into()
    }

    fn listener(local: &str, vlan: VlanMatch) -> MapEntry {
        Listener { protocol: Protocol::Udp, local: address(local), vlan }.into()
    }

    #[test]
    fn sound_entries_are_taken() {
        let sound = [
            flow("10.0.0.1:5", "10.0.0.2:6"),
            flow("[fd00::1]:5", "[fd00::2]:6"),
            listener("0.0.0.0:5", VlanMatch::Any),
            listener("[::]:5", VlanMatch::Only(Vlan::Double { outer: 1, inner: 4094 })),
            group("239.1.2.3:5", Some("10.0.0.2")),
            group("[ff02::7]:5", None),
        ];
        for entry in sound {
            entry.check().unwrap();
        }
    }

    #[test]
    fn what_no_frame_can_match_is_refused_by_name() {
        let unsound = [
            flow("0.0.0.0:5", "10.0.0.2:6"),
            flow("10.0.0.1:0", "10.0.0.2:6"),
            flow("10.0.0.1:5", "10.0.0.2:0"),
            flow("10.0.0.1:5", "[fd00::2]:6"),
            flow("10.0.0.1:5", "239.1.2.3:6"),
            flow("127.0.0.1:5", "10.0.0.2:6"),
            listener("239.1.2.3:5", VlanMatch::Any),
            listener("255.255.255.255:5", VlanMatch::Any),
            listener("0.0.0.0:5", VlanMatch::Only(Vlan::Tagged(0))),
            listener("0.0.0.0:5", VlanMatch::Only(Vlan::Tagged(4095))),
            listener("0.0.0.0:5", VlanMatch::Only(Vlan::Double { outer: 3, inner: 0 })),
            group("10.0.0.1:5", None),
            group("239.1.2.3:0", None),
            group("239.1.2.3:5", Some("fd00::1")),
            group("239.1.2.3:5", Some("239.1.2.3")),
        ];
        for entry in unsound {
            let problem = entry.check().unwrap_err();
            assert!(problem.to_string().contains(&entry.to_string()), "{problem}");
        }
    }
}
