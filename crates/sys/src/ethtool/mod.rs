//! Queues, RSS and flow rules of a device in the calling thread's namespace (SIOCETHTOOL; linux/ethtool.h).
//!
//! Uses ioctl instead of netlink: netlink reports hashed fields only since Linux 6.17 and flow rules never, whereas the
//! ioctl has reported both since long before 5.11. Reading takes no capability.

mod abi;
mod channels;
mod queue_moderation;
mod request;
mod rss;
mod rule;
mod rules;
mod timestamps;

pub use channels::{Channels, channels, receive_queues};
pub use queue_moderation::{Moderation, queue_moderation};
pub(crate) use request::{any_socket, request_for};
pub use rss::{FlowKind, HashFunction, Rss, fields, rss};
pub use rule::{FlowRule, Match};
pub use rules::list as flow_rules;
pub(crate) use timestamps::{Timestamps, timestamps};

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
