//! A reading side of an array. It stores nothing, so it may be mapped read-only.

use super::{assert_lines, offset, version, word};
use crate::layout::{BEAT, WRITER_ROLE_AT};
use crate::ring::Ring;
use crate::role::{Peer, Side};
use crate::sync::{Acquire, Arc, Relaxed, fence, pause};
use std::fmt;

/// The most times that a reader tries to get a whole record: some microseconds, where a write takes some nanoseconds. A
/// writer that needs longer is not running, or is dead.
pub const TRIES_MAX: u32 = if cfg!(loom) { 2 } else { 128 };

/// A copy of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<const WORDS: usize> {
    /// The stamp of its write; 0 if it has never been written.
    pub stamp: u64,
    /// Its words; zeroes if it has never been written, or if a writer died while it wrote them.
    pub words: [u64; WORDS],
}

/// A record that was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The array has no record of this number.
    NoRecord,
    /// It was being written each time that this reader looked. [`Reader::peer`] tells whether the writer lives; if it does not,
    /// its successor repairs the record.
    Busy,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRecord => "the array has no record of this number",
            Self::Busy => "the record is being written, or its writer has died while it wrote",
        })
    }
}

impl std::error::Error for ReadError {}

/// A reading side. Clone it for more readers.
pub struct Reader<const WORDS: usize> {
    ring: Arc<Ring>,
    records: u32,
    side: Side,
}

impl<const WORDS: usize> Clone for Reader<WORDS> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.ring), self.records)
    }
}

impl<const WORDS: usize> Reader<WORDS> {
    pub(crate) fn new(ring: Arc<Ring>, records: u32) -> Self {
        const { assert_lines(WORDS) };
        Self { ring, records, side: Side::reader() }
    }

    /// Copies a record, whole.
    #[inline]
    pub fn read(&self, index: u32) -> Result<Record<WORDS>, ReadError> {
        if index >= self.records {
            return Err(ReadError::NoRecord);
        }
        let (memory, at) = (&self.ring.memory, offset(index, WORDS));
        for _ in 0..TRIES_MAX {
            // Partner: the Release at the end of `Writer::write`.
            let before = version(memory, at).load(Acquire);
            if before.is_multiple_of(2) {
                let words = std::array::from_fn(|index| word(memory, at, index).load(Relaxed));
                // Partner: the fence in `Writer::write`. If a load before this fence saw a store after that one, the version is another.
                fence(Acquire);
                if version(memory, at).load(Relaxed) == before {
                    return Ok(Record { stamp: before / 2, words });
                }
            }
            pause();
        }
        Err(ReadError::Busy)
    }

    /// The stamp of the last write of a record, or of the one under way; nothing if there is no such record. One load: enough to see
    /// that a record has not changed.
    #[inline]
    pub fn stamp(&self, index: u32) -> Option<u64> {
        let at = (index < self.records).then(|| offset(index, WORDS))?;
        Some(version(&self.ring.memory, at).load(Relaxed).div_ceil(2))
    }

    /// Prefetches a record that is about to be read. Only a hint; an index that does not exist is ignored.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if index < self.records {
            self.ring.memory.fetch_to_read(offset(index, WORDS));
        }
    }

    /// When the writer gave its last sign of life ([`Side::beat`]): CLOCK_MONOTONIC_RAW, ns; 0 in an array that is not shared. One load.
    #[inline]
    pub fn heartbeat_ns(&self) -> u64 {
        self.ring.memory.word(WRITER_ROLE_AT + BEAT).load(Relaxed)
    }

    /// The number of records.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The state of the writer: one system call in an array that is shared.
    pub fn peer(&mut self) -> Peer {
        self.side.peer(&self.ring)
    }
}
