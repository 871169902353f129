//! The socket calls of the kernel: one implementation for TCP, UDP and Unix sockets, and every kind of waiting.

mod epoll;

use crate::stream::options::TIMEOUT_MIN;
use crate::stream::unread::{ReadBuffer, Unread, copy_to};
use crate::stream::{Options, Waiting};
use epoll::Epoll;
use rustix::net::SendFlags;
use sidestep_sys::Problem;
use sidestep_sys::socket::set_busy_poll;
use socket2::Socket;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A socket by send(2) and recv(2), which waits as its options say.
pub(crate) struct KernelSocket {
    socket: Socket,
    epoll: Option<Epoll>,
}

impl KernelSocket {
    /// Prepares a connected socket to wait as `options` say.
    ///
    /// # Errors
    /// SO_BUSY_POLL is asked for and not allowed: raising it needs CAP_NET_ADMIN.
    pub(crate) fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        let fail = |error| Problem::failed("cannot prepare the socket", error);
        let asleep = matches!(options.waiting, Waiting::Block | Waiting::BusyPoll { .. });
        socket.set_nonblocking(!asleep).map_err(fail)?;
        if asleep {
            let timeout = Some(options.timeout.max(TIMEOUT_MIN));
            socket.set_read_timeout(timeout).and_then(|()| socket.set_write_timeout(timeout)).map_err(fail)?;
        }
        if let Waiting::BusyPoll { microseconds } = options.waiting {
            set_busy_poll(socket.as_fd(), microseconds).map_err(|error| {
                Problem::failed(format!("cannot set SO_BUSY_POLL to {microseconds} us"), error)
                    .next("it needs CAP_NET_ADMIN: run as root, or raise net.core.busy_read")
            })?;
        }
        let epoll = match options.waiting {
            Waiting::Epoll => Some(Epoll::watching(&socket, options.timeout).map_err(fail)?),
            _ => None,
        };
        Ok(Self { socket, epoll })
    }

    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // A program in C has not SIGPIPE ignored, as Rust's have.
        self.socket.send_with_flags(bytes, SendFlags::NOSIGNAL.bits() as i32)
    }

    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        (&self.socket).read(buffer)
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        match &self.epoll {
            Some(epoll) if !epoll.wait()? => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A byte stream of a TCP or Unix socket.
pub struct KernelStream {
    socket: KernelSocket,
    unread: Unread,
}

impl KernelStream {
    /// Prepares a connected socket to wait as `options` say.
    pub(super) fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        Ok(Self { socket: KernelSocket::new(socket, options)?, unread: Unread::default() })
    }

    /// Over a connected socket that is non-blocking already.
    pub(super) fn non_blocking(socket: Socket) -> Self {
        Self { socket: KernelSocket { socket, epoll: None }, unread: Unread::default() }
    }

    /// Gives back the socket of a stream that nothing was read from.
    pub(super) fn into_socket(self) -> Socket {
        self.socket.socket
    }

    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.unread.is_empty() {
            return Ok(self.unread.show_left(&mut copy_to(buffer)));
        }
        self.socket.receive(buffer)
    }

    /// Shows bytes in `buffer`.
    #[inline]
    pub(super) fn receive_with(
        &mut self,
        buffer: &mut ReadBuffer,
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> io::Result<usize> {
        if self.unread.is_empty() {
            self.socket.wait()?;
        }
        let Self { socket, unread } = self;
        unread.receive(buffer, |space| (&socket.socket).read(space), deliver)
    }

    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes)
    }

    pub(super) fn shutdown(&mut self) -> io::Result<()> {
        self.socket.socket.shutdown(Shutdown::Write)
    }

    /// Has close(2) reset the connection.
    pub(super) fn abort(&mut self) -> io::Result<()> {
        self.socket.socket.set_linger(Some(Duration::ZERO))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }
}
