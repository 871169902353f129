//! Options of TCP sockets that the socket libraries cannot read.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Missing in the libc crate (asm-generic/socket.h).
const SO_BUF_LOCK: i32 = 72;

/// The bits of SO_BUF_LOCK (linux/socket.h).
const SNDBUF_LOCK: u32 = 1;
const RCVBUF_LOCK: u32 = 2;

/// The buffers whose size the program has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetBuffers {
    /// SO_SNDBUF
    pub send: bool,
    /// SO_RCVBUF
    pub receive: bool,
}

/// Returns the buffers of a socket whose size was set (Linux 5.14; before that the call fails).
pub fn set_buffers(socket: BorrowedFd<'_>) -> io::Result<SetBuffers> {
    let locks = int_option(socket, libc::SOL_SOCKET, SO_BUF_LOCK)?;
    Ok(SetBuffers { send: locks & SNDBUF_LOCK != 0, receive: locks & RCVBUF_LOCK != 0 })
}

/// The number of bytes that a socket has to have before it is readable. SO_RCVLOWAT
pub fn receive_low_water(socket: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(int_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT)? as usize)
}

/// The largest segment of a socket that is not connected, 536 unless the program has set it. TCP_MAXSEG
pub fn segment_bytes_max(socket: BorrowedFd<'_>) -> io::Result<u32> {
    int_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)
}

/// The seconds for which a listener waits for the data of a connection before it is accepted; 0: it does not. TCP_DEFER_ACCEPT
pub fn defer_accept_s(socket: BorrowedFd<'_>) -> io::Result<u32> {
    int_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT)
}

/// Returns whether a socket has a filter (SO_ATTACH_FILTER, SO_ATTACH_BPF).
pub fn has_filter(socket: BorrowedFd<'_>) -> bool {
    let mut count: libc::socklen_t = 0;
    // SAFETY: with no room the kernel writes nothing but the number of instructions to `count`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut count,
        )
    };
    // An eBPF filter cannot be read (EACCES).
    result != 0 || count != 0
}

fn int_option(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<u32> {
    let mut value: u32 = 0;
    let mut size = size_of::<u32>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop_filter::{self, Owner};
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn a_new_socket_has_the_defaults() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = listener.as_fd();
        assert_eq!((receive_low_water(socket).unwrap(), defer_accept_s(socket).unwrap()), (1, 0));
        assert_eq!(segment_bytes_max(socket).unwrap(), 536);
        if let Ok(set) = set_buffers(socket) {
            assert_eq!(set, SetBuffers::default());
        }
        assert!(!has_filter(socket));
        assert!(drop_filter::attach(socket, Owner::new()).unwrap() && has_filter(socket));
    }
}
