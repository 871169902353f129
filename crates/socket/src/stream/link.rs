//! Connected transports for programs that wait in the call.

use std::io;
use std::os::fd::BorrowedFd;

/// A connected transport.
///
/// On a stream, `recv` gives whatever bytes have come (0 = the peer has finished); on datagrams, one datagram.
pub trait Link: Send {
    /// Hands over `bytes` and returns how many were taken: a stream may take fewer, a datagram is taken whole.
    ///
    /// `WouldBlock`: none were taken, the transport is full. The bytes leave at the latest at the next [`Link::flush`] or
    /// [`Link::recv`]; an error found after they were taken is reported there. A back-end may need further calls of
    /// either to move on what did not fit the kernel's buffers at once.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes everything taken by [`Link::send`] leave. A back-end that sends at once does nothing here.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Receives into `buffer`, waiting as `Waiting` says.
    ///
    /// `WouldBlock`: nothing came, at once for `Waiting::Spin`, within `Options::timeout` for the others. A datagram
    /// longer than `buffer` is cut.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Ends this side's sending (FIN on a stream); the peer's `recv` gives 0 once it has read the rest.
    fn shutdown(&mut self) -> io::Result<()>;

    /// The kernel socket beneath, for options and facts.
    fn socket(&self) -> BorrowedFd<'_>;
}

/// Sends all of `bytes`, trying again for as long as the transport is full.
pub fn send_all(link: &mut dyn Link, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match link.send(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if is_retry(&error) => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether an error only says "not now".
pub fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
