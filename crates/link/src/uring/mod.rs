//! io_uring: a send and the receive that follows it go down in one system call.
//!
//! One ring per link, used by one thread. A send is staged; the next receive (or flush) submits it. When no receive is
//! under way the two are linked, so that the receive starts when the send is done and one completion, the receive's,
//! tells of both: the thread sleeps and wakes once per message instead of twice.
//!
//! The ring is created disabled and enabled by the first call, because with IORING_SETUP_SINGLE_ISSUER it belongs to the
//! thread that enables it. With IORING_SETUP_DEFER_TASKRUN (Linux 6.1) completions are made inside our own calls, never
//! by interrupting the thread: a spinning receive is therefore a system call that does not wait.

mod ring;

use crate::{Link, Options, Waiting};
use ring::Ring;
use sidestep_sys::Problem;
use socket2::Socket;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

/// A link over io_uring.
pub struct UringLink {
    // Before `socket`: the ring ends what is under way while the descriptor is still open.
    ring: Ring,
    socket: Socket,
}

impl UringLink {
    /// Makes a ring for a connected socket. [`Waiting::Spin`] never sleeps, every other way sleeps in io_uring_enter.
    ///
    /// Fails where io_uring is missing, switched off (kernel.io_uring_disabled) or older than Linux 6.1.
    pub fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        socket.set_nonblocking(false).map_err(|error| Problem::failed("cannot prepare the socket", error))?;
        let ring = Ring::new(&socket, options.waiting == Waiting::Spin, options.timeout).map_err(|error| {
            Problem::failed("cannot create an io_uring", error)
                .next("it needs Linux 6.1 or later and kernel.io_uring_disabled = 0; the kernel paths work without it")
        })?;
        Ok(Self { ring, socket })
    }
}

impl Link for UringLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ring.send(bytes)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.ring.flush()
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ring.recv(buffer)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.ring.flush()?;
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
