//! Errors of the hot path: codes without texts.

use std::{fmt, io};

/// A call on a socket that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The socket is not open: EBADF.
    NotOpen,
    /// This process was forked from the one that opened the engine, which alone may use it: EPERM.
    Forked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOpen => "the socket is not open",
            Self::Forked => "the engine belongs to the process that this one was forked from",
        })
    }
}

impl std::error::Error for Error {}

/// The reason why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The socket, or the process, is not one that may.
    Refused(Error),
    /// The socket has no peer: EDESTADDRREQ.
    NoPeer,
    /// No room now, in the ring, among the frames or in the twin: EAGAIN. Polling makes room.
    Full,
    /// Longer than the path takes, and cutting was not allowed: EMSGSIZE.
    TooLong {
        /// The longest that it takes, bytes.
        payload_max: usize,
    },
    /// The socket stands beside a program's own, which has to send this datagram ([`crate::Engine::bind_beside`]): EOPNOTSUPP.
    Beside,
    /// The kernel's errno, of the twin or of the link (ENETDOWN, ENETUNREACH, ECONNREFUSED ...).
    Kernel(i32),
}

impl SendError {
    /// The errno that a socket of Linux would give.
    pub fn errno(self) -> i32 {
        use rustix::io::Errno;
        match self {
            Self::Refused(Error::NotOpen) => Errno::BADF.raw_os_error(),
            Self::Refused(Error::Forked) => Errno::PERM.raw_os_error(),
            Self::NoPeer => Errno::DESTADDRREQ.raw_os_error(),
            Self::Full => Errno::AGAIN.raw_os_error(),
            Self::TooLong { .. } => Errno::MSGSIZE.raw_os_error(),
            Self::Beside => Errno::OPNOTSUPP.raw_os_error(),
            Self::Kernel(errno) => errno,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::NoPeer => f.write_str("the socket has no peer"),
            Self::Full => f.write_str("no room now"),
            Self::TooLong { payload_max } => write!(f, "the path takes {payload_max} bytes in one datagram"),
            Self::Beside => f.write_str("the program's own socket has to send it"),
            Self::Kernel(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::Full,
            _ => Self::Kernel(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error())),
        }
    }
}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> Self {
        Self::from_raw_os_error(error.errno())
    }
}
