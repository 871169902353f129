//! What routers and peers say of a packet that an application has sent: ICMP goes to the kernel, which does not know the
//! connections, so control hears it and tells their owner.

use super::Protocol;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// An ICMP error about a packet of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IcmpError {
    /// What the packet was of.
    pub protocol: Protocol,
    /// Where it came from: this host's end.
    pub local: SocketAddr,
    /// Where it was to go.
    pub remote: SocketAddr,
    /// Its sequence number, of TCP: to be checked against what is under way (RFC 5927), as anybody can send ICMP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// What is wrong.
    #[serde(flatten)]
    pub kind: IcmpErrorKind,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum IcmpErrorKind {
    /// Longer than a link on its way takes (RFC 1191, RFC 8201).
    TooBig {
        /// The longest IP packet that it takes, bytes; 0 from routers that do not say.
        mtu: u32,
    },
    /// It cannot be delivered.
    Unreachable {
        /// Why not.
        why: Unreachable,
    },
}

/// Why a packet cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreachable {
    /// No way to the network.
    Network,
    /// No way to the host.
    Host,
    /// It made all hops it might.
    HopLimit,
    /// The host does not speak the protocol.
    Protocol,
    /// Nobody listens on the port.
    Port,
    /// A filter forbids it.
    Prohibited,
}
