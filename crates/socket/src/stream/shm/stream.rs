//! A byte stream over two rings.

use super::Rings;
use crate::stream::Options;
use crate::stream::unread::{ReadBuffer, Unread, copy_to};
use sidestep_ring::spsc::{Consumer, Producer};
use sidestep_ring::{ClaimError, Fault, ReadError};
use std::io;
use std::os::fd::BorrowedFd;

/// A write is cut into pieces of this part of the longest message, so that a long one is read while it is still written, and a
/// nearly full ring still takes some of it.
const PIECES: usize = 4;

/// A byte stream to a process of this host.
pub struct ShmStream {
    rings: Rings,
    /// Bytes of the message in front that were already read.
    given: usize,
    /// The longest message that is written.
    piece_max: usize,
    unread: Unread,
}

impl ShmStream {
    pub(in crate::stream) fn new(rings: Rings) -> Self {
        let piece_max = rings.message_bytes_max() / PIECES;
        Self { rings, given: 0, piece_max, unread: Unread::default() }
    }

    /// Has calls wait as `options` say, before the first of them.
    pub(in crate::stream) fn set_waiting(&mut self, options: &Options) -> io::Result<()> {
        self.rings.set_waiting(options)
    }

    #[inline]
    pub(in crate::stream) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.unread.is_empty() {
            return Ok(self.unread.show_left(&mut copy_to(buffer)));
        }
        let Self { rings, given, .. } = self;
        rings.receive(|consumer| take_bytes(consumer, given, buffer))
    }

    /// Shows bytes in `buffer`, of this end: the other process could change them in the ring while they are read.
    #[inline]
    pub(in crate::stream) fn receive_with(
        &mut self,
        buffer: &mut ReadBuffer,
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> io::Result<usize> {
        let Self { rings, given, unread, .. } = self;
        unread.receive(buffer, |space| rings.receive(|consumer| take_bytes(consumer, given, space)), deliver)
    }

    #[inline]
    pub(in crate::stream) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece_max = self.piece_max;
        self.rings.send(bytes.len().min(piece_max), |producer| push_pieces(producer, piece_max, bytes))
    }

    pub(in crate::stream) fn shutdown(&mut self) {
        self.rings.shutdown();
    }

    pub(in crate::stream) fn descriptor(&self) -> BorrowedFd<'_> {
        self.rings.descriptor()
    }
}

/// Fills `buffer`; `given` is the number of bytes of the message in front that were already taken.
#[inline]
fn take_bytes(consumer: &mut Consumer, given: &mut usize, buffer: &mut [u8]) -> Result<usize, ReadError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let message = match consumer.front() {
            Ok(message) => message,
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error),
        };
        let rest = rest_of(message, *given)?;
        let count = rest.len().min(buffer.len() - filled);
        buffer[filled..filled + count].copy_from_slice(&rest[..count]);
        filled += count;
        if count == rest.len() {
            *given = 0;
            consumer.release();
        } else {
            *given += count;
        }
    }
    Ok(filled)
}

/// The bytes of a message behind those given already. Whoever wrote it can have shortened it since the last look, and an honest
/// one is never empty.
#[inline]
fn rest_of(message: &[u8], given: usize) -> Result<&[u8], ReadError> {
    message.get(given..).filter(|rest| !rest.is_empty()).ok_or(ReadError::Faulty(Fault::RecordLength))
}

#[inline]
fn push_pieces(producer: &mut Producer, piece_max: usize, bytes: &[u8]) -> Result<usize, ClaimError> {
    let mut taken = 0;
    while taken < bytes.len() {
        let piece = (bytes.len() - taken).min(piece_max);
        match producer.try_send(&bytes[taken..taken + piece]) {
            Ok(()) => taken += piece,
            Err(_) if taken > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}
