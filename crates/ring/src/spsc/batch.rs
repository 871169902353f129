//! Several messages published by one store.

use super::Producer;
use crate::fault::ClaimError;

/// Messages that become visible to the reader together, when the batch is committed. Dropping the batch discards all of
/// them, and so does the death of the writer before the commit: a batch is one claim.
pub struct Batch<'a> {
    producer: &'a mut Producer,
}

impl<'a> Batch<'a> {
    pub(super) fn new(producer: &'a mut Producer) -> Self {
        Self { producer }
    }

    /// Adds a copy of `message` if it fits.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn try_push(&mut self, message: &[u8]) -> Result<(), ClaimError> {
        self.try_fill(message.len(), |bytes| bytes.copy_from_slice(message))
    }

    /// Adds a message of `length` bytes that `fill` writes in place, if it fits.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn try_fill(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), ClaimError> {
        self.producer.open(length)?;
        fill(self.producer.claimed_bytes());
        self.producer.end();
        Ok(())
    }

    /// Adds an empty message.
    #[cfg(loom)]
    pub(crate) fn push_empty(&mut self) -> Result<(), ClaimError> {
        self.producer.open(0)?;
        self.producer.end();
        Ok(())
    }

    /// Publishes every message of the batch.
    #[inline]
    pub fn commit(self) {
        if self.producer.writer.is_open() {
            self.producer.writer.publish();
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.producer.writer.is_open() {
            self.producer.discard();
            self.producer.writer.discard();
        }
    }
}
