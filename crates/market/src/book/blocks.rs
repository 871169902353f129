//! Memory for arrays of very different length: a buddy allocator of blocks of 8, 16, 32, ... entries.
//!
//! A block of 2^n entries begins at a multiple of 2^n. If there is no free one, a larger one is halved; a freed one is joined with its
//! other half (its buddy) if that is free, too. Each takes a number of steps that the number of sizes bounds.

use sidestep_sys::memory;
use std::collections::TryReserveError;

/// Entries of the smallest block: a line of the cache.
pub(super) const BLOCK_ENTRIES_MIN: usize = 8;
/// Sizes of blocks: 8 to 2^15 entries.
const SIZES: usize = 13;
/// No block.
const NONE: u32 = u32::MAX;
/// The tag of a smallest block that no free block begins at.
const NOT_FREE: u8 = u8::MAX;

/// The size of a block: it has 8 * 2^size entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(u8);

impl Size {
    /// The smallest one.
    pub(super) const MIN: Self = Self(0);

    #[inline]
    pub(super) fn entries(self) -> usize {
        BLOCK_ENTRIES_MIN << self.0
    }

    pub(super) fn larger(self) -> Self {
        Self(self.0 + 1)
    }

    pub(super) fn smaller(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

/// The memory of a pool of so many entries.
pub(super) fn bytes(entries: usize) -> usize {
    entries * size_of::<u64>() + entries / BLOCK_ENTRIES_MIN
}

/// The pool.
pub(super) struct Blocks {
    entries: Vec<u64>,
    /// For each smallest block: the size of the free block that begins there.
    free_sizes: Vec<u8>,
    /// The first free block of each size. The first entry of a free block names the one before it and the one behind it.
    heads: [u32; SIZES],
    /// The largest size.
    largest: Size,
}

impl Blocks {
    /// `entries` is a multiple of the largest block, which has `largest_entries` entries or a few more.
    pub(super) fn new(entries: usize, largest_entries: usize) -> Result<Self, TryReserveError> {
        let sizes = largest_entries.next_power_of_two().max(BLOCK_ENTRIES_MIN) / BLOCK_ENTRIES_MIN;
        let mut blocks = Self {
            entries: memory::filled(0, entries)?,
            free_sizes: memory::filled(NOT_FREE, entries / BLOCK_ENTRIES_MIN)?,
            heads: [NONE; SIZES],
            largest: Size(sizes.trailing_zeros() as u8),
        };
        blocks.clear();
        Ok(blocks)
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>() + self.free_sizes.capacity()
    }

    /// All entries, by place.
    #[inline(always)]
    pub(super) fn entries(&self) -> &[u64] {
        &self.entries
    }

    #[inline(always)]
    pub(super) fn entries_mut(&mut self) -> &mut [u64] {
        &mut self.entries
    }

    /// The place of a block of this size; nothing if there is none, or if it is larger than the largest.
    pub(super) fn take(&mut self, size: Size) -> Option<u32> {
        let found = (size.0..=self.largest.0).find(|size| self.heads[usize::from(*size)] != NONE)?;
        let at = self.heads[usize::from(found)];
        self.unlink(at, Size(found));
        // The second halves of what is larger than it has to be.
        for half in (size.0..found).rev() {
            self.link(at + Size(half).entries() as u32, Size(half));
        }
        Some(at)
    }

    /// Gives a block back.
    pub(super) fn give(&mut self, at: u32, size: Size) {
        let (mut at, mut size) = (at, size);
        while size < self.largest {
            let buddy = at ^ size.entries() as u32;
            if self.free_sizes.get(buddy as usize / BLOCK_ENTRIES_MIN) != Some(&size.0) {
                break;
            }
            self.unlink(buddy, size);
            at = at.min(buddy);
            size = size.larger();
        }
        self.link(at, size);
    }

    fn link(&mut self, at: u32, size: Size) {
        let head = self.heads[usize::from(size.0)];
        self.entries[at as usize] = pair(NONE, head);
        if head != NONE {
            self.entries[head as usize] = pair(at, behind(self.entries[head as usize]));
        }
        self.heads[usize::from(size.0)] = at;
        self.free_sizes[at as usize / BLOCK_ENTRIES_MIN] = size.0;
    }

    fn unlink(&mut self, at: u32, size: Size) {
        let links = self.entries[at as usize];
        let (before, behind) = (before(links), behind(links));
        if before == NONE {
            self.heads[usize::from(size.0)] = behind;
        } else {
            self.entries[before as usize] = pair(self::before(self.entries[before as usize]), behind);
        }
        if behind != NONE {
            self.entries[behind as usize] = pair(before, self::behind(self.entries[behind as usize]));
        }
        self.free_sizes[at as usize / BLOCK_ENTRIES_MIN] = NOT_FREE;
    }

    /// Gives all blocks back.
    pub(super) fn clear(&mut self) {
        self.free_sizes.fill(NOT_FREE);
        self.heads = [NONE; SIZES];
        let step = self.largest.entries();
        // The last one first, so that blocks are taken from the front.
        for at in (0..self.entries.len() / step).rev() {
            self.link((at * step) as u32, self.largest);
        }
    }
}

fn pair(before: u32, behind: u32) -> u64 {
    u64::from(before) << 32 | u64::from(behind)
}

fn before(links: u64) -> u32 {
    (links >> 32) as u32
}

fn behind(links: u64) -> u32 {
    links as u32
}
