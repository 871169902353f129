//! One connected byte stream, whatever carries it.

use super::kernel::KernelLink;
use super::shm::ShmLink;
use super::unread::copy_to;
use super::uring::UringLink;
use super::xdp::XdpStream;
use super::{Io, Link, Script};
use crate::Path;
use socket2::Socket;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A connected byte stream in the hands of one thread.
///
/// Calls do not allocate and are dispatched statically. `WouldBlock` is their "not now": at once for a stream that never waits,
/// after the time that its options say for one that does ([`Waiting`](super::Waiting)).
#[expect(clippy::large_enum_variant, reason = "a box would be one more line of cache on the path of bytes")]
pub enum Stream {
    /// TCP or a Unix socket, by the kernel's socket calls.
    Kernel(KernelLink),
    /// The same by io_uring.
    Uring(UringLink),
    /// Two rings in memory that is shared with a process of this host.
    Shm(ShmLink),
    /// TCP past the kernel.
    Xdp(XdpStream),
    /// Bytes of a test's script.
    Script(Box<dyn Script>),
}

impl Stream {
    /// Makes a stream that never waits of a connected TCP or Unix socket.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn over(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        let socket = Socket::from(socket.into());
        socket.set_nonblocking(true)?;
        Ok(Self::Kernel(KernelLink::non_blocking(socket)))
    }

    /// Reads into `buffer` what has come; 0 when the peer has finished.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come; the error that has ended the stream.
    #[inline]
    pub fn read(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(link) => link.recv(buffer),
            Self::Uring(link) => link.recv(buffer),
            Self::Shm(link) => link.recv(buffer),
            Self::Xdp(stream) => stream.receive_with(io, &mut copy_to(buffer)),
            Self::Script(script) => script.read(buffer),
        }
    }

    /// Shows what has come to `deliver`, where it stands: in the frame past the kernel, else in a buffer of
    /// the stream (the other process could change what stands in a ring). `deliver` returns how many bytes it has taken, and may be called several times.
    /// A callee takes all that it is shown and keeps parts of messages itself. One that takes less cannot take more now: the
    /// rest is shown again, alone or with what follows, and what comes behind it waits. Returns the bytes taken; 0 when the peer has finished and nothing is left.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come or nothing was taken; the error that has ended the stream.
    #[inline]
    pub fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        match self {
            Self::Kernel(link) => link.receive_with(deliver),
            Self::Uring(link) => link.receive_with(deliver),
            Self::Shm(link) => link.receive_with(deliver),
            Self::Xdp(stream) => stream.receive_with(io, deliver),
            Self::Script(script) => script.receive_with(deliver),
        }
    }

    /// Hands over `bytes` and returns how many were taken.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room: a peer that does not read. The error that has ended the stream.
    #[inline]
    pub fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(link) => link.send(bytes),
            Self::Uring(link) => link.send(bytes),
            Self::Shm(link) => link.send(bytes),
            Self::Xdp(stream) => stream.write(io, bytes),
            Self::Script(script) => script.write(bytes),
        }
    }

    /// Makes everything written leave. Only io_uring keeps bytes back, until the next read or flush.
    ///
    /// # Errors
    /// The error of an earlier write.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Uring(link) => link.flush(),
            Self::Kernel(_) | Self::Shm(_) | Self::Xdp(_) | Self::Script(_) => Ok(()),
        }
    }

    /// Ends this side's sending: the peer reads 0 behind what was written.
    ///
    /// # Errors
    /// The stream is not connected any more.
    pub fn shutdown(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Kernel(link) => link.shutdown(),
            Self::Uring(link) => link.shutdown(),
            Self::Shm(link) => link.shutdown(),
            Self::Xdp(stream) => stream.shutdown(io),
            Self::Script(_) => Ok(()),
        }
    }

    /// Ends both directions after what was written has left. The stream is dropped afterwards; past the kernel a drop alone
    /// closes nothing.
    ///
    /// # Errors
    /// The stream has ended already, which callers mostly ignore.
    pub fn close(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Xdp(stream) => stream.close(io),
            other => other.shutdown(io),
        }
    }

    /// Ends the stream at once, when it is dropped at the latest: the peer of a TCP connection gets a RST, and what it has not
    /// acknowledged is lost.
    ///
    /// # Errors
    /// The stream has ended already, which callers mostly ignore.
    pub fn abort(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Kernel(link) => link.abort(),
            Self::Xdp(stream) => stream.abort(io),
            other => other.shutdown(io),
        }
    }

    /// Returns the path of a stream past the kernel, with the reason where the kernel carries it after all; `None` of every
    /// other stream, whose kind is its path.
    pub fn path(&self, io: &mut Io) -> Option<Path> {
        match self {
            Self::Xdp(stream) => stream.path(io),
            _ => None,
        }
    }

    /// Returns what becomes readable (poll(2), epoll(7)) when there is something to read. Past the kernel there is none: the
    /// engine has one for all its streams ([`Engine::socket`](crate::Engine::socket)).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(link) => Some(link.socket()),
            Self::Uring(link) => Some(link.socket()),
            Self::Shm(link) => Some(link.socket()),
            Self::Xdp(_) | Self::Script(_) => None,
        }
    }

    /// Returns whether the descriptor becomes writable when there is room. Where it does not, room is found by trying.
    pub fn signals_room(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }
}
