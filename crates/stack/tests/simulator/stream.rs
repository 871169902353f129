//! The expected bytes: a function of stream and offset.

use std::sync::LazyLock;

/// A prime, so that a slip by any segment or buffer size is seen.
const PERIOD: usize = 65_521;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let once: Vec<u8> = (0..PERIOD as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
    [&once[..], &once[..]].concat()
});

/// `count` bytes of the stream `key` from `offset` on; fewer if they are more than the period.
pub fn stream(key: u32, offset: usize, count: usize) -> &'static [u8] {
    let start = (key as usize + offset) % PERIOD;
    &BYTES[start..start + count.min(PERIOD)]
}

/// Whether `bytes` are what stands at `offset`.
pub fn is_stream(key: u32, offset: usize, bytes: &[u8]) -> bool {
    let chunks = bytes.chunks(PERIOD).enumerate();
    chunks.into_iter().all(|(number, chunk)| chunk == stream(key, offset + number * PERIOD, chunk.len()))
}
