//! A buffer of fixed size over a reader.

use super::{CaptureError, PACKET_BYTES_MAX};
use std::io::{self, ErrorKind, Read};

/// The size of the buffer: a packet and options of the greatest size, or some hundred packets of the usual one, per call of the system.
const BUFFER_BYTES: usize = 4 * PACKET_BYTES_MAX;

/// Bytes in order, a record at a time.
pub(super) struct Source<R> {
    read: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes before `start`.
    offset: u64,
    /// The offset of the record that is being read.
    record: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, buffer: vec![0; BUFFER_BYTES].into(), start: 0, end: 0, offset: 0, record: 0 }
    }

    /// Begins a record; returns false at the end of the source.
    pub(super) fn begin(&mut self) -> Result<bool, CaptureError> {
        self.record = self.offset;
        Ok(self.fill(1)? > 0)
    }

    /// An error of the record that is being read.
    pub(super) fn malformed<T>(&self, why: &'static str) -> Result<T, CaptureError> {
        Err(CaptureError::Malformed { offset: self.record, why })
    }

    /// The next bytes, which stay: at most twice [`PACKET_BYTES_MAX`].
    pub(super) fn peek(&mut self, bytes: usize) -> Result<&[u8], CaptureError> {
        if self.fill(bytes)? < bytes {
            return Err(CaptureError::Truncated { offset: self.record });
        }
        Ok(&self.buffer[self.start..self.start + bytes])
    }

    /// The next bytes: at most twice [`PACKET_BYTES_MAX`].
    pub(super) fn take(&mut self, bytes: usize) -> Result<&[u8], CaptureError> {
        self.peek(bytes)?;
        self.start += bytes;
        self.offset += bytes as u64;
        Ok(&self.buffer[self.start - bytes..self.start])
    }

    /// Passes over bytes that [`Source::taken`] then shows: at most twice [`PACKET_BYTES_MAX`].
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), CaptureError> {
        self.take(bytes).map(|_| ())
    }

    /// The next bytes, so many as a constant says.
    pub(super) fn chunk<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], CaptureError> {
        let mut chunk = [0; BYTES];
        chunk.copy_from_slice(self.take(BYTES)?);
        Ok(chunk)
    }

    /// Passes over any number of bytes.
    pub(super) fn skip(&mut self, mut bytes: u64) -> Result<(), CaptureError> {
        while bytes > 0 {
            let step = bytes.min(PACKET_BYTES_MAX as u64);
            self.take(step as usize)?;
            bytes -= step;
        }
        Ok(())
    }

    /// The bytes that were taken last, again: so many of them, ending so many before the place.
    pub(super) fn taken(&self, bytes: usize, before: usize) -> &[u8] {
        &self.buffer[self.start - before - bytes..self.start - before]
    }

    /// Reads until so many bytes are in the buffer, or the source ends; returns how many are.
    fn fill(&mut self, bytes: usize) -> io::Result<usize> {
        if self.buffer.len() - self.start < bytes {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < bytes {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.end - self.start)
    }
}
