//! Memory as loom sees it: every word is an atomic, and every word of a message also a cell whose unordered use is an
//! error.

use crate::layout::HEADER_BYTES;
use crate::sync::{Flag, Relaxed, Word};
use loom::cell::UnsafeCell;

pub(crate) struct Memory {
    words: Vec<Word>,
    flags: Vec<Flag>,
    data: Vec<UnsafeCell<u64>>,
}

// SAFETY: loom itself checks that the cells are used in order.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let words = bytes / 8;
        Self {
            words: (0..words).map(|_| Word::new(0)).collect(),
            flags: (0..2).map(|_| Flag::new(0)).collect(),
            data: (0..(bytes - HEADER_BYTES) / 8).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    pub(crate) fn word(&self, offset: usize) -> &Word {
        &self.words[offset / 8]
    }

    pub(crate) fn flag(&self, offset: usize) -> &Flag {
        &self.flags[usize::from(offset == crate::layout::WRITER_SLEEPS_AT)]
    }

    /// A model has no cache.
    pub(crate) fn fetch_to_write(&self, _: usize) {}

    /// A model has no cache.
    pub(crate) fn fetch_to_read(&self, _: usize) {}

    /// Stores one word of a message: as data and, where it may later be read as a record's word, also as that.
    pub(crate) fn write(&self, offset: usize, value: u64) {
        // SAFETY: loom checks that nobody else uses the cell meanwhile.
        self.data[(offset - HEADER_BYTES) / 8].with_mut(|word| unsafe { *word = value });
        self.word(offset).store(value, Relaxed);
    }

    /// Loads one word of a message.
    pub(crate) fn read(&self, offset: usize) -> u64 {
        // SAFETY: loom checks that nobody writes the cell meanwhile.
        self.data[(offset - HEADER_BYTES) / 8].with(|word| unsafe { *word })
    }
}
