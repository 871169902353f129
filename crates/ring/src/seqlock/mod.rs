//! An array of records, each of which one writer overwrites and any number of readers copy: the newest state of many
//! things, where a ring has their history.
//!
//! ```text
//!            0         8         16        24        32        40        48        56
//!      0 0x000 | magic   | abi,kind| order,  | layout  | records | record  | pid     | tag     |  facts: never change
//!              |         |         | header  | hash    |         | bytes   | names   |         |
//!    128 0x080 | owner   | beat    |                                                           |  the writer's life
//!   4096 0x1000  records of 64 bytes (7 words), or of 128 (15 words)
//!
//!  a record:    | version | word 0  | word 1  | word 2  | word 3  | word 4  | word 5  | word 6  |  ...
//! ```
//!
//! The version of a record is twice the stamp of the last write; one less than twice its stamp while a write is under way: a seqlock.
//! A reader loads the version, the words, and the version again, and has a whole record if both are the same even number.
//! Versions only grow, so that a value seen before never means other words. Every access is an atomic of one word: a torn
//! record is thrown away, and nothing is undefined.
//!
//! Readers store nothing, so they may be mapped read-only, and the writer waits for none. A reader tries
//! [`TRIES_MAX`] times and then says [`ReadError::Busy`]; [`Reader::peer`] tells whether the writer has died in the middle. The
//! next writer repairs that: the record becomes one of zeroes, which users take for "nothing is known".
//!
//! A record of 64 bytes is one cache line: a write moves one line to each reader's CPU, a read takes one line.
//!
//! ```
//! use sidestep_ring::seqlock;
//! let (mut writer, reader) = seqlock::pair::<7>(100)?;
//! writer.write(42, 1, &[7; 7])?;
//! assert_eq!(reader.read(42)?, seqlock::Record { stamp: 1, words: [7; 7] });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(loom))]
mod array;
#[cfg(not(loom))]
mod header;
mod reader;
mod writer;

#[cfg(all(test, not(loom)))]
mod crash;
#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
pub use array::{Array, Options, Stat, stat};
pub use reader::{ReadError, Reader, Record, TRIES_MAX};
pub use writer::{WriteError, Writer};

use crate::layout::{HEADER_BYTES, WORD_BYTES};
use crate::memory::Memory;
use crate::sync::Word;

/// The kind of an array in the header, where a ring has [`crate::Kind`].
pub const ARRAY_KIND: u32 = 3;

/// The most records: sixteen channels of 65,536 instruments; 64 MiB, or 128 MiB of long records.
pub const RECORDS_MAX: u32 = 1 << 20;

/// The greatest stamp of a write.
pub const STAMP_MAX: u64 = (1 << 63) - 1;

/// Words of a record that is one cache line, and of one that is two.
const RECORD_WORDS: [usize; 2] = [7, 15];

/// Stops the build of records that are not one or two cache lines. Models have short ones: loom tries every value of every word.
const fn assert_lines(words: usize) {
    assert!(
        words == RECORD_WORDS[0] || words == RECORD_WORDS[1] || cfg!(loom),
        "a record has 7 words or 15: one cache line or two"
    );
}

/// The size of a record of so many words and their version, bytes.
const fn record_bytes(words: usize) -> usize {
    (words + 1) * WORD_BYTES
}

/// The offset of a record.
#[inline(always)]
fn offset(index: u32, words: usize) -> usize {
    HEADER_BYTES + index as usize * record_bytes(words)
}

/// The version of the record at an offset.
#[inline(always)]
fn version(memory: &Memory, at: usize) -> &Word {
    memory.word(at)
}

/// The word of a record that begins at an offset.
#[inline(always)]
fn word(memory: &Memory, at: usize, index: usize) -> &Word {
    memory.word(at + WORD_BYTES * (1 + index))
}

/// An array in memory of this process. Clone the reader for more readers.
#[cfg(not(loom))]
pub fn pair<const WORDS: usize>(records: u32) -> Result<(Writer<WORDS>, Reader<WORDS>), sidestep_sys::Problem> {
    use sidestep_sys::memory::Mapping;
    array::check_records(records)?;
    let mapping = Mapping::private(offset(records, WORDS))
        .map_err(|error| crate::shared_file::ARRAY.cannot_make("in memory", error))?;
    // Missing pages are then faulted in at the first touch.
    let _ = mapping.prefault();
    Ok(over(crate::ring::Ring::of_records(Memory::new(mapping), false), records))
}

/// Writer and first reader of an array that is not shared.
fn over<const WORDS: usize>(ring: crate::ring::Ring, records: u32) -> (Writer<WORDS>, Reader<WORDS>) {
    let ring = crate::sync::Arc::new(ring);
    let writer = Writer::resume(crate::sync::Arc::clone(&ring), crate::role::Side::writer(), records);
    (writer, Reader::new(ring, records))
}
