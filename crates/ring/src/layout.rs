//! The layout of a ring, in process and in shared memory alike. Offsets in bytes from the first byte.
//!
//! ```text
//!            0         8         16        24        32        40        48        56
//!      0 0x000 | magic   | abi,kind| order,  | layout  | cells   | wakers  | pid     | 0       |  facts: never change
//!              |         |         | header  | hash    |         |         | names   |         |
//!    128 0x080 | owner   | beat    |                                                           |  the writer's life
//!    256 0x100 | owner   | beat    |                                                           |  the reader's life
//!    384 0x180 | seq a   | pos a   | bytes a | seq b   | pos b   | bytes b | intent  | dropped |  writer: each message
//!    512 0x200 | horizon | abandon.|                                                           |  writer: now and then
//!    640 0x280 | seq a   | pos a   | bytes a | seq b   | pos b   | bytes b |                   |  writer: each half lap
//!    768 0x300 | seq a   | pos a   | bytes a | seq b   | pos b   | bytes b | lost    |         |  reader: each message
//!    896 0x380 | publ.   | closed  |                                                           |  reader: each quarter
//!   1024 0x400 | u32: bit 0 a reader sleeps, bit 1 it asked for the doorbell, above: wake-ups  |  reader, before sleep
//!   1152 0x480 | u32: bit 0 the writer sleeps, above: wake-ups                                 |  writer, before sleep
//!   1280 0x500 | fault   |                                                                        whoever finds one
//!   4096 0x1000  cells of 64 bytes, or of 16 (the layout hash says which): a power of two of them
//! ```
//!
//! Fields that different sides write, or that are written at different rates, lie 128 bytes apart: the CPU fetches
//! lines in pairs. A record begins at a cell; its first eight bytes are its word, then comes the message (see
//! `record`).

/// "SIDESTEP" when read as bytes.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"SIDESTEP");
/// The ABI version. It changes when programs built against the older and the newer one are incompatible.
pub const ABI_VERSION: u32 = 1;
/// A number that reads differently on a machine of the other byte order.
pub const BYTE_ORDER_MARK: u32 = 0x0102_0304;

/// A cell: one cache line.
pub const CELL_BYTES: usize = 64;
/// A cell of a ring for small messages ([`crate::Cell::Quarter`]): a quarter of a cache line.
pub const SMALL_CELL_BYTES: usize = 16;
/// The size of the word before each message.
pub const WORD_BYTES: usize = 8;
/// The lowest bits of a word: the length of the message, bytes.
pub const LENGTH_BITS: u32 = 29;
/// The bits above: the kind of the record.
pub const KIND_BITS: u32 = 2;
/// The bit of a word that marks the record as committed. Above it: the low half of the record's position.
pub const COMMITTED: u64 = 1 << (LENGTH_BITS + KIND_BITS);
/// Kind of a record that is a message.
pub const KIND_MESSAGE: u64 = 0;
/// Kind of a record without content, up to the end of the ring; the next record is at the first cell.
pub const KIND_PADDING: u64 = 1;
/// Kind of a record by which the writer has closed; the next writer overwrites it.
pub const KIND_CLOSE: u64 = 2;
/// The longest message that travels in one cache line.
pub const ONE_LINE_BYTES: usize = CELL_BYTES - WORD_BYTES;
/// The fewest cells of a ring.
pub const CELLS_MIN: u64 = 4;
/// The most cells of a ring: 4 GiB, 1 GiB of small ones. Far below 2^32, so that the low half of a position is unique
/// within a lap.
pub const CELLS_MAX: u64 = 1 << 26;

/// The distance between fields that may not share a cache line. loom has no cache, but counts atomics.
const APART: usize = if cfg!(loom) { 64 } else { 128 };

/// Facts, u64 unless said otherwise: the magic; written last, by the creator.
pub const MAGIC_AT: usize = 0;
/// Low half: ABI version. High half: kind ([`crate::Kind`]).
pub const ABI_AND_KIND_AT: usize = 8;
/// Low half: byte order mark. High half: [`HEADER_BYTES`].
pub const ORDER_AND_HEADER_AT: usize = 16;
/// [`LAYOUT_HASH`].
pub const LAYOUT_HASH_AT: usize = 24;
/// The number of cells.
pub const CELLS_AT: usize = 32;
/// The wake-up method ([`crate::Waking`]).
pub const WAKING_AT: usize = 40;
/// The inode of the pid namespace in which the pids of this ring are valid; 0 in process.
pub const PID_NAMESPACE_AT: usize = 48;

