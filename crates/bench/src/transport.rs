//! The transports.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A transport, by its name in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP with TCP_NODELAY.
    Tcp,
    /// UDP, both ends connected to each other.
    Udp,
    /// UDP to a group, upstream.
    Multicast,
    /// TLS over TCP.
    Tls,
    /// A Unix stream socket.
    Uds,
    /// A byte stream in memory that both processes share.
    Shm,
    /// One cache line of one process.
    Memory,
}

impl Transport {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Multicast => "multicast",
            Self::Tls => "tls",
            Self::Uds => "uds",
            Self::Shm => "shm",
            Self::Memory => "memory",
        }
    }

    /// Returns whether messages keep their boundaries.
    pub(crate) fn is_datagram(self) -> bool {
        matches!(self, Self::Udp | Self::Multicast)
    }

    /// The largest message, bytes.
    pub(crate) fn size_max(self) -> u32 {
        // 65,535 minus 20 bytes of IPv4 and 8 of UDP; a stream takes more, but what is measured is one message.
        if self.is_datagram() { 65_507 } else { 65_536 }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
