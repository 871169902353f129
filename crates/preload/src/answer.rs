//! Outcomes of calls that we serve.

use rustix::io::Errno;
use sidestep_socket::tcp::TcpError;

/// The reason why a call has no result of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It fails with this errno.
    Errno(Errno),
    /// The descriptor is the kernel's by now: the call is the real one's.
    Kernel,
}

/// The result of a call that we serve.
pub(crate) type Answer<T> = Result<T, Stop>;

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<TcpError> for Stop {
    fn from(error: TcpError) -> Self {
        Self::Errno(Errno::from_raw_os_error(error.errno()))
    }
}