/// Bits of the pid in an owner word: PID_MAX_LIMIT of Linux is 2^22.
pub const PID_BITS: u32 = 22;
/// The writer's owner word (see `role`); its heartbeat, ns of CLOCK_MONOTONIC_RAW, follows.
pub const WRITER_ROLE_AT: usize = APART;
/// The reader's owner word; its heartbeat follows.
pub const READER_ROLE_AT: usize = 2 * APART;
/// The distance from an owner word to the heartbeat of the same side.
pub const BEAT: usize = 8;

/// Checkpoint of the published messages.
pub const WRITTEN_AT: usize = 3 * APART;
/// The sequence number after the last message that the writer has begun.
pub const INTENT_AT: usize = WRITTEN_AT + 48;
/// Messages that the writer could not publish: the ring was full, or a producer in the kernel found them too long.
pub const DROPPED_AT: usize = WRITTEN_AT + 56;
/// The position up to which the writer may be writing at this moment.
pub const HORIZON_AT: usize = 4 * APART;
/// Messages begun by writers that died before they published them.
pub const ABANDONED_AT: usize = HORIZON_AT + 8;
/// Checkpoint at the last crossing of a half of the ring, where a reader that fell behind resumes.
pub const MARK_AT: usize = 5 * APART;

/// Checkpoint of the released messages.
pub const READ_AT: usize = 6 * APART;
/// Messages that a new reader skipped on request.
pub const LOST_AT: usize = READ_AT + 48;
/// The position up to which the writer may reuse the cells; published lazily.
pub const PUBLISHED_AT: usize = 7 * APART;
/// 1 after the reader has closed.
pub const READER_CLOSED_AT: usize = PUBLISHED_AT + 8;

/// u32, a futex: bit 0 while a reader sleeps, bit 1 when it has requested the writer's doorbell, above them the number
/// of wake-ups.
pub const READER_SLEEPS_AT: usize = 8 * APART;
/// u32, a futex: bit 0 while the writer sleeps, above it the number of wake-ups.
pub const WRITER_SLEEPS_AT: usize = 9 * APART;
/// The fault that put the ring out of use, 0 for none ([`crate::Fault`]).
pub const FAULT_AT: usize = 10 * APART;

/// The first cell.
pub const HEADER_BYTES: usize = if cfg!(loom) { 11 * APART } else { 4096 };

/// FNV-1a over everything that both sides must agree on: builds with the same hash have the same layout.
pub const LAYOUT_HASH: u64 = layout_hash(CELL_BYTES);
/// The hash of a ring of small cells: a program that knows only [`LAYOUT_HASH`] refuses such a ring with a clear
/// reason.
pub const SMALL_LAYOUT_HASH: u64 = layout_hash(SMALL_CELL_BYTES);

const fn layout_hash(cell_bytes: usize) -> u64 {
    hash(&[
        cell_bytes,
        WORD_BYTES,
        WRITER_ROLE_AT,
        READER_ROLE_AT,
        BEAT,
        WRITTEN_AT,
        INTENT_AT,
        DROPPED_AT,
        HORIZON_AT,
        ABANDONED_AT,
        MARK_AT,
        READ_AT,
        LOST_AT,
        PUBLISHED_AT,
        READER_CLOSED_AT,
        READER_SLEEPS_AT,
        WRITER_SLEEPS_AT,
        FAULT_AT,
        HEADER_BYTES,
        LENGTH_BITS as usize,
        KIND_BITS as usize,
    ])
}

pub(crate) const fn hash(facts: &[usize]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut index = 0;
    while index < facts.len() {
        hash = (hash ^ facts[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    hash
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The constants of the C header; a change here is a new ABI version.
    #[test]
    fn the_layout_is_the_documented_one() {
        assert_eq!([WRITER_ROLE_AT, READER_ROLE_AT, WRITTEN_AT, HORIZON_AT], [0x80, 0x100, 0x180, 0x200]);
        assert_eq!([MARK_AT, READ_AT, PUBLISHED_AT], [0x280, 0x300, 0x380]);
        assert_eq!([READER_SLEEPS_AT, WRITER_SLEEPS_AT, FAULT_AT, HEADER_BYTES], [0x400, 0x480, 0x500, 0x1000]);
        assert_eq!(MAGIC.to_ne_bytes(), *b"SIDESTEP");
    }
}
