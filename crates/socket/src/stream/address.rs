//! Addresses of streams.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of a byte stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
    /// Shared memory, opened through a Unix socket of this path ([`crate::stream::shm`]).
    Shm(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) | Self::Shm(path) => write!(f, "{}", path.display()),
        }
    }
}
