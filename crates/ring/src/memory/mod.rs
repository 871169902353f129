//! The bytes of a ring, accessed only by offset.

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;

#[cfg(not(loom))]
pub(crate) use mapped::Memory;
#[cfg(loom)]
pub(crate) use modelled::Memory;

use crate::sync::Relaxed;

impl Memory {
    /// Stores `bytes` word by word, as atomics, for readers that may load at the same time. The last word is padded
    /// with zeroes: a record ends at a cell's end, so there is space.
    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.word(offset + 8 * index).store(u64::from_ne_bytes(*word), Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(offset + 8 * words.len()).store(u64::from_ne_bytes(last), Relaxed);
        }
    }

    /// Loads `buffer.len()` bytes word by word, as atomics. They may be torn until the caller has checked.
    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, buffer: &mut [u8]) {
        let (words, rest) = buffer.as_chunks_mut::<8>();
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.word(offset + 8 * index).load(Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            let last = self.word(offset + 8 * words.len()).load(Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}
