//! The system calls of a running socket; all other operations are memory accesses.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null, null_mut};

/// Asks the kernel to send the frames in the TX ring: sendto(2) without data. In copy mode it sends inside the call.
///
/// EAGAIN: one call's limit is reached, more frames wait. EBUSY, ENOBUFS: the device or the COMPLETION ring has no
/// space now. ENETDOWN: the interface is down. ENXIO: the interface is gone for good.
#[inline]
pub fn transmit(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes are passed, and no address. Without MSG_DONTWAIT the call is refused (EOPNOTSUPP).
    let result = unsafe { libc::sendto(socket.as_raw_fd(), null(), 0, libc::MSG_DONTWAIT, null(), 0) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the kernel to look at the FILL ring and, with busy polling, to poll the device: recvfrom(2) without data (Linux
/// 5.11). Errors as for [`transmit`].
#[inline]
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no buffer is passed, and no address.
    let result =
        unsafe { libc::recvfrom(socket.as_raw_fd(), null_mut(), 0, libc::MSG_DONTWAIT, null_mut(), null_mut()) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether an error of a kick only means "not all of it, not now".
pub fn is_retry(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR))
}
