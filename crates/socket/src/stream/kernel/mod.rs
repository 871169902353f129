//! The socket calls of the kernel: one implementation for TCP, UDP and Unix sockets, four ways to wait.

mod epoll;

use crate::stream::unread::{Unread, copy_to};
use crate::stream::{Link, Options, Waiting};
use epoll::Epoll;
use rustix::net::SendFlags;
use sidestep_sys::Problem;
use sidestep_sys::socket::set_busy_poll;
use socket2::Socket;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A link over send(2) and recv(2).
pub struct KernelLink {
    socket: Socket,
    epoll: Option<Epoll>,
    unread: Unread,
}

impl KernelLink {
    /// Prepares a connected socket to wait as `options` say.
    ///
    /// Fails when SO_BUSY_POLL is asked for and not allowed: raising it needs CAP_NET_ADMIN.
    pub fn new(socket: Socket, options: &Options) -> Result<Self, Problem> {
        let fail = |error| Problem::failed("cannot prepare the socket", error);
        let asleep = matches!(options.waiting, Waiting::Block | Waiting::BusyPoll { .. });
        socket.set_nonblocking(!asleep).map_err(fail)?;
        if asleep {
            socket.set_read_timeout(Some(options.timeout)).map_err(fail)?;
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
        Ok(Self { socket, epoll, unread: Unread::default() })
    }

    /// Over a connected socket that is non-blocking already.
    pub(super) fn non_blocking(socket: Socket) -> Self {
        Self { socket, epoll: None, unread: Unread::default() }
    }

    /// Has close(2) reset the connection.
    pub(super) fn abort(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        match &self.epoll {
            Some(epoll) if !epoll.wait()? => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    /// Shows bytes of a stream in a buffer of this end.
    #[inline]
    pub(super) fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        if self.unread.is_empty() {
            self.wait()?;
        }
        let Self { socket, unread, .. } = self;
        unread.receive(|space| (&*socket).read(space), deliver)
    }
}

impl Link for KernelLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A program in C has not SIGPIPE ignored, as Rust's have.
        self.socket.send_with_flags(bytes, SendFlags::NOSIGNAL.bits() as i32)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.unread.is_empty() {
            return self.receive_with(&mut copy_to(buffer));
        }
        self.wait()?;
        self.socket.read(buffer)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
