//! Real memory: a mapping, private to this process or shared.

use crate::sync::{Flag, Word};
use sidestep_sys::memory::Mapping;
use sidestep_sys::prefetch;
use std::ptr::NonNull;

/// The memory of a ring: a mapping, private to this process or shared.
pub(crate) struct Memory {
    base: NonNull<u8>,
    mapping: Mapping,
}

// SAFETY: the base belongs to the mapping, which is Send; shared bytes are reached through atomics, and message bytes
// by the one side that the protocol gives them to.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { base: mapping.base(), mapping }
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The word at `offset`, a multiple of eight inside the memory: callers use constants of `layout` or cells that
    /// `Ring` has masked.
    #[inline(always)]
    pub(crate) fn word(&self, offset: usize) -> &Word {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.mapping.len());
        // SAFETY: the offset is inside the mapping and aligned, and words are only ever reached as atomics while two
        // sides can reach them.
        unsafe { self.base.add(offset).cast().as_ref() }
    }

    /// The futex at `offset`, one of the two constants of `layout`.
    #[inline(always)]
    pub(crate) fn flag(&self, offset: usize) -> &Flag {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.mapping.len());
        // SAFETY: as in `word`; nothing reaches these bytes as a u64.
        unsafe { self.base.add(offset).cast().as_ref() }
    }

    /// Prefetches the cache line at `offset` for writing. Only a hint.
    #[inline(always)]
    pub(crate) fn fetch_to_write(&self, offset: usize) {
        prefetch::to_write(self.word(offset));
    }

    /// Prefetches the cache line at `offset` for reading. Only a hint.
    #[inline(always)]
    pub(crate) fn fetch_to_read(&self, offset: usize) {
        prefetch::to_read(self.word(offset));
    }

    /// The bytes of a message. They are inside the memory, as callers have checked the record against the ring's end.
    #[inline(always)]
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> *mut [u8] {
        debug_assert!(offset + length <= self.mapping.len());
        // SAFETY: the offset is inside the mapping.
        let first = unsafe { self.base.add(offset) };
        std::ptr::slice_from_raw_parts_mut(first.as_ptr(), length)
    }
}
