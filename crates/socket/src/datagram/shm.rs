//! Datagrams over two rings in memory that two processes of this host share.

use super::DatagramSocket;
use crate::stream::shm::{Acceptor, Kind, Refusals, Rings, Settings, dial};
use crate::stream::{Credentials, Options};
use sidestep_ring::spsc::Consumer;
use sidestep_ring::{Fault, ReadError};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// Datagrams to a process of this host: with borders, as UDP, but none is lost, repeated or moved.
///
/// One has at most half of the ring's bytes, less eight. 0 from a receive is the end; an empty datagram, which could not be told
/// from it, is refused.
pub struct ShmDatagrams(Rings);

impl ShmDatagrams {
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "an empty datagram cannot be told from the end"));
        }
        self.0.send(bytes.len(), |producer| producer.try_send(bytes).map(|()| bytes.len()))
    }

    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(|consumer| take(consumer, buffer))
    }

    pub(super) fn shutdown(&mut self) {
        self.0.shutdown();
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }
}

#[inline]
fn take(consumer: &mut Consumer, buffer: &mut [u8]) -> Result<usize, ReadError> {
    let message = consumer.front()?;
    let count = message.len().min(buffer.len());
    if message.is_empty() {
        return Err(ReadError::Faulty(Fault::RecordLength));
    }
    buffer[..count].copy_from_slice(&message[..count]);
    consumer.release();
    Ok(count)
}

/// Connects to a [`ShmListener`] at `path` and hands it two rings. It need not have accepted when this returns.
///
/// # Errors
/// Nobody listens there, another user does, or `options` ask for what shared memory cannot do.
pub fn connect_shm(path: &Path, settings: &Settings, options: &Options) -> Result<DatagramSocket, Problem> {
    Ok(DatagramSocket::Shm(ShmDatagrams(dial(path, Kind::Datagram, settings, options)?)))
}

/// Accepts datagram sockets over shared memory.
pub struct ShmListener {
    acceptor: Acceptor,
    options: Options,
}

impl ShmListener {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The path cannot be had, or `options` ask for what shared memory cannot do.
    pub fn bind(path: &Path, settings: Settings, options: &Options) -> Result<Self, Problem> {
        Ok(Self { acceptor: Acceptor::bind(path, Kind::Datagram, settings, options)?, options: *options })
    }

    /// Waits for a connector, and returns its socket and who it is.
    ///
    /// # Errors
    /// `WouldBlock` when none came within `timeout`; accepting failed.
    pub fn accept_within(&mut self, timeout: Duration) -> io::Result<(DatagramSocket, Option<Credentials>)> {
        let (mut rings, who) = self.acceptor.accept(timeout)?;
        rings.set_waiting(&self.options)?;
        Ok((DatagramSocket::Shm(ShmDatagrams(rings)), who))
    }

    /// Returns the connectors refused so far.
    pub fn refusals(&self) -> Refusals {
        self.acceptor.refusals().copy()
    }
}
