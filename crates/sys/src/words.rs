//! Shared memory as 64-bit words, without unsafe code above this crate.
//!
//! Every word is an atomic, so a concurrent store by another process is not undefined behaviour; the reader's protocol
//! decides what a value means. A file whose size can still change is refused: truncating it would end a process that
//! loads from it (SIGBUS).

use crate::Problem;
use crate::memory::{Access, Mapping, allocate, is_hugetlbfs, memfd, seal_size, seal_writes, size_is_sealed};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BYTES: usize = size_of::<u64>();

/// Words that this process may load and store.
#[derive(Debug)]
pub struct Words(Mapping);

/// Words that this process may only load; the pages are mapped read-only.
#[derive(Debug)]
pub struct WordsView(Mapping);

/// The processes that may store to the words of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// The process that made it: the file is sealed against every later writable mapping (F_SEAL_FUTURE_WRITE, Linux
    /// 5.1).
    Maker,
    /// All holders of the descriptor.
    Holders,
}

impl Words {
    /// Makes zeroed words on a memfd of fixed size, every page present.
    pub fn create(name: &str, words: usize, writers: Writers) -> io::Result<(Self, OwnedFd)> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::FileTooLarge)?;
        let file = memfd(name, false)?;
        allocate(file.as_fd(), bytes)?;
        let mapping = Mapping::shared(file.as_fd(), bytes, Access::ReadWrite)?;
        mapping.prefault()?;
        if writers == Writers::Maker {
            seal_writes(file.as_fd())?;
        }
        seal_size(file.as_fd())?;
        Ok((Self(mapping), file))
    }

    /// Maps the words of an existing file.
    pub fn open(file: BorrowedFd<'_>, words: usize) -> Result<Self, Problem> {
        checked(file, words, Access::ReadWrite).map(Self)
    }

    /// Wraps a writable mapping of a file that cannot shrink, such as a BPF map. Panics if it is read-only.
    pub fn over(mapping: Mapping) -> Self {
        assert_eq!(mapping.access(), Access::ReadWrite, "words are stored to");
        Self(mapping)
    }

    /// The number of words.
    #[allow(clippy::len_without_is_empty)] // The kernel refuses an empty mapping.
    pub fn len(&self) -> usize {
        self.0.len() / WORD_BYTES
    }

    /// One word. Panics beyond the end, as a slice does.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        word(&self.0, index)
    }
}

impl WordsView {
    /// Maps the words of an existing file.
    pub fn open(file: BorrowedFd<'_>, words: usize) -> Result<Self, Problem> {
        checked(file, words, Access::ReadOnly).map(Self)
    }

    /// Wraps a mapping of a file that cannot shrink, such as a BPF map.
    pub fn over(mapping: Mapping) -> Self {
        Self(mapping)
    }

    /// The number of words.
    #[allow(clippy::len_without_is_empty)] // The kernel refuses an empty mapping.
    pub fn len(&self) -> usize {
        self.0.len() / WORD_BYTES
    }

    /// Loads one word. Panics beyond the end, as a slice does.
    #[inline]
    pub fn load(&self, index: usize, order: Ordering) -> u64 {
        word(&self.0, index).load(order)
    }
}

fn word(mapping: &Mapping, index: usize) -> &AtomicU64 {
    assert!(index < mapping.len() / WORD_BYTES, "word {index} of {}", mapping.len() / WORD_BYTES);
    // SAFETY: the word is inside the mapping, which lives as long as the reference, and aligned, as a mapping begins at a
    // page. Whoever has the same pages in this process reaches them through this function or answers for it in unsafe
    // code of its own. A read-only mapping is only loaded from: `WordsView` gives out no reference.
    unsafe { mapping.base().cast::<AtomicU64>().add(index).as_ref() }
}

fn checked(file: BorrowedFd<'_>, words: usize, access: Access) -> Result<Mapping, Problem> {
    let what = "cannot map shared words";
    let next = "both ends must come from the same version of sidestep";
    let bytes = words
        .checked_mul(WORD_BYTES)
        .ok_or_else(|| Problem::failed(what, "their number is too large for the address space"))?;
    if size_is_sealed(file) != Some(true) {
        return Err(Problem::failed(what, "the size of the file is not sealed").next(next));
    }
    // Its owner can free huge pages and use them up: the next load would end this process (SIGBUS).
    if is_hugetlbfs(file) {
        return Err(Problem::failed(what, "the file lies on huge pages").next(next));
    }
    let failed = |error: io::Error| Problem::failed(what, error).next(next);
    let size = File::from(file.try_clone_to_owned().map_err(failed)?).metadata().map_err(failed)?.len();
    if size < bytes as u64 {
        return Err(Problem::failed(what, format!("the file has {size} bytes, not {bytes}")).next(next));
    }
    Mapping::shared(file, bytes, access).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    #[test]
    fn what_the_maker_stores_a_viewer_loads_and_nobody_else_can_store() {
        let (words, file) = Words::create("sidestep-test", 600, Writers::Maker).unwrap();
        let view = WordsView::open(file.as_fd(), 600).unwrap();
        words.word(599).store(7, Relaxed);
        assert_eq!((view.load(599, Relaxed), view.len(), words.len()), (7, 600, 600));
        let refused = Words::open(file.as_fd(), 600).unwrap_err().to_string();
        assert!(refused.contains("Operation not permitted"), "{refused}");
    }

    #[test]
    fn holders_may_store_where_the_maker_allows_it() {
        let (words, file) = Words::create("sidestep-test", 8, Writers::Holders).unwrap();
        Words::open(file.as_fd(), 8).unwrap().word(3).store(9, Relaxed);
        assert_eq!(words.word(3).load(Relaxed), 9);
    }

    #[test]
    fn a_file_that_can_shrink_or_is_too_short_is_refused() {
        let loose = memfd("sidestep-test", false).unwrap();
        allocate(loose.as_fd(), 4096).unwrap();
        assert!(WordsView::open(loose.as_fd(), 8).unwrap_err().to_string().contains("not sealed"));
        let (_words, file) = Words::create("sidestep-test", 8, Writers::Holders).unwrap();
        assert!(WordsView::open(file.as_fd(), 9).unwrap_err().to_string().contains("64 bytes, not 72"));
        assert!(WordsView::open(file.as_fd(), usize::MAX).is_err());
    }

    #[test]
    fn huge_pages_which_can_be_taken_away_are_refused() {
        let huge = memfd("sidestep-test", true).unwrap();
        // The size can be set even if no huge page is available.
        File::from(huge.try_clone().unwrap()).set_len(2 << 20).unwrap();
        seal_size(huge.as_fd()).unwrap();
        let refused = WordsView::open(huge.as_fd(), 8).unwrap_err().to_string();
        assert!(refused.contains("huge pages"), "{refused}");
    }

    #[test]
    #[should_panic(expected = "word 8 of 8")]
    fn beyond_the_end_there_is_nothing() {
        let (words, _file) = Words::create("sidestep-test", 8, Writers::Maker).unwrap();
        words.word(8);
    }
}
