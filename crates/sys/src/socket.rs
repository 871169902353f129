//! Socket options that the socket libraries do not name.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets SO_BUSY_POLL: a blocking receive polls the device for so many microseconds before it sleeps.
/// Raising it needs CAP_NET_ADMIN (socket(7)).
pub fn set_busy_poll(socket: BorrowedFd<'_>, microseconds: u32) -> io::Result<()> {
    let value = i32::try_from(microseconds).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `value` is an int that lives for the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The NAPI instance that the last packet of this socket came through; 0 when the device has none (veth, loopback), and
/// then SO_BUSY_POLL has nothing to poll (Linux 4.12).
pub fn incoming_napi_id(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: u32 = 0;
    let mut size = size_of::<u32>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_INCOMING_NAPI_ID,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn zero_busy_poll_is_always_allowed() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        set_busy_poll(socket.as_fd(), 0).expect("lowering it needs no privilege");
        assert!(set_busy_poll(socket.as_fd(), u32::MAX).is_err(), "does not fit an int");
    }

    #[test]
    fn loopback_has_no_napi() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        assert_eq!(incoming_napi_id(socket.as_fd()).expect("the option exists since 4.12"), 0);
    }
}
