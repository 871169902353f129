//! Errors of streams and listeners.

use crate::error::Error;
use crate::reason::Reason;
use rustix::io::Errno;
use sidestep_stack::tcp;
use std::{fmt, io};

/// The reason why a call on a stream or listener did nothing, or a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// The handle, or the process, is not one that may.
    Refused(Error),
    /// Of a connection past the kernel.
    Stack(tcp::Error),
    /// The fast path went away, and with it the connections upon it: ECONNABORTED.
    Lost(Reason),
    /// The errno of the kernel's socket.
    Kernel(i32),
}

impl TcpError {
    /// Nothing to read, no room to write, nothing to accept.
    pub const WOULD_BLOCK: Self = Self::Stack(tcp::Error::WouldBlock);

    /// Not now: nothing to read, no room to write, nothing to accept.
    #[inline]
    pub fn is_would_block(self) -> bool {
        self == Self::WOULD_BLOCK || self == Self::Kernel(Errno::AGAIN.raw_os_error())
    }

    /// The errno that a socket of Linux would give.
    pub fn errno(self) -> i32 {
        let errno = match self {
            Self::Refused(Error::NotOpen) | Self::Stack(tcp::Error::NotFound) => Errno::BADF,
            Self::Refused(Error::Forked) => Errno::PERM,
            Self::Lost(_) | Self::Stack(tcp::Error::Aborted) => Errno::CONNABORTED,
            Self::Kernel(errno) => return errno,
            Self::Stack(error) => of_stack(error),
        };
        errno.raw_os_error()
    }
}

fn of_stack(error: tcp::Error) -> Errno {
    match error {
        tcp::Error::NotFound => Errno::BADF,
        tcp::Error::WouldBlock => Errno::AGAIN,
        tcp::Error::NotConnected => Errno::NOTCONN,
        tcp::Error::BrokenPipe => Errno::PIPE,
        tcp::Error::Refused => Errno::CONNREFUSED,
        tcp::Error::Reset => Errno::CONNRESET,
        tcp::Error::Aborted => Errno::CONNABORTED,
        tcp::Error::TimedOut => Errno::TIMEDOUT,
        tcp::Error::Unreachable => Errno::HOSTUNREACH,
        tcp::Error::NetworkUnreachable => Errno::NETUNREACH,
        tcp::Error::Prohibited => Errno::ACCESS,
        tcp::Error::ProtocolUnreachable => Errno::NOPROTOOPT,
        tcp::Error::AddressInUse => Errno::ADDRINUSE,
        tcp::Error::InvalidAddress => Errno::ADDRNOTAVAIL,
        tcp::Error::TooManyConnections => Errno::NOBUFS,
        tcp::Error::InvalidOption => Errno::INVAL,
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Stack(error) => error.fmt(f),
            Self::Lost(reason) => write!(f, "the fast path went away: {reason}"),
            Self::Kernel(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for TcpError {}

impl From<Error> for TcpError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<tcp::Error> for TcpError {
    fn from(error: tcp::Error) -> Self {
        Self::Stack(error)
    }
}

impl From<io::Error> for TcpError {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
    }
}

impl From<TcpError> for io::Error {
    fn from(error: TcpError) -> Self {
        Self::from_raw_os_error(error.errno())
    }
}
