//! One socket of datagrams, whatever carries them.

use super::shm::ShmDatagrams;
use super::xdp::XdpDatagrams;
use crate::Handle;
use crate::stream::kernel::KernelSocket;
use crate::stream::uring::UringSocket;
use crate::stream::{Backend, Io, Options};
use sidestep_sys::Problem;
use socket2::Socket;
use std::io;
use std::os::fd::BorrowedFd;

/// A socket of datagrams with one peer, in the hands of one thread.
///
/// Calls do not allocate and are dispatched statically. `WouldBlock` is their "not now": at once where the options say
/// [`Waiting::Spin`](crate::stream::Waiting::Spin), after their timeout otherwise.
#[expect(clippy::large_enum_variant, reason = "a box would be one more line of cache on the path of datagrams")]
pub enum DatagramSocket {
    /// UDP, by the kernel's socket calls.
    Kernel(KernelDatagrams),
    /// The same by io_uring.
    Uring(UringDatagrams),
    /// Two rings in memory that is shared with a process of this host.
    Shm(ShmDatagrams),
    /// UDP past the kernel.
    Xdp(XdpDatagrams),
}

/// UDP by the kernel's socket calls.
pub struct KernelDatagrams(KernelSocket);

/// UDP by io_uring.
pub struct UringDatagrams(UringSocket);

impl DatagramSocket {
    /// Makes one of a bound UDP socket, which waits as `options` say.
    pub(super) fn over(socket: Socket, options: &Options) -> Result<Self, Problem> {
        Ok(match options.backend {
            Backend::Kernel => Self::Kernel(KernelDatagrams(KernelSocket::new(socket, options)?)),
            Backend::Uring => Self::Uring(UringDatagrams(UringSocket::new(socket, options)?)),
        })
    }

    /// Makes one of a connected socket of the engine that the thread's [`Io`] has. Its calls never wait.
    pub fn past_kernel(handle: Handle) -> Self {
        Self::Xdp(XdpDatagrams::new(handle))
    }

    /// Sends one datagram, which is taken whole; returns its length. With io_uring it leaves with the next receive or flush.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room; an error of an earlier datagram.
    #[inline]
    pub fn send(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.0.send(bytes),
            Self::Uring(socket) => socket.0.send(bytes),
            Self::Shm(socket) => socket.send(bytes),
            Self::Xdp(socket) => socket.send(io, bytes),
        }
    }

    /// Receives one datagram into `buffer`, and returns its length; one that is longer is cut. In shared memory 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come; an error that the network has told.
    #[inline]
    pub fn receive(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(socket) => socket.0.receive(buffer),
            Self::Uring(socket) => socket.0.receive(buffer),
            Self::Shm(socket) => socket.receive(buffer),
            Self::Xdp(socket) => socket.receive(io, buffer),
        }
    }

    /// Makes everything sent leave.
    ///
    /// # Errors
    /// The error of an earlier send.
    #[inline]
    pub fn flush(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Uring(socket) => socket.0.flush(),
            Self::Xdp(socket) => socket.flush(io),
            Self::Kernel(_) | Self::Shm(_) => Ok(()),
        }
    }

    /// Ends this side's sending, where the carrier knows an end: in shared memory the peer receives 0 behind what was sent.
    pub fn shutdown(&mut self) {
        if let Self::Shm(socket) = self {
            socket.shutdown();
        }
    }

    /// Returns what becomes readable (poll(2), epoll(7)) when there is something to receive. Past the kernel there is none: the
    /// engine has one for all its sockets ([`Engine::socket`](crate::Engine::socket)).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(socket) => Some(socket.0.descriptor()),
            Self::Uring(socket) => Some(socket.0.descriptor()),
            Self::Shm(socket) => Some(socket.descriptor()),
            Self::Xdp(_) => None,
        }
    }
}
