//! Every change that a journal makes to its folder. Tests record them, and make from them whatever a power cut can leave
//! (`crash_tests`); the journal does nothing to a file by any other way.

use rustix::fs::{FallocateFlags, fallocate};
use sidestep_sys::Problem;
use sidestep_sys::mapped::MappedFile;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

#[cfg(test)]
use super::crash_tests::trace::{Operation, record};

#[cfg(not(test))]
macro_rules! recorded {
    ($file:expr, $operation:expr, $act:expr) => {
        $act
    };
}
#[cfg(test)]
macro_rules! recorded {
    ($file:expr, $operation:expr, $act:expr) => {
        record($file, || $operation, || $act)
    };
}

/// Files of a journal are for their user alone: messages may have passwords (554).
pub(super) const FILE_MODE: u32 = 0o600;

/// A new file, empty.
pub(super) fn create(path: &Path) -> io::Result<File> {
    recorded!(
        path,
        Operation::Create,
        OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
    )
}

/// Takes space for `bytes`, where the file system can; they read as zeroes.
pub(super) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    recorded!(
        file,
        Operation::Allocate(bytes),
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // The zeroes that are written next take the space just as well.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    )
}

pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    recorded!(file, Operation::Write(at, bytes.to_vec()), file.write_all_at(bytes, at))
}

/// The same through memory; false, and nothing is stored, where there is no room.
pub(super) fn store(mapped: &mut MappedFile, _file: &File, bytes: &[u8], at: u64) -> bool {
    recorded!(_file, Operation::Write(at, bytes.to_vec()), mapped.store(at, bytes))
}

/// Eight bytes at once, after everything that was stored before.
pub(super) fn store_word(mapped: &mut MappedFile, _file: &File, word: u64, at: u64) -> bool {
    recorded!(_file, Operation::Write(at, word.to_le_bytes().to_vec()), mapped.store_word(at, word))
}

pub(super) fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    recorded!(file, Operation::SetLen(bytes), file.set_len(bytes))
}

/// Waits until the disk has the file's bytes, and as many of them as it is long.
pub(super) fn sync(file: &File) -> io::Result<()> {
    recorded!(file, Operation::Sync, file.sync_data())
}

/// Waits until the disk has the names of the folder's files.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    recorded!(folder, Operation::SyncFolder, File::open(folder)?.sync_all())
}

/// Gives a file another name in the same folder.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    recorded!(from, Operation::Rename(to.to_owned()), fs::rename(from, to))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    recorded!(path, Operation::Remove, fs::remove_file(path))
}

/// Returns the error for a folder that cannot be used.
pub(super) fn unusable(folder: &Path, error: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot use {} for a journal", folder.display()), error)
        .next("choose a folder that this user may write to")
}

/// Syncs the names of a folder and of its parents, up to that one.
pub(super) fn sync_parents(folder: &Path, up_to: Option<&Path>) -> io::Result<()> {
    for parent in folder.ancestors().skip(1) {
        let place = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match sync_folder(place) {
            // A folder that this user may not list is not one that was just made.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
        if Some(parent) == up_to {
            break;
        }
    }
    Ok(())
}
