//! Datagrams past the kernel: a UDP socket of the thread's engine.

use crate::Handle;
use crate::stream::Io;
use std::io::{self, ErrorKind};

/// UDP past the kernel, or by the kernel where the engine had to ([`Engine::path`](crate::Engine::path)).
#[derive(Debug)]
pub struct XdpDatagrams {
    handle: Handle,
}

impl XdpDatagrams {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns the engine's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    #[inline]
    pub(super) fn send(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        io.connected_engine()?.send(self.handle, bytes).map(|()| bytes.len()).map_err(io::Error::from)
    }

    #[inline]
    pub(super) fn receive(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        let engine = io.connected_engine()?;
        let received = engine.receive(self.handle).map_err(io::Error::other)?;
        let Some(datagram) = received else { return Err(ErrorKind::WouldBlock.into()) };
        let payload = engine.payload(&datagram);
        let count = payload.len().min(buffer.len());
        buffer[..count].copy_from_slice(&payload[..count]);
        engine.release(datagram);
        Ok(count)
    }

    #[inline]
    pub(super) fn flush(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.flush().map_err(io::Error::from)
    }
}
