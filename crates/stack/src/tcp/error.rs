//! Errors of calls on a connection.

use std::fmt;

/// The reason why a call did nothing, or why a connection has ended. Small, because it travels on the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// No such connection or listener: it was closed. `EBADF`
    NotFound,
    /// Not now: nothing to read, no room to write, nothing to accept. `EAGAIN`
    WouldBlock,
    /// The connection is not established yet, or no more. `ENOTCONN`
    NotConnected,
    /// This side has finished sending. `EPIPE`
    BrokenPipe,
    /// The peer answered the SYN with a RST. `ECONNREFUSED`
    Refused,
    /// The peer sent a RST. `ECONNRESET`
    Reset,
    /// Aborted from this side. `ECONNABORTED`
    Aborted,
    /// No answer, however often it was tried. `ETIMEDOUT`
    TimedOut,
    /// ICMP says that the host cannot be reached, and no answer came. `EHOSTUNREACH`
    Unreachable,
    /// The same of its network. `ENETUNREACH`
    NetworkUnreachable,
    /// The same because a filter forbids it, as IPv6 tells it. `EACCES`
    Prohibited,
    /// ICMP says that the host does not speak TCP, and no answer came. `ENOPROTOOPT`
    ProtocolUnreachable,
    /// A connection or listener with these addresses and ports is there already. `EADDRINUSE`
    AddressInUse,
    /// Port zero or addresses of two families. `EADDRNOTAVAIL`
    InvalidAddress,
    /// [`super::Config::connections_max`] connections are there. `ENOBUFS`
    TooManyConnections,
    /// An option's value is out of its range. `EINVAL`
    InvalidOption,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such connection: it was closed",
            Self::WouldBlock => "not now: nothing to read, no room to write, or nothing to accept",
            Self::NotConnected => "the connection is not established",
            Self::BrokenPipe => "this side has finished sending",
            Self::Refused => "the peer refused the connection",
            Self::Reset => "the peer reset the connection",
            Self::Aborted => "the connection was aborted from this side",
            Self::TimedOut => "the peer did not answer in time",
            Self::Unreachable => "the peer cannot be reached",
            Self::NetworkUnreachable => "the peer's network cannot be reached",
            Self::Prohibited => "a filter on the way forbids it",
            Self::ProtocolUnreachable => "the peer's host does not speak TCP",
            Self::AddressInUse => "these addresses and ports are in use",
            Self::InvalidAddress => "port zero, or addresses of two families",
            Self::TooManyConnections => "the stack has `connections_max` connections, the most that it may have",
            Self::InvalidOption => "an option's value is out of its range",
        })
    }
}

impl std::error::Error for Error {}
