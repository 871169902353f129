//! io_uring: a send and the receive that follows it go down in one system call.
//! [`SocketRing`] describes how.

use crate::stream::{Link, Options, Waiting};
use sidestep_sys::Problem;
use sidestep_sys::uring::SocketRing;
use socket2::{Socket, Type};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

/// A link over io_uring.
pub struct UringLink {
    // Before `socket`: the ring ends what is under way while the descriptor is still open.
    ring: SocketRing,
    socket: Socket,
}

impl UringLink {
    /// Makes a ring for a connected socket. [`Waiting::Spin`] never sleeps, every other way sleeps in io_uring_enter.
    ///
    /// Fails where io_uring is missing, switched off (kernel.io_uring_disabled) or older than Linux 6.1.
    pub fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        let fail = |error| Problem::failed("cannot prepare the socket", error);
        socket.set_nonblocking(false).map_err(fail)?;
        let is_stream = socket.r#type().map_err(fail)? == Type::STREAM;
        let spin = options.waiting == Waiting::Spin;
        let ring = SocketRing::new(&socket, is_stream, spin, options.timeout).map_err(|error| {
            Problem::failed("cannot create an io_uring", error)
                .next("it needs Linux 6.1 or later and kernel.io_uring_disabled = 0; the kernel paths work without it")
        })?;
        Ok(Self { ring, socket })
    }
}

impl UringLink {
    /// Shows bytes of a stream in the buffer of the receive.
    #[inline]
    pub(super) fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        self.ring.recv_with(deliver)
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
