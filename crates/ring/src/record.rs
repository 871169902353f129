//! The word in front of each message.
//!
//! ```text
//!  63                             32  31  30 29 28                              0
//! |  low half of the cell's position | C | kind |  length of the message, bytes  |
//! ```
//!
//! A record is committed if C is set and the upper half holds the position at which the reader looks: words of earlier
//! laps have another position, zeroed memory has no C. The writer makes sure that the word after its last record, which
//! may be bytes of an old message, cannot be taken for a record (`Writer::publish`). So the reader need not clear what
//! it has read, and word and message travel in one cache line.

use crate::layout::{COMMITTED, KIND_CLOSE, KIND_MESSAGE, KIND_PADDING, LENGTH_BITS};

const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A message of this many bytes.
    Message(usize),
    /// Padding up to the end of the ring.
    Padding,
    /// The writer has closed; no record follows until another writer overwrites this one.
    Close,
}

/// The word of `record` at `position`.
#[inline(always)]
pub(crate) fn word(position: u64, record: Record) -> u64 {
    let (kind, length) = match record {
        Record::Message(length) => (KIND_MESSAGE, length as u64),
        Record::Padding => (KIND_PADDING, 0),
        Record::Close => (KIND_CLOSE, 0),
    };
    position << 32 | COMMITTED | kind << LENGTH_BITS | length
}

/// Returns whether a word marks a committed record at `position`.
#[inline(always)]
pub(crate) fn is_at(word: u64, position: u64) -> bool {
    word >> 31 == (position << 32 | COMMITTED) >> 31
}

/// The content of a committed word; `None` if no writer writes such a word.
#[inline(always)]
pub(crate) fn decode(word: u64) -> Option<Record> {
    match (word & (COMMITTED - 1)) >> LENGTH_BITS {
        KIND_MESSAGE => Some(Record::Message((word & LENGTH_MASK) as usize)),
        KIND_PADDING => Some(Record::Padding),
        KIND_CLOSE => Some(Record::Close),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_in() {
        for position in [0, 1, u64::from(u32::MAX), 1 << 32, (1 << 40) + 7] {
            for record in [Record::Message(0), Record::Message(LENGTH_MASK as usize), Record::Padding, Record::Close] {
                let word = word(position, record);
                assert!(is_at(word, position));
                assert!(!is_at(word, position + 1) && !is_at(word, position ^ 1 << 31));
                assert_eq!(decode(word), Some(record));
            }
            assert!(!is_at(0, position) && !is_at(position << 32, position));
        }
        assert_eq!(decode(COMMITTED | 3 << LENGTH_BITS), None);
    }
}
