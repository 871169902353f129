//! The messages: eight bytes with flag and sequence number, then filling.
//!
//! ```text
//!  0                              7 8
//!  +------+-----------------------+------------------------
//!  | flag | sequence number       | filling, a fixed pattern
//!  | 1 bit| 63 bits               | up to the size asked for
//!  +------+-----------------------+------------------------
//!  little-endian
//! ```

use sidestep_sys::Problem;

/// The smallest message: its header.
pub(crate) const SIZE_MIN: u32 = 8;

/// Set on the message that ends a slice over datagrams; it is not answered.
const LAST: u64 = 1 << 63;

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Counts from 0 in each slice.
    pub(crate) sequence: u64,
    /// Set on the last message.
    pub(crate) last: bool,
}

impl Header {
    /// Parses the header of a message; none if it is too short.
    #[inline]
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(*message.first_chunk()?);
        Some(Self { sequence: word & !LAST, last: word & LAST != 0 })
    }

    /// Writes the header over the first bytes of a message of at least [`SIZE_MIN`].
    #[inline]
    pub(crate) fn write(self, message: &mut [u8]) {
        let word = self.sequence | if self.last { LAST } else { 0 };
        message[..SIZE_MIN as usize].copy_from_slice(&word.to_le_bytes());
    }
}

/// A message of `size` bytes with sequence number 0.
pub(crate) fn filled(size: u32) -> Vec<u8> {
    let mut message: Vec<u8> = (0..size).map(|index| (index * 31 + 7) as u8).collect();
    Header { sequence: 0, last: false }.write(&mut message);
    message
}

/// Checks a message size, bytes.
pub(crate) fn check_size(size: u32, limit: u32) -> Result<(), Problem> {
    if (SIZE_MIN..=limit).contains(&size) {
        return Ok(());
    }
    Err(Problem::usage(format!("cannot send messages of {size} bytes"), format!("a message has {SIZE_MIN} to {limit}"))
        .next("choose --size within it (a message carries its 8-byte sequence number)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_way() {
        let mut message = filled(16);
        for header in [Header { sequence: 0, last: false }, Header { sequence: (1 << 63) - 1, last: true }] {
            header.write(&mut message);
            assert_eq!(Header::read(&message), Some(header));
        }
        assert_eq!(Header::read(&message[..7]), None);
    }

    #[test]
    fn sizes_have_limits() {
        assert!(check_size(8, 100).is_ok() && check_size(100, 100).is_ok());
        for size in [0, 7, 101, u32::MAX] {
            assert!(check_size(size, 100).is_err());
        }
    }
}
