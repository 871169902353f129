//! Steering entries: the traffic of an interface that a stack receives.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl Protocol {
    /// Its IANA number.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// One steering entry. Without a VLAN id it is for untagged frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Entry {
    /// The packets of one connection.
    Flow {
        /// The protocol.
        protocol: Protocol,
        /// This host's end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
        /// The VLAN.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
    },
    /// Everything to a port that no flow matches.
    Listener {
        /// The protocol.
        protocol: Protocol,
        /// The port, with the address, or the unspecified address for all of this host.
        local: SocketAddr,
        /// The VLAN.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
    },
    /// UDP to a multicast group. Each packet goes to one receiver: the kernel and other stacks no longer see it.
    Multicast {
        /// The group and the port.
        group: SocketAddr,
        /// The only accepted source (source-specific multicast); any if `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<IpAddr>,
        /// The VLAN.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vlan: Option<u16>,
    },
}

impl Entry {
    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Flow { protocol, .. } | Self::Listener { protocol, .. } => *protocol,
            Self::Multicast { .. } => Protocol::Udp,
        }
    }

    /// The destination address and port of the packets.
    pub fn local(&self) -> SocketAddr {
        match self {
            Self::Flow { local, .. } | Self::Listener { local, .. } => *local,
            Self::Multicast { group, .. } => *group,
        }
    }

    /// The VLAN id; `None` for untagged frames.
    pub fn vlan(&self) -> Option<u16> {
        match self {
            Self::Flow { vlan, .. } | Self::Listener { vlan, .. } | Self::Multicast { vlan, .. } => *vlan,
        }
    }

    /// The canonical form of the same traffic: an IPv4-mapped IPv6 address becomes the IPv4 address, and fields that a
    /// packet does not carry (scope, flow label) are left out.
    #[must_use]
    pub fn canonical(self) -> Self {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        match self {
            Self::Flow { protocol, local, remote, vlan } => {
                Self::Flow { protocol, local: plain(local), remote: plain(remote), vlan }
            }
            Self::Listener { protocol, local, vlan } => Self::Listener { protocol, local: plain(local), vlan },
            Self::Multicast { group, source, vlan } => {
                Self::Multicast { group: plain(group), source: source.map(|source| source.to_canonical()), vlan }
            }
        }
    }

    /// The fault of the entry itself, independent of the host.
    pub fn fault(&self) -> Option<&'static str> {
        let local = self.local();
        if local.port() == 0 {
            return Some("port 0 is not valid");
        }
        if self.vlan().is_some_and(|id| id == 0 || id > 4094) {
            return Some("a VLAN id is 1 to 4094");
        }
        match self {
            Self::Flow { remote, .. } if remote.port() == 0 => Some("port 0 is not valid"),
            Self::Flow { remote, .. } if remote.is_ipv4() != local.is_ipv4() => Some("two address families"),
            Self::Flow { remote, .. } if !is_host(local.ip()) || !is_host(remote.ip()) => {
                Some("both ends of a flow are hosts")
            }
            Self::Listener { .. } if local.ip().is_multicast() => Some("a group must be joined, not listened on"),
            Self::Multicast { .. } if !local.ip().is_multicast() => Some("the group is not a multicast address"),
            Self::Multicast { source: Some(source), .. } if source.is_ipv4() != local.is_ipv4() => {
                Some("two address families")
            }
            Self::Multicast { source: Some(source), .. } if !is_host(*source) => Some("the source is not a host"),
            _ => None,
        }
    }
}

fn is_host(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && address != IpAddr::from([255, 255, 255, 255])
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow { protocol, local, remote, .. } => write!(f, "{protocol} {local} from {remote}"),
            Self::Listener { protocol, local, .. } => write!(f, "{protocol} {local}"),
            Self::Multicast { group, source: Some(source), .. } => write!(f, "udp {group} from {source}"),
            Self::Multicast { group, source: None, .. } => write!(f, "udp {group}"),
        }?;
        self.vlan().map_or(Ok(()), |id| write!(f, " vlan {id}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_cannot_be_steered_is_named() {
        let flow = |local: &str, remote: &str, vlan| {
            Entry::Flow { protocol: Protocol::Udp, local: at(local), remote: at(remote), vlan }.fault()
        };
        assert_eq!(flow("198.18.0.1:7", "198.18.0.2:9", None), None);
        assert_eq!(flow("198.18.0.1:7", "198.18.0.2:9", Some(4095)), Some("a VLAN id is 1 to 4094"));
        assert_eq!(flow("198.18.0.1:0", "198.18.0.2:9", None), Some("port 0 is not valid"));
        assert_eq!(flow("0.0.0.0:7", "198.18.0.2:9", None), Some("both ends of a flow are hosts"));
        assert_eq!(flow("198.18.0.1:7", "[2001:2::2]:9", None), Some("two address families"));
        let group = |group: &str, source: Option<&str>| {
            let source = source.map(|source| source.parse().unwrap());
            Entry::Multicast { group: at(group), source, vlan: None }.fault()
        };
        assert_eq!(group("239.1.1.1:7", Some("198.18.0.2")), None);
        assert_eq!(group("198.18.0.1:7", None), Some("the group is not a multicast address"));
        assert_eq!(group("239.1.1.1:7", Some("2001:2::2")), Some("two address families"));
        let listener = Entry::Listener { protocol: Protocol::Tcp, local: at("239.1.1.1:7"), vlan: None };
        assert_eq!(listener.fault(), Some("a group must be joined, not listened on"));
    }

    #[test]
    fn entries_are_said_in_one_line() {
        let entry = Entry::Listener { protocol: Protocol::Tcp, local: at("[::]:80"), vlan: Some(7) };
        assert_eq!(entry.to_string(), "tcp [::]:80 vlan 7");
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(text, r#"{"kind":"listener","protocol":"tcp","local":"[::]:80","vlan":7}"#);
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
