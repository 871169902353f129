//! The writing side of an array.

use super::{STAMP_MAX, assert_lines, offset, version, word};
use crate::ring::Ring;
use crate::role::Side;
use crate::sync::{Arc, Relaxed, Release, fence};
use std::fmt;

/// A write that was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The array has no record of this number.
    NoRecord,
    /// The stamp is not greater than that of the record, or above [`STAMP_MAX`].
    Stamp {
        /// The record's stamp.
        current: u64,
    },
    /// This is a child that was forked from the process that holds the writing side.
    Forked,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("the array has no record of this number"),
            Self::Stamp { current } => write!(f, "the record has stamp {current}, and stamps only grow"),
            Self::Forked => f.write_str("this process was forked from the one that writes the array"),
        }
    }
}

impl std::error::Error for WriteError {}

/// The writing side: it reads no reader's state and never waits.
pub struct Writer<const WORDS: usize> {
    ring: Arc<Ring>,
    side: Side,
    records: u32,
    repaired: u32,
    newest: u64,
}

impl<const WORDS: usize> Writer<WORDS> {
    /// Goes on with an array, after the repair of what the last writer left unfinished: looks at every record.
    pub(crate) fn resume(ring: Arc<Ring>, side: Side, records: u32) -> Self {
        const { assert_lines(WORDS) };
        let mut writer = Self { ring, side, records, repaired: 0, newest: 0 };
        for index in 0..records {
            writer.repair(offset(index, WORDS));
        }
        writer
    }

    /// Makes a record that a writer left unfinished one of zeroes. Whoever dies in the middle of this leaves it as it was.
    fn repair(&mut self, at: usize) {
        let memory = &self.ring.memory;
        let found = version(memory, at).load(Relaxed);
        if found % 2 == 1 {
            // Partner: the fence in `Reader::read`. The version is odd already, as in a write that has begun.
            fence(Release);
            (0..WORDS).for_each(|index| word(memory, at, index).store(0, Relaxed));
            version(memory, at).store(found.wrapping_add(1), Release);
            self.repaired += 1;
        }
        self.newest = self.newest.max(found.div_ceil(2));
    }

    /// Overwrites a record. `stamp` is greater than that of the record: a count of the writes, or the number of the message
    /// that tells the same in a ring.
    #[inline]
    pub fn write(&mut self, index: u32, stamp: u64, words: &[u64; WORDS]) -> Result<(), WriteError> {
        if index >= self.records {
            return Err(WriteError::NoRecord);
        }
        if !self.side.is_ours() {
            return Err(WriteError::Forked);
        }
        let (memory, at) = (&self.ring.memory, offset(index, WORDS));
        let version = version(memory, at);
        let current = version.load(Relaxed) / 2;
        if stamp <= current || stamp > STAMP_MAX {
            return Err(WriteError::Stamp { current });
        }
        version.store(2 * stamp - 1, Relaxed);
        // A reader that sees a word stored after this fence sees the odd version after its own: partner of the fence in `Reader::read`.
        fence(Release);
        for (index, value) in words.iter().enumerate() {
            word(memory, at, index).store(*value, Relaxed);
        }
        // Partner: the Acquire in `Reader::read`.
        version.store(2 * stamp, Release);
        self.newest = self.newest.max(stamp);
        Ok(())
    }

    /// Prefetches a record that is about to be written. Only a hint; an index that does not exist is ignored.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if index < self.records {
            self.ring.memory.fetch_to_write(offset(index, WORDS));
        }
    }

    /// The number of records.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The records that the last writer had left unfinished when it died: one at most, unless somebody else wrote here. They
    /// are zeroes now.
    pub fn repaired(&self) -> u32 {
        self.repaired
    }

    /// The stamp of a record; nothing if there is no such record.
    #[inline]
    pub fn stamp(&self, index: u32) -> Option<u64> {
        let at = (index < self.records).then(|| offset(index, WORDS))?;
        Some(version(&self.ring.memory, at).load(Relaxed) / 2)
    }

    /// The greatest stamp of all records.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The liveness of this side, and the process that it replaced.
    pub fn side(&self) -> &Side {
        &self.side
    }
}
