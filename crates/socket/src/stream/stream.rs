//! One connected byte stream, whatever carries it.

use super::kernel::KernelStream;
use super::shm::ShmStream;
use super::unread::copy_to;
use super::uring::UringStream;
use super::xdp::XdpStream;
use super::{Backend, Io, Options, Script, is_retry};
use crate::Path;
use sidestep_sys::Problem;
use socket2::Socket;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A connected byte stream in the hands of one thread.
///
/// Calls are dispatched statically and do not allocate, unless `deliver` leaves bytes. `WouldBlock` is their "not now": at once for a
/// stream that never waits; of one that does, a read gives it after the timeout of its options
/// ([`Waiting`](super::Waiting) says which writes wait, too).
///
/// A stream of [`connect`](super::connect), [`Listener::accept_within`](super::Listener::accept_within) and [`Stream::waiting`]
/// waits as its options say. One of [`Connecting`](super::Connecting), [`Listener::accept`](super::Listener::accept) and
/// [`Stream::over`] never waits.
#[expect(clippy::large_enum_variant, reason = "a box would be one more line of cache on the path of bytes")]
pub enum Stream {
    /// TCP or a Unix socket, by the kernel's socket calls.
    Kernel(KernelStream),
    /// The same by io_uring.
    Uring(UringStream),
    /// Two rings in memory that is shared with a process of this host.
    Shm(ShmStream),
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
        Ok(Self::Kernel(KernelStream::non_blocking(socket)))
    }

    /// Makes a stream of a connected TCP or Unix socket that waits as `options` say, by their back-end. The socket's own options
    /// (TCP_NODELAY, buffers) stay as they are.
    ///
    /// # Errors
    /// The socket cannot be prepared: SO_BUSY_POLL is not allowed, io_uring is not there.
    pub fn waiting(socket: impl Into<OwnedFd>, options: &Options) -> Result<Self, Problem> {
        let socket = Socket::from(socket.into());
        Ok(match options.backend {
            Backend::Kernel => Self::Kernel(KernelStream::new(socket, options)?),
            Backend::Uring => Self::Uring(UringStream::new(socket, options)?),
        })
    }

    /// Has a stream that never waits, and was not used yet, wait as `options` say.
    pub(super) fn with_waiting(self, options: &Options) -> Result<Self, Problem> {
        match self {
            Self::Kernel(stream) => Self::waiting(stream.into_socket(), options),
            Self::Shm(mut stream) => {
                let set = stream.set_waiting(options);
                set.map_err(|error| Problem::failed("cannot prepare the stream", error))?;
                Ok(Self::Shm(stream))
            }
            Self::Xdp(stream) => Ok(Self::Xdp(stream.with_waiting(options))),
            other => Ok(other),
        }
    }

    /// Reads into `buffer` what has come; 0 when the peer has finished.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come; the error that has ended the stream.
    #[inline]
    pub fn read(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.read(buffer),
            Self::Uring(stream) => stream.read(buffer),
            Self::Shm(stream) => stream.read(buffer),
            Self::Xdp(stream) => stream.receive_with(io, &mut copy_to(buffer)),
            Self::Script(script) => script.read(buffer),
        }
    }

    /// Shows what has come to `deliver`, where it stands: in the frame past the kernel, in the buffer of io_uring's receive, else in
    /// the buffer of `io` (the other process could change what stands in a ring). `deliver` returns how many bytes it has taken,
    /// and may be called several times. A callee takes all that it is shown and keeps parts of messages itself. One that takes less
    /// cannot take more now: the rest is kept in memory of the stream and shown again, alone or with what follows, and what comes
    /// behind it waits. Returns the bytes taken; 0 when the peer has finished and nothing is left.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come or nothing was taken; the error that has ended the stream.
    #[inline]
    pub fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        match self {
            Self::Kernel(stream) => stream.receive_with(&mut io.buffer, deliver),
            Self::Uring(stream) => stream.receive_with(deliver),
            Self::Shm(stream) => stream.receive_with(&mut io.buffer, deliver),
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
            Self::Kernel(stream) => stream.write(bytes),
            Self::Uring(stream) => stream.write(bytes),
            Self::Shm(stream) => stream.write(bytes),
            Self::Xdp(stream) => stream.write(io, bytes),
            Self::Script(script) => script.write(bytes),
        }
    }

    /// Hands over all of `bytes`, and tries again for as long as there is no room: past the kernel the engine is polled meanwhile,
    /// as room comes from ACKs. A peer that does not read holds up the call.
    ///
    /// # Errors
    /// The error that has ended the stream.
    pub fn write_all(&mut self, io: &mut Io, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(io, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if is_retry(&error) => self.make_room(io)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn make_room(&self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Xdp(_) => io.poll().map_err(io::Error::other),
            _ => {
                std::hint::spin_loop();
                Ok(())
            }
        }
    }

    /// Makes everything written leave. Only io_uring keeps bytes back, until the next read or flush.
    ///
    /// # Errors
    /// The error of an earlier write.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Uring(stream) => stream.flush(),
            Self::Kernel(_) | Self::Shm(_) | Self::Xdp(_) | Self::Script(_) => Ok(()),
        }
    }

    /// Ends this side's sending: the peer reads 0 behind what was written.
    ///
    /// # Errors
    /// The stream is not connected any more.
    pub fn shutdown(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.shutdown(),
            Self::Uring(stream) => stream.shutdown(),
            Self::Shm(stream) => {
                stream.shutdown();
                Ok(())
            }
            Self::Xdp(stream) => stream.shutdown(io),
            Self::Script(_) => Ok(()),
        }
    }

    /// Ends this side's sending after what was written has left; the drop that follows ends the other direction. Past the kernel both
    /// end here, with the polls that follow; a drop alone closes nothing there.
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
    /// acknowledged is lost. In shared memory the peer reads 0 behind what was written.
    ///
    /// # Errors
    /// The stream has ended already, which callers mostly ignore.
    pub fn abort(&mut self, io: &mut Io) -> io::Result<()> {
        match self {
            Self::Kernel(stream) => stream.abort(),
            Self::Uring(stream) => stream.abort(),
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

    /// Returns what becomes readable (poll(2), epoll(7)) when bytes come; in shared memory only with
    /// [`Waiting::Epoll`](super::Waiting::Epoll), and not for io_uring, which reads them itself. Bytes that
    /// [`Stream::receive_with`] has left do not make it readable again. Past the kernel there is none: the engine has one for all
    /// its streams ([`Engine::socket`](crate::Engine::socket)).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(stream) => Some(stream.descriptor()),
            Self::Uring(stream) => Some(stream.descriptor()),
            Self::Shm(stream) => Some(stream.descriptor()),
            Self::Xdp(_) | Self::Script(_) => None,
        }
    }

    /// Returns whether the descriptor becomes writable when there is room. Where it does not, room is found by trying.
    pub fn signals_room(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }
}
