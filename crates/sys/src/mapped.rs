//! A file written through a memory mapping: a store reaches the page cache without a system call.

use crate::memory::{Access, Mapping, writes_in_place};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// The beginning of a file, mapped for writing.
///
/// The file must keep its length as long as this lives: after a truncation or a disk failure, the next store ends the
/// process (SIGBUS). Stored bytes survive the process, as those of write(2) do.
#[derive(Debug)]
pub struct MappedFile(Mapping);

impl MappedFile {
    /// Maps the first `len` bytes of a file whose blocks are all allocated, and faults their pages in. Returns `None`
    /// if the file system does not write in place (`writes_in_place`: a store might then need space that is not
    /// there), or cannot map the file.
    ///
    /// # Errors
    /// Fails if the pages cannot be had.
    pub fn map(file: &File, len: usize) -> io::Result<Option<Self>> {
        if !writes_in_place(file.as_fd()) || file.metadata()?.len() < len as u64 {
            return Ok(None);
        }
        let Ok(mapping) = Mapping::shared(file.as_fd(), len, Access::ReadWrite) else { return Ok(None) };
        // Before Linux 5.14 the first store to each page faults it in, which is only slower.
        match mapping.prefault() {
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => Ok(Some(Self(mapping))),
        }
    }

    /// Stores `bytes` at `at`. Returns false, and stores nothing, if they do not fit.
    #[must_use]
    pub fn store(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some(at) =
            usize::try_from(at).ok().filter(|at| at.checked_add(bytes.len()).is_some_and(|end| end <= self.0.len()))
        else {
            return false;
        };
        // SAFETY: `at .. at + bytes.len()` lies inside the mapping, as just checked, which lives as long as `self` and is
        // writable; no reference to its bytes exists anywhere in this process, so the ranges cannot overlap. Other
        // processes see the file change, as they do with write(2).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.base().as_ptr().add(at), bytes.len()) };
        true
    }

    /// Stores eight bytes, little-endian, atomically and after everything stored before. Returns false, and stores
    /// nothing, if they do not fit or `at` is not a multiple of eight.
    #[must_use]
    pub fn store_word(&mut self, at: u64, word: u64) -> bool {
        let Some(at) = usize::try_from(at)
            .ok()
            .filter(|at| at.is_multiple_of(8) && at.checked_add(8).is_some_and(|end| end <= self.0.len()))
        else {
            return false;
        };
        // SAFETY: `at .. at + 8` lies inside the mapping, which lives as long as `self` and is writable; a mapping begins on a
        // page, so the address is a multiple of eight. No reference to these bytes exists anywhere in this process.
        let place = unsafe { AtomicU64::from_ptr(self.0.base().as_ptr().add(at).cast()) };
        place.store(word.to_le(), Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn file(name: &str, len: u64) -> File {
        let path = std::env::temp_dir().join(format!("sidestep-mapped-{}-{name}", std::process::id()));
        let options = File::options().read(true).write(true).create_new(true).open(&path);
        let file = options.expect("a temporary file");
        std::fs::remove_file(&path).expect("it is ours");
        file.set_len(len).expect("it can grow");
        file
    }

    #[test]
    fn what_is_stored_is_read_from_the_file_and_nothing_is_stored_beyond() {
        let file = file("stores", 8192);
        let Some(mut mapped) = MappedFile::map(&file, 8192).expect("there is memory") else {
            return eprintln!("skipped: the file system of the temporary folder does not write in place");
        };
        assert!(mapped.store(4090, b"across pages"));
        let mut read = [0; 12];
        file.read_exact_at(&mut read, 4090).expect("it is there");
        assert_eq!(&read, b"across pages");
        assert!(mapped.store(8192, b"") && mapped.store(8191, b"x"));
        assert!(!mapped.store(8191, b"xy") && !mapped.store(u64::MAX, b"x"));
        assert!(mapped.store_word(8184, 0x0102_0304_0506_0708));
        file.read_exact_at(&mut read[..8], 8184).expect("it is there");
        assert_eq!(read[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert!(!mapped.store_word(8192, 1) && !mapped.store_word(u64::MAX - 7, 1) && !mapped.store_word(12, 1));
    }

    #[test]
    fn a_file_that_is_shorter_is_not_mapped() {
        assert!(MappedFile::map(&file("short", 4096), 8192).expect("it is only short").is_none());
    }
}
