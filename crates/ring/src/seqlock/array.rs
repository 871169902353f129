//! An array in shared memory: a sealed memfd that is handed over, or a named file.

use super::header::{Facts, array_bytes, check, is_array, read, write};
use super::{RECORDS_MAX, Reader, Writer, assert_lines, offset, record_bytes, version};
use crate::layout::{WRITER_ROLE_AT, WRITER_SLEEPS_AT};
use crate::memory::Memory;
use crate::observe::{Holder, holder};
use crate::ring::Ring;
use crate::role::Side;
use crate::shared_file::{ARRAY, Backing, SharedFile, prepare};
use crate::sync::{Arc, Relaxed};
use sidestep_sys::Problem;
use sidestep_sys::memory::Access;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What to do about an array that is refused.
const NEXT: &str = "make a new one with this version of the program";

/// The options of a new array.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of records, 1 to [`RECORDS_MAX`].
    pub records: u32,
    /// What the records are, eight letters as a rule (`u64::from_ne_bytes(*b"TOPS0001")`): whoever expects something else is refused.
    pub tag: u64,
}

/// The state of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Records.
    pub records: u32,
    /// The size of a record with its version, bytes.
    pub record_bytes: usize,
    /// What the records are ([`Options::tag`]).
    pub tag: u64,
    /// Records that have been written.
    pub written: u32,
    /// Records in the middle of a write: one at most, as long as the writer is honest.
    pub busy: u32,
    /// The greatest stamp.
    pub newest: u64,
    /// The writing side.
    pub writer: Holder,
}

/// A mapped array in shared memory. Its handles keep the mapping alive.
pub struct Array<const WORDS: usize> {
    name: String,
    file: OwnedFd,
    ring: Arc<Ring>,
    records: u32,
    tag: u64,
    backing: Backing,
}

impl<const WORDS: usize> Array<WORDS> {
    /// Makes an array in a memfd whose size is sealed. Hand its descriptor to the other process.
    pub fn memfd(options: &Options) -> Result<Self, Problem> {
        check_records(options.records)?;
        Ok(Self::fresh(SharedFile::memfd(ARRAY, array_bytes(options.records, WORDS))?, options))
    }

    /// Makes an array in a new file. The name appears when the array is complete; an existing name is refused.
    pub fn create(path: &Path, options: &Options) -> Result<Self, Problem> {
        check_records(options.records)?;
        let bytes = array_bytes(options.records, WORDS);
        SharedFile::create(ARRAY, path, bytes, |file| Self::fresh(file, options))
    }

    /// Attaches to an array of this tag in a file. What is refused: [`crate::Segment::open`].
    pub fn open(path: &Path, access: Access, tag: u64) -> Result<Self, Problem> {
        Self::attach(SharedFile::open(ARRAY, path, access)?, tag)
    }

    /// Attaches to an array of this tag in a descriptor that was handed over. What is refused: [`crate::Segment::from_fd`].
    pub fn from_fd(file: OwnedFd, access: Access, tag: u64) -> Result<Self, Problem> {
        Self::attach(SharedFile::of_fd(ARRAY, file, access)?, tag)
    }

    fn fresh(shared: SharedFile, options: &Options) -> Self {
        const { assert_lines(WORDS) };
        let SharedFile { name, file, mapping, huge_pages, .. } = shared;
        let backing = Backing { huge_pages, locked: prepare(&mapping) };
        let memory = Memory::new(mapping);
        write(&memory, options.records, WORDS, options.tag);
        let Options { records, tag } = *options;
        Self { name, file, ring: Arc::new(Ring::of_records(memory, true)), records, tag, backing }
    }

    fn attach(shared: SharedFile, tag: u64) -> Result<Self, Problem> {
        const { assert_lines(WORDS) };
        let SharedFile { name, file, mapping, bytes, huge_pages } = shared;
        let memory = Memory::new(mapping);
        let records = check(&memory, bytes, WORDS, tag).map_err(|why| ARRAY.cannot_attach(&name, why).next(NEXT))?;
        let backing = Backing { huge_pages, locked: prepare(memory.mapping()) };
        Ok(Self { name, file, ring: Arc::new(Ring::of_records(memory, true)), records, tag, backing })
    }

    /// Takes the writing side, if it is free or its process has ended, and repairs what that one left unfinished.
    pub fn writer(&self) -> Result<Writer<WORDS>, Problem> {
        if self.ring.memory.mapping().access() == Access::ReadOnly {
            let why = "it was opened read-only";
            return Err(ARRAY.cannot_attach(&self.name, why).next("open it for reading and writing"));
        }
        let side = Side::writer()
            .take(&self.ring)
            .map_err(|error| ARRAY.cannot_attach(&self.name, error).next("end that process, or write another array"))?;
        Ok(Writer::resume(Arc::clone(&self.ring), side, self.records))
    }

    /// Makes a reader. Read-only access is enough.
    pub fn reader(&self) -> Reader<WORDS> {
        Reader::new(Arc::clone(&self.ring), self.records)
    }

    /// The state of the array and of its writer. Only loads; one of each record.
    pub fn stat(&self) -> Stat {
        state(&self.ring, Facts { records: self.records, words: WORDS, tag: self.tag })
    }

    /// The descriptor to hand over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The kind of memory that the array got.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }
}

/// The state of an array in a file, whatever its records are, for who only looks at it. Nothing if no array is there; whoever opens the
/// file as a ring is told what is.
///
/// # Errors
/// It is an array that cannot be read; what is refused: [`crate::Segment::open`].
pub fn stat(path: &Path) -> Result<Option<Stat>, Problem> {
    let Ok(SharedFile { name, mapping, bytes, .. }) = SharedFile::open(ARRAY, path, Access::ReadOnly) else {
        return Ok(None);
    };
    let memory = Memory::new(mapping);
    if !is_array(&memory) {
        return Ok(None);
    }
    let facts = read(&memory, bytes).map_err(|why| ARRAY.cannot_attach(&name, why).next(NEXT))?;
    Ok(Some(state(&Ring::of_records(memory, true), facts)))
}

/// Loads only: one of each record.
fn state(ring: &Ring, facts: Facts) -> Stat {
    let Facts { records, words, tag } = facts;
    // Nobody sleeps on an array, and none is closed.
    let writer = holder(ring, WRITER_ROLE_AT, WRITER_SLEEPS_AT, false);
    let mut stat = Stat { records, record_bytes: record_bytes(words), tag, written: 0, busy: 0, newest: 0, writer };
    for index in 0..records {
        let version = version(&ring.memory, offset(index, words)).load(Relaxed);
        stat.written += u32::from(version > 0);
        stat.busy += (version % 2) as u32;
        stat.newest = stat.newest.max(version.div_ceil(2));
    }
    stat
}

/// Refuses a number of records that no array has.
pub(super) fn check_records(records: u32) -> Result<(), Problem> {
    if (1..=RECORDS_MAX).contains(&records) {
        return Ok(());
    }
    let why = format!("an array has 1 to {RECORDS_MAX} records");
    Err(Problem::usage(format!("cannot make an array of {records} records"), why).next("use several arrays"))
}
