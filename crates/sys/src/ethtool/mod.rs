//! What a device of the calling thread's namespace tells of its queues (SIOCETHTOOL; linux/ethtool.h).
//!
//! By ioctl, and not by netlink: netlink tells the fields that are hashed from Linux 6.17 on, and flow rules never, while the
//! ioctl has told all of it since long before 5.11. Nothing that is read here takes a capability.

mod abi;
mod channels;
mod request;
mod rss;
mod rule;
mod rules;

pub use channels::{Channels, channels, receive_queues};
pub(crate) use request::{any_socket, request_for};
pub use rss::{FlowKind, HashFunction, Rss, fields, rss};
pub use rule::{FlowRule, Match};
pub use rules::list as flow_rules;

/// The bits of [`fields`], RXH_* of linux/ethtool.h.
pub mod field {
    /// The source address.
    pub const SOURCE_ADDRESS: u64 = 1 << 4;
    /// The destination address.
    pub(crate) const DESTINATION_ADDRESS: u64 = 1 << 5;
    /// The first two bytes of the transport's header: the source port.
    pub(crate) const SOURCE_PORT: u64 = 1 << 6;
    /// The two bytes that follow: the destination port.
    pub(crate) const DESTINATION_PORT: u64 = 1 << 7;
    /// Both addresses.
    pub const ADDRESSES: u64 = SOURCE_ADDRESS | DESTINATION_ADDRESS;
    /// Addresses and ports.
    pub const ALL: u64 = ADDRESSES | SOURCE_PORT | DESTINATION_PORT;
}
