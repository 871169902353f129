//! ICMP errors about an application's packets. ICMP goes to the kernel, which does not know the connections, so control
//! receives the errors and passes them on to the owner.

use super::Protocol;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// An ICMP error about a packet of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IcmpError {
    /// The protocol of the packet.
    pub protocol: Protocol,
    /// Its source: this host's end.
    pub local: SocketAddr,
    /// Its destination.
    pub remote: SocketAddr,
    /// Its TCP sequence number, to be checked against the data in flight (RFC 5927), because anybody can send ICMP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// The kind of error.
    #[serde(flatten)]
    pub kind: IcmpErrorKind,
}

/// The kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum IcmpErrorKind {
    /// The packet exceeds a link's MTU on the path (RFC 1191, RFC 8201).
    TooBig {
        /// The MTU of that link, bytes; 0 from routers that do not report it.
        mtu: u32,
    },
    /// The packet cannot be delivered.
    Unreachable {
        /// The reason.
        why: Unreachable,
    },
}

/// The reason why a packet cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreachable {
    /// No route to the network.
    Network,
    /// No route to the host.
    Host,
    /// The hop limit was exceeded in transit.
    HopLimit,
    /// The host does not support the protocol.
    Protocol,
    /// No socket listens on the port.
    Port,
    /// Prohibited by a filter.
    Prohibited,
}
