//! Datagrams over two rings in memory that two processes of this host share.

use crate::stream::shm::Rings;
use sidestep_ring::spsc::Consumer;
use sidestep_ring::{Fault, ReadError};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

/// Datagrams to a process of this host: with borders, as UDP, but none is lost, repeated or moved.
///
/// One has at most half of the ring's bytes, less eight. 0 from a receive is the end; an empty datagram, which could not be told
/// from it, is refused.
pub struct ShmDatagrams(Rings);

impl ShmDatagrams {
    pub(super) fn new(rings: Rings) -> Self {
        Self(rings)
    }

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
