//! A connected byte stream of any kind, never waiting.

use sidestep_socket::Path;
use sidestep_socket::stream::Link;
use sidestep_socket::tcp::{TcpError, TcpStream};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that one call brings of a stream that is read into a buffer.
const READ_BYTES: usize = 64 << 10;

/// Everything that connections share: the engine past the kernel, where one is used, and the buffer that is read into.
#[derive(Debug, Default)]
pub(super) struct Io {
    pub(super) xdp: Option<sidestep_socket::Engine>,
    buffer: Vec<u8>,
}

impl Io {
    /// Moves what is past the kernel; a no-op without it.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        match &mut self.xdp {
            Some(engine) => engine.poll().map(drop).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// The buffer, while a stream is read into it; to be given back.
    fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ_BYTES, 0);
        buffer
    }

    fn engine(&mut self) -> io::Result<&mut sidestep_socket::Engine> {
        self.xdp.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

/// One connected stream.
pub(super) enum Wire {
    /// TCP or Unix by the kernel, non-blocking.
    Socket(Socket),
    /// Rings in shared memory.
    Shm(Box<dyn Link>),
    /// TCP past the kernel.
    Xdp(TcpStream),
}

impl Wire {
    /// Reads what is there; 0 when the peer has finished.
    #[inline]
    pub(super) fn read(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => (&*socket).read(buffer),
            Self::Shm(link) => link.recv(buffer),
            Self::Xdp(stream) => io.engine()?.tcp().read(*stream, buffer).map_err(of_tcp),
        }
    }

    /// Shows what is there to `deliver`, where it stands; it takes all of it. Returns the bytes, 0 when the peer has finished.
    #[inline]
    pub(super) fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        if let Self::Xdp(stream) = self {
            return match io.engine()?.tcp().read_with(*stream, deliver).map_err(of_tcp)? {
                (0, false) => Err(ErrorKind::WouldBlock.into()),
                (count, _) => Ok(count),
            };
        }
        let mut buffer = io.take_buffer();
        let read = self.read(io, &mut buffer);
        if let Ok(count @ 1..) = read {
            deliver(&buffer[..count]);
        }
        io.buffer = buffer;
        read
    }

    /// Hands over what is taken now.
    #[inline]
    pub(super) fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => (&*socket).write(bytes),
            Self::Shm(link) => link.send(bytes),
            Self::Xdp(stream) => io.engine()?.tcp().send(*stream, bytes).map_err(of_tcp),
        }
    }

    /// Ends both directions after what was written has left.
    pub(super) fn close(&mut self, io: &mut Io) {
        match self {
            // Not an error of ours if the peer was first.
            Self::Socket(socket) => drop(socket.shutdown(std::net::Shutdown::Write)),
            Self::Shm(link) => drop(link.shutdown()),
            Self::Xdp(stream) => {
                if let Ok(engine) = io.engine() {
                    let _ = engine.tcp().close(*stream);
                }
            }
        }
    }

    /// Which way the bytes of a stream go that is to go past the kernel; nothing of any other.
    pub(super) fn path(&self, io: &mut Io) -> Option<Path> {
        let Self::Xdp(stream) = self else { return None };
        io.xdp.as_mut()?.tcp().path(*stream).ok()
    }

    /// What becomes readable when there is something to read; nothing past the kernel.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(socket) => Some(socket.as_fd()),
            Self::Shm(link) => Some(link.socket()),
            Self::Xdp(_) => None,
        }
    }
}

impl Wire {
    /// Whether the descriptor becomes writable when the peer has read. Rings in shared memory have to be looked at.
    pub(super) fn tells_of_room(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}

pub(super) fn of_tcp(error: TcpError) -> io::Error {
    if error.is_would_block() { ErrorKind::WouldBlock.into() } else { io::Error::from_raw_os_error(error.errno()) }
}

/// Whether an error only says "not now".
#[inline]
pub(super) fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
