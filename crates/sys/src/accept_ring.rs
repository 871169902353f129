//! accept(2) that does not wait, on a listener without O_NONBLOCK: that flag belongs to all processes that have the listener, and accept4(2)
//! has none of its own. The first attempt of io_uring's accept does not wait, and what has not come by then is cancelled.

use crate::own_descriptors;
use io_uring::{IoUring, opcode, types};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

/// Submission entries: an accept, a cancel.
const ENTRIES: u32 = 2;

const ACCEPT: u64 = 1;
const CANCEL: u64 = 2;

/// A ring for such calls, one at a time.
pub struct AcceptRing(IoUring);

impl std::fmt::Debug for AcceptRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AcceptRing")
    }
}

impl AcceptRing {
    /// # Errors
    /// io_uring is missing or switched off (kernel.io_uring_disabled, a filter of system calls), or there is no descriptor left.
    pub fn new() -> io::Result<Self> {
        let low: IoUring = IoUring::builder().dontfork().build(ENTRIES)?;
        // SAFETY: the ring is open as long as `low` lives.
        let high = own_descriptors::duplicate(unsafe { BorrowedFd::borrow_raw(low.as_raw_fd()) })?;
        // SAFETY: the descriptor is of the ring whose parameters these are, and belongs to the new value.
        let ring = unsafe { IoUring::from_fd(high.into_raw_fd(), low.params().clone()) }?;
        Ok(Self(ring))
    }

    /// Accepts a connection if there is one; `None` where there is none. Returns a descriptor that belongs to the caller.
    ///
    /// # Errors
    /// Those of accept4(2), and of io_uring_enter(2).
    ///
    /// # Safety
    /// `address` and `length` as of accept4(2).
    pub unsafe fn accept(
        &mut self,
        listener: BorrowedFd<'_>,
        address: *mut libc::sockaddr,
        length: *mut libc::socklen_t,
        flags: c_int,
    ) -> io::Result<Option<c_int>> {
        let accept = opcode::Accept::new(types::Fd(listener.as_raw_fd()), address, length).flags(flags);
        // SAFETY: the places are valid until the end of the call, and this returns when the operation has ended.
        unsafe { self.push(&accept.build().user_data(ACCEPT)) };
        loop {
            // SAFETY: the entry has no buffer.
            unsafe { self.push(&opcode::AsyncCancel::new(ACCEPT).build().user_data(CANCEL)) };
            if let Some(result) = self.await_cancel()? {
                return match result {
                    number @ 0.. => Ok(Some(number)),
                    _ if [libc::EAGAIN, libc::ECANCELED, libc::EINTR].contains(&-result) => Ok(None),
                    errno => Err(io::Error::from_raw_os_error(-errno)),
                };
            }
            // A connection came between the attempt and the cancel, and another process has got it: the accept waits again.
        }
    }

    /// # Safety
    /// What the entry names is valid until it has ended.
    unsafe fn push(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: the caller's promise. There is room: all entries were submitted before.
        let _ = unsafe { self.0.submission().push(entry) };
    }

    /// Submits, and waits until the cancel has ended. Returns the result of the accept if it has ended.
    fn await_cancel(&mut self) -> io::Result<Option<c_int>> {
        let (mut is_over, mut result) = (false, None);
        while !is_over {
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for entry in self.0.completion() {
                match entry.user_data() {
                    ACCEPT => result = Some(entry.result()),
                    _ => is_over = true,
                }
            }
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};
    use std::ptr::null_mut;

    #[test]
    fn a_blocking_listener_is_asked_without_waiting() {
        let Ok(mut ring) = AcceptRing::new() else { return eprintln!("skipped: no io_uring") };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: null is allowed.
        let mut accept = || unsafe { ring.accept(listener.as_fd(), null_mut(), null_mut(), libc::SOCK_CLOEXEC) };
        assert_eq!(accept().unwrap(), None);
        let _one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let number = accept().unwrap().expect("a connection is there");
        // SAFETY: nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
        assert_eq!(accept().unwrap(), None);
        let _other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.accept().expect("an accept that was cancelled takes nothing");
    }

    #[test]
    fn the_error_is_that_of_accept() {
        let Ok(mut ring) = AcceptRing::new() else { return eprintln!("skipped: no io_uring") };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // SAFETY: null is allowed.
        let failed = unsafe { ring.accept(socket.as_fd(), null_mut(), null_mut(), 0) }.unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}
