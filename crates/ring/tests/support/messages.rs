//! Messages that show whether they arrived complete: number, checksum, and bytes derived from the number.

/// The message with this number: 16 to `bytes_max` bytes.
pub(crate) fn message(number: u64, bytes_max: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let length = 16 + (state >> 40) as usize % (bytes_max - 15);
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(16, 0);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number | 1);
        bytes.push((state >> 56) as u8);
    }
    let sum = checksum(&bytes);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The number of a message; panics if it is not complete.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let mut cleared = bytes.to_vec();
    cleared[8..16].fill(0);
    assert_eq!(word(8), checksum(&cleared), "message {} is torn: {bytes:?}", word(0));
    word(0)
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
