//! The changes to the files of one folder, in their order.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One change; see `disk.rs`.
#[derive(Clone, Debug)]
pub(in super::super) enum Operation {
    Create,
    Allocate(u64),
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
    SyncFolder,
    Rename(PathBuf),
    Remove,
}

/// A change and what was changed: a file by its inode, a name by itself.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) inode: u64,
    pub(super) name: String,
    pub(super) operation: Operation,
}

#[derive(Default)]
struct Recorder {
    /// The folders whose changes are wanted, and the changes.
    folders: HashMap<PathBuf, Vec<Step>>,
    /// Inodes of files in these folders.
    files: HashMap<u64, PathBuf>,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the changes in `folder` are recorded.
pub(super) fn begin(folder: &Path) {
    recorder().get_or_insert_default().folders.insert(folder.to_owned(), Vec::new());
}

/// The same for a folder that has files already.
pub(super) fn begin_with(folder: &Path) {
    begin(folder);
    let mut guard = recorder();
    let files = &mut guard.get_or_insert_default().files;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        files.insert(entry.path().inode(), folder.to_owned());
    }
}

/// The number of changes so far.
pub(super) fn count(folder: &Path) -> usize {
    recorder().as_ref().and_then(|recorder| recorder.folders.get(folder)).map_or(0, Vec::len)
}

/// The changes; recording ends.
pub(super) fn end(folder: &Path) -> Vec<Step> {
    recorder().as_mut().and_then(|recorder| recorder.folders.remove(folder)).unwrap_or_default()
}

/// The target of a change.
pub(in super::super) trait Target {
    fn is_folder(&self) -> bool;
    fn place(&self) -> Option<&Path>;
    fn inode(&self) -> u64;
}

impl Target for File {
    fn is_folder(&self) -> bool {
        false
    }
    fn place(&self) -> Option<&Path> {
        None
    }
    fn inode(&self) -> u64 {
        self.metadata().map_or(0, |facts| facts.ino())
    }
}

impl Target for Path {
    fn is_folder(&self) -> bool {
        self.is_dir()
    }
    fn place(&self) -> Option<&Path> {
        Some(self)
    }
    fn inode(&self) -> u64 {
        std::fs::metadata(self).map_or(0, |facts| facts.ino())
    }
}

/// Does a change and records it, both before the next change.
pub(in super::super) fn record<T: Outcome>(
    target: &(impl Target + ?Sized),
    operation: impl FnOnce() -> Operation,
    act: impl FnOnce() -> T,
) -> T {
    let mut guard = recorder();
    let Some(recorder) = guard.as_mut().filter(|recorder| !recorder.folders.is_empty()) else {
        drop(guard);
        return act();
    };
    // Before the act: a removed file has no inode afterwards.
    let before = target.inode();
    let outcome = act();
    let inode = if before == 0 { target.inode() } else { before };
    let folder = match target.place() {
        Some(path) if target.is_folder() => Some(path.to_owned()),
        Some(path) => path.parent().map(Path::to_owned),
        None => recorder.files.get(&inode).cloned(),
    };
    let Some(folder) = folder.filter(|folder| recorder.folders.contains_key(folder)) else { return outcome };
    if outcome.is_done() {
        let operation = operation();
        let name =
            target.place().and_then(Path::file_name).map_or_else(String::new, |name| name.to_string_lossy().into());
        match operation {
            Operation::Create => _ = recorder.files.insert(inode, folder.clone()),
            Operation::Remove => _ = recorder.files.remove(&inode),
            _ => {}
        }
        recorder.folders.entry(folder).or_default().push(Step { inode, name, operation });
    }
    outcome
}

/// The result of a change.
pub(in super::super) trait Outcome {
    fn is_done(&self) -> bool;
}

impl<T> Outcome for io::Result<T> {
    fn is_done(&self) -> bool {
        self.is_ok()
    }
}

impl Outcome for bool {
    fn is_done(&self) -> bool {
        *self
    }
}
