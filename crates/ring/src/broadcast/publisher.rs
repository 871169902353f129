//! The writing side of the broadcast ring.

use crate::fault::{ClaimError, Fault};
use crate::layout::WORD_BYTES;
use crate::ring::Ring;
use crate::role::Side;
use crate::sync::Arc;
use crate::writer::Writer;

/// The writing side: it reads no reader's state and never waits.
pub struct Publisher {
    writer: Writer,
    abandoned: u64,
    side: Side,
}

impl Publisher {
    /// Resumes where the last writer stopped.
    pub(crate) fn resume(ring: Arc<Ring>, side: Side) -> Result<Self, Fault> {
        let cells = ring.cells();
        let mut writer = Writer::resume(ring, |position| position + cells)?;
        let abandoned = writer.count_abandoned()?;
        writer.reopen();
        Ok(Self { writer, abandoned, side })
    }

    /// Sends a copy of `message` to all readers. It fails only with [`ClaimError::TooLong`] and, in a child that was
    /// forked from the handle's process, with [`ClaimError::Forked`].
    #[inline]
    pub fn publish(&mut self, message: &[u8]) -> Result<(), ClaimError> {
        let cells = self.writer.ring().cells_of(message.len());
        if cells > self.writer.ring().record_cells_max() || message.len() > self.message_bytes_max() {
            return Err(ClaimError::TooLong);
        }
        if !self.side.is_ours() {
            return Err(ClaimError::Forked);
        }
        let position = self.writer.begin(cells, u64::MAX);
        let ring = self.writer.ring();
        // Word by word, as atomics: a reader that fell behind may be reading these cells at the same time.
        ring.memory.copy_in(ring.cell(position) + WORD_BYTES, message);
        self.writer.end(message.len());
        self.writer.publish();
        Ok(())
    }

    /// Marks the end of the stream.
    pub fn close(&mut self) {
        if self.side.is_ours() {
            self.writer.close();
        }
    }

    /// The liveness of this side, and the process that it replaced.
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// The number of messages published so far, by this writer and its predecessors.
    pub fn messages(&self) -> u64 {
        self.writer.written().sequence
    }

    /// The number of messages that the last writer had begun and not published when it died: one at most.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// The longest message of this ring, bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.writer.ring().message_bytes_max()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.close();
    }
}
