//! One append-only journal for a session: what was sent, admin messages included, and both sequence numbers.
//!
//! Records are gathered in memory and written by [`Journal::commit`], all at once that a poll has brought; whoever drives the
//! session calls it before the bytes of those messages leave. What has been committed survives the death of the process;
//! with [`Durability::Disk`] it survives the death of the machine, once [`Journal::is_durable`] says so.
//!
//! A commit is a store to mapped memory where that is as good ([`Writing`]), and one pwrite(2) elsewhere.
//!
//! Segments are made, zeroed and removed by a thread beside the writer. A reset begins a new generation in the same file. The
//! index takes four bytes of memory a message of the generation, and finds any of them in one step per segment.
//!
//! What a crash leaves is read back up to the last whole record. What stands behind it is a torn write and is dropped, and
//! [`Recovery`] says how much. A segment that is gone, bytes that were changed, and fewer of them than a crash can leave are
//! damage: a journal with any is refused by name, unless its user accepts the loss ([`Options::accept_loss`]). What a crash
//! can leave is in docs/decisions/0021.

mod chain;
#[cfg(test)]
mod crash_tests;
mod disk;
mod format;
mod helper;
mod index;
mod manifest;
mod reader;
mod recover;
mod recovery;
mod salvage;
mod write;

pub use format::Kind;
pub use reader::{Entry, Segment, read_segment};
pub use recovery::Recovery;

/// The files of the segments that the journal in a folder has, as its manifest says: the oldest to the newest. None where no
/// manifest can be read, as journals of version 1 have none.
pub fn needed_segments(folder: &Path) -> Vec<PathBuf> {
    let facts = Manifest::facts(folder);
    // The manifest of a journal that was closed in order says how far it is on the disk.
    let ends = facts.and_then(|facts| facts.oldest.zip(facts.newest.or(facts.synced.map(|(segment, _)| segment))));
    // A sound journal has fewer; a damaged manifest must not name more than can be searched.
    ends.into_iter()
        .flat_map(|(oldest, newest)| oldest..=newest)
        .take(NEEDED_MAX)
        .map(|number| helper::segment_path(folder, number))
        .collect()
}

/// Segments that [`needed_segments`] names at most.
const NEEDED_MAX: usize = 1 << 16;

use format::NAME_MAX;
use helper::{Roller, Syncer};
use index::Index;
use manifest::Manifest;
use sidestep_sys::Problem;
use sidestep_sys::mapped::MappedFile;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default size of a segment, bytes: some 10 000 orders with their acknowledgements.
pub const SEGMENT_BYTES_DEFAULT: u64 = 4 << 20;
/// The smallest segment, bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The largest segment, bytes: positions are 32 bits, and one is zeroed in the background while the last is written.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The promise of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The bytes are the kernel's: they survive this process. A power cut may take those of the newest segment; finished ones,
    /// and all of a journal that was closed, are synced in the background.
    #[default]
    PageCache,
    /// The bytes are on the disk (fdatasync(2)), soon after: [`Journal::is_durable`] says when. Commits made while the disk
    /// is busy are synced together.
    Disk,
}

/// The way in which a commit hands its bytes to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writing {
    /// By a copy to the segment's mapped pages, without a system call, where the file system writes allocated blocks in place
    /// (ext4, XFS, tmpfs) and the page cache is all that is promised; else as [`Writing::Call`]. A disk that fails, or
    /// a truncation of the file by another process, then ends the process (SIGBUS), as a message that is not stored must not be sent.
    #[default]
    Mapped,
    /// By one pwrite(2): a failing disk ends the session, with its reason.
    Call,
}

/// The options of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The promise of a commit.
    pub durability: Durability,
    /// The way in which a commit is written.
    pub writing: Writing,
    /// Bytes of a segment, from [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u64,
    /// The CPU of the threads beside the writer, which prepare segments and wait for the disk. `None`: where they are in no other thread's
    /// way, which is any CPU of the process but the one that the opening thread is restricted to
    /// ([`cpu::move_to_helper_cpus`](sidestep_sys::cpu::move_to_helper_cpus)).
    pub helper_cpu: Option<u32>,
    /// Opens a damaged journal, too, with every message and number that is intact; the numbers are those that were written last.
    /// The damaged files are moved aside ([`Recovery::damaged`]).
    pub accept_loss: bool,
}

impl Options {
    /// The default options.
    pub const DEFAULT: Self = Self {
        durability: Durability::PageCache,
        writing: Writing::Mapped,
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        helper_cpu: None,
        accept_loss: false,
    };

    /// Returns whether segments are mapped where possible: data for the disk is written by calls, which the sync
    /// covers.
    fn wants_mapping(&self) -> bool {
        self.durability == Durability::PageCache && self.writing == Writing::Mapped
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Descriptors of one journal: its lock, the list of its segments, the one that is written and the one that is ready.
pub(crate) const DESCRIPTORS: usize = 4;

/// The store of one session in one folder, held by one process.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    session: String,
    options: Options,
    generation: u64,
    created_ns: i64,
    next_outbound: u64,
    next_inbound: u64,
    index: Index,
    /// The segment that is written.
    segment: u64,
    file: Arc<File>,
    /// The same in memory, where commits are stores.
    mapped: Option<MappedFile>,
    salt: u32,
    /// The place of the buffer in the segment.
    written: u64,
    /// Records not yet written.
    buffer: Vec<u8>,
    /// True if anything was added since the last commit.
    dirty: bool,
    /// The last commit.
    ticket: u64,
    /// The oldest segment there is.
    oldest: u64,
    /// Segments below this number are removed once the commit of this ticket, which made them superfluous, is durable.
    superfluous: Option<(u64, u64)>,
    manifest: Arc<Manifest>,
    roller: Roller,
    syncer: Option<Syncer>,
    /// The problem that stopped the journal; it stays stopped.
    failure: Option<Problem>,
    rolls_waited: u64,
    scratch: Vec<u8>,
    /// Held until the end; the kernel gives it back when the process dies.
    _lock: File,
}

impl Journal {
    /// Opens the journal of `session` in `folder`, or makes one created at `utc_ns` (since 1970).
    ///
    /// # Errors
    /// Another process has it open; the folder cannot be written; the disk is full; a file is not a journal, is another
    /// session's, of another version, or damaged in a way that no crash leaves.
    pub fn open(folder: &Path, session: &str, options: Options, utc_ns: i64) -> Result<(Self, Recovery), Problem> {
        if session.len() > NAME_MAX {
            return Err(Problem::usage(
                "cannot open a journal",
                format!("a session's name has at most {NAME_MAX} bytes"),
            ));
        }
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes) {
            let range = format!("a segment has {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes");
            return Err(Problem::usage("cannot open a journal", range));
        }
        options.helper_cpu.map_or(Ok(()), sidestep_sys::cpu::check_helper_cpu)?;
        recover::open(folder, session, options, utc_ns)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of resets of the session.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of times that a writer had to wait for a segment in preparation.
    pub fn rolls_waited(&self) -> u64 {
        self.rolls_waited
    }

    /// Returns whether commits are stores to memory: see [`Writing`].
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// The reason why the journal will soon be full, while there is still space for a Logout: the next segment could
    /// not be made, and less than an eighth of this one is left.
    pub fn nearly_full(&mut self) -> Option<Problem> {
        let left = self.options.segment_bytes.saturating_sub(self.position());
        if left > self.options.segment_bytes / 8 {
            return None;
        }
        let failure = self.roller.failure().cloned();
        self.roller.ask_again(self.segment + 1);
        failure
    }

    /// The place of the next record.
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }
}
