//! The facts in an array's header: written once by the maker, checked once by each process that attaches.

use super::{ARRAY_KIND, RECORD_WORDS, RECORDS_MAX, record_bytes};
use crate::facts::{halves, pid_namespace};
use crate::layout::{
    ABI_AND_KIND_AT, ABI_VERSION, BEAT, BYTE_ORDER_MARK, CELLS_AT, HEADER_BYTES, LAYOUT_HASH_AT, MAGIC, MAGIC_AT,
    ORDER_AND_HEADER_AT, PID_NAMESPACE_AT, WAKING_AT, WORD_BYTES, WRITER_ROLE_AT, hash,
};
use crate::memory::Memory;
use crate::sync::{Acquire, Relaxed, Release};
use sidestep_sys::memory::HUGE_PAGE_BYTES;

/// The number of records, where a ring has its cells.
const RECORDS_AT: usize = CELLS_AT;
/// The size of a record, where a ring has its wake-up method: nobody sleeps on an array.
const RECORD_BYTES_AT: usize = WAKING_AT;
/// The tag of the users.
const TAG_AT: usize = PID_NAMESPACE_AT + 8;

/// Over everything that both sides must agree on.
const ARRAY_LAYOUT_HASH: u64 =
    hash(&[ARRAY_KIND as usize, WORD_BYTES, RECORDS_AT, RECORD_BYTES_AT, TAG_AT, WRITER_ROLE_AT, BEAT, HEADER_BYTES]);

/// The size of an array, bytes.
pub(super) fn array_bytes(records: u32, words: usize) -> usize {
    HEADER_BYTES + records as usize * record_bytes(words)
}

/// Writes the header of a new array, the magic last: an array with the magic is complete.
pub(super) fn write(memory: &Memory, records: u32, words: usize, tag: u64) {
    let put = |at, value| memory.word(at).store(value, Relaxed);
    put(ABI_AND_KIND_AT, u64::from(ABI_VERSION) | u64::from(ARRAY_KIND) << 32);
    put(ORDER_AND_HEADER_AT, u64::from(BYTE_ORDER_MARK) | (HEADER_BYTES as u64) << 32);
    put(LAYOUT_HASH_AT, ARRAY_LAYOUT_HASH);
    put(RECORDS_AT, u64::from(records));
    put(RECORD_BYTES_AT, record_bytes(words) as u64);
    put(PID_NAMESPACE_AT, pid_namespace());
    put(TAG_AT, tag);
    // Partner: the Acquire in `check`.
    memory.word(MAGIC_AT).store(MAGIC, Release);
}

/// What the header tells of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) records: u32,
    /// Words of a record, without its version.
    pub(super) words: usize,
    pub(super) tag: u64,
}

/// The file has a header of an array, finished or not, of this version or another.
pub(super) fn is_array(memory: &Memory) -> bool {
    // Partner: the Release in `write`.
    memory.word(MAGIC_AT).load(Acquire) == MAGIC && halves(memory, ABI_AND_KIND_AT)[1] == ARRAY_KIND
}

/// Checks each fact against this program, this pid namespace and the file's length; what the records are is for the caller to judge.
/// Returns it, or the reason of the refusal.
pub(super) fn read(memory: &Memory, file_bytes: u64) -> Result<Facts, String> {
    // Partner: the Release in `write`.
    if memory.word(MAGIC_AT).load(Acquire) != MAGIC {
        return Err("it does not begin with SIDESTEP: not an array, or not finished".into());
    }
    let [abi, kind] = halves(memory, ABI_AND_KIND_AT);
    let [order, header] = halves(memory, ORDER_AND_HEADER_AT);
    let [layout, records, bytes, names, tag] =
        [LAYOUT_HASH_AT, RECORDS_AT, RECORD_BYTES_AT, PID_NAMESPACE_AT, TAG_AT].map(|at| memory.word(at).load(Relaxed));
    match () {
        () if order != BYTE_ORDER_MARK => return Err("it was made by a machine of the other byte order".into()),
        () if abi != ABI_VERSION => return Err(format!("its ABI version is {abi}, this program's is {ABI_VERSION}")),
        () if kind != ARRAY_KIND => return Err(format!("it is a ring (kind {kind}), not an array")),
        () if header as usize != HEADER_BYTES => {
            return Err(format!("its header has {header} bytes, this program's {HEADER_BYTES}"));
        }
        () if layout != ARRAY_LAYOUT_HASH => {
            return Err(format!("its layout hash is {layout:016x}, this program's {ARRAY_LAYOUT_HASH:016x}"));
        }
        () if names != pid_namespace() => {
            return Err(format!("it belongs to pid namespace {names}, this process does not"));
        }
        () => {}
    }
    let words = RECORD_WORDS.into_iter().find(|words| record_bytes(*words) as u64 == bytes);
    let words = words.ok_or_else(|| format!("its records have {bytes} bytes: neither one cache line nor two"))?;
    let known = u32::try_from(records).ok().filter(|records| (1..=RECORDS_MAX).contains(records));
    let records = known.ok_or_else(|| format!("it has {records} records: not from 1 to {RECORDS_MAX}"))?;
    let needs = array_bytes(records, words) as u64;
    // On huge pages the file is a multiple of their size. Not more than that is mapped and locked for a file of unknown origin.
    if file_bytes < needs || file_bytes > needs.next_multiple_of(HUGE_PAGE_BYTES as u64) {
        return Err(format!("the file has {file_bytes} bytes, the array needs {needs}"));
    }
    Ok(Facts { records, words, tag })
}

/// [`read`], and checks that the records are of this length and kind. Returns their number.
pub(super) fn check(memory: &Memory, file_bytes: u64, words: usize, tag: u64) -> Result<u32, String> {
    let found = read(memory, file_bytes)?;
    let [bytes, needs] = [found.words, words].map(record_bytes);
    if bytes != needs {
        return Err(format!("its records have {bytes} bytes, this program's {needs}"));
    }
    if found.tag != tag {
        let name = |tag: u64| tag.to_ne_bytes().escape_ascii().to_string();
        return Err(format!("its records are of the kind {:?}, this program's {:?}", name(found.tag), name(tag)));
    }
    Ok(found.records)
}
