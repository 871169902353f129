//! A stream past the kernel: a connection of the thread's engine.

use super::Io;
use super::unread::Unread;
use crate::Path;
use crate::tcp::{Readiness, Shutdown, TcpError, TcpStream};
use std::io;

/// TCP past the kernel, or by the kernel where the engine had to (`XdpStream::path`).
#[derive(Debug)]
pub struct XdpStream {
    stream: TcpStream,
    /// Polls of the engine when this stream was read last.
    polls: u64,
    /// Of a connection that the kernel carries.
    unread: Unread,
}

impl XdpStream {
    /// A stream of the engine of `io`.
    pub(super) fn new(io: &Io, stream: TcpStream) -> Self {
        Self { stream, polls: io.polls, unread: Unread::default() }
    }

    /// Returns the engine's handle.
    pub fn handle(&self) -> TcpStream {
        self.stream
    }

    #[inline]
    pub(super) fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        io.was_read = true;
        // Where another stream has polled since, the payload waits in the receive buffer; and an ACK is not to leave before the
        // answer that it could ride on.
        let is_first = self.polls == io.polls;
        io.polls += u64::from(is_first);
        self.polls = io.polls;
        let mut tcp = io.connected_engine()?.tcp();
        if is_first {
            let (own, mut taken) = (self.stream, 0);
            let show = |stream, bytes: &[u8]| {
                let count = if stream == own { deliver(bytes).min(bytes.len()) } else { 0 };
                taken += count;
                count
            };
            tcp.poll_with(show).map_err(|error| of_tcp(error.into()))?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        tcp.receive_with(self.stream, &mut self.unread, deliver).map_err(of_tcp)
    }

    #[inline]
    pub(super) fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        io.connected_engine()?.tcp().send(self.stream, bytes).map_err(of_tcp)
    }

    pub(super) fn shutdown(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().shutdown(self.stream, Shutdown::Write).map_err(of_tcp)
    }

    pub(super) fn close(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().close(self.stream).map_err(of_tcp)
    }

    /// Gives the connection up: the handle is only a name for what the engine has, which has to go, too.
    pub(super) fn abort(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().abort(self.stream).map_err(of_tcp)
    }

    pub(super) fn path(&self, io: &mut Io) -> Option<Path> {
        io.engine_mut()?.tcp().path(self.stream).ok()
    }

    /// Returns whether the connection is made.
    pub(super) fn is_connected(&self, io: &mut Io) -> io::Result<bool> {
        let mut tcp = io.connected_engine()?.tcp();
        match tcp.take_error(self.stream).map_err(of_tcp)? {
            Some(error) => Err(of_tcp(error)),
            None => Ok(tcp.readiness(self.stream).map_err(of_tcp)?.has(Readiness::WRITABLE)),
        }
    }
}

#[inline]
pub(super) fn of_tcp(error: TcpError) -> io::Error {
    if error.is_would_block() { io::ErrorKind::WouldBlock.into() } else { error.into() }
}
