//! The system calls of a running socket; all other operations are memory accesses.

use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::BorrowedFd;

/// Asks the kernel to send the frames in the TX ring: sendto(2) without data. In copy mode it sends inside the call.
///
/// EAGAIN: one call's limit is reached, more frames wait. EBUSY, ENOBUFS: the device or the COMPLETION ring has no
/// space now. ENETDOWN: the interface is down. ENXIO: the interface is gone for good.
#[inline]
pub fn transmit(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Without MSG_DONTWAIT the call is refused (EOPNOTSUPP).
    Ok(send(socket, &[], SendFlags::DONTWAIT).map(drop)?)
}

/// Asks the kernel to look at the FILL ring and, with busy polling, to poll the device: recvfrom(2) without data (Linux
/// 5.11). Errors as for [`transmit`].
#[inline]
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(recv(socket, &mut [0; 0], RecvFlags::DONTWAIT).map(drop)?)
}

/// Returns whether an error of a kick only means "not all of it, not now".
pub fn is_retry(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR))
}
