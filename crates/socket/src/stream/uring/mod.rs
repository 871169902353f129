//! io_uring: a send and the receive that follows it go down in one system call ([`SocketRing`]).

use crate::stream::{Options, Waiting};
use sidestep_sys::Problem;
use sidestep_sys::uring::SocketRing;
use socket2::{Socket, Type};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A socket by io_uring.
pub(crate) struct UringSocket {
    // Before `socket`: the ring ends what is under way while the descriptor is still open.
    ring: SocketRing,
    socket: Socket,
}

impl UringSocket {
    /// Makes a ring for a connected socket. [`Waiting::Spin`] never sleeps, every other waiting sleeps in io_uring_enter.
    ///
    /// # Errors
    /// io_uring is missing, switched off (kernel.io_uring_disabled) or older than Linux 6.1.
    pub(crate) fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
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

    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.ring.send(bytes)
    }

    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.ring.flush()
    }

    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ring.recv(buffer)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A byte stream of a TCP or Unix socket.
pub struct UringStream(UringSocket);

impl UringStream {
    /// Makes a ring for a connected socket, which waits as `options` say.
    pub(super) fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        UringSocket::new(socket, options).map(Self)
    }

    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }

    /// Shows bytes in the buffer of the receive.
    #[inline]
    pub(super) fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        self.0.ring.recv_with(deliver)
    }

    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    #[inline]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    pub(super) fn shutdown(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.0.socket.shutdown(Shutdown::Write)
    }

    /// Has close(2) reset the connection; what was kept back is not sent.
    pub(super) fn abort(&mut self) -> io::Result<()> {
        self.0.socket.set_linger(Some(Duration::ZERO))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }
}
