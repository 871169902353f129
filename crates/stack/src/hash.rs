//! A fast hash for the tables of sockets.
//!
//! Keys enter those tables only by calls of the program itself, so a peer cannot make them collide; a packet merely looks.

use std::hash::{BuildHasherDefault, Hasher};

/// The hasher of the tables.
pub(crate) type FlowHash = BuildHasherDefault<FlowHasher>;

/// An odd number with about as many ones as zeros (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies 64 by 64 bits and folds the 128 together, once per word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowHasher(u64);

impl FlowHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ SPREAD) * u128::from(SPREAD.rotate_left(17) | 1);
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }
}

impl Hasher for FlowHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.mix(word.into());
    }

    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.mix(word as u64);
        self.mix((word >> 64) as u64);
    }
}
