//! The file that bind(2) makes for a Unix socket.

use sidestep_sys::fork::ForkGuard;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file of a Unix socket, removed with its listener: by the process that made it, and if it is still that file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    guard: ForkGuard,
}

impl SocketFile {
    /// Takes the file at `path`, which this process has just made.
    ///
    /// # Errors
    /// The file cannot be examined.
    pub fn at(path: &Path) -> io::Result<Self> {
        let facts = fs::symlink_metadata(path)?;
        let (device, inode) = (facts.dev(), facts.ino());
        Ok(Self { path: path.to_owned(), device, inode, guard: ForkGuard::new()? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_it = |facts: fs::Metadata| (facts.dev(), facts.ino()) == (self.device, self.inode);
        if self.guard.is_same_process() && fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // Without the listener behind it the name only misleads. Gone meanwhile is as good.
            let _ = fs::remove_file(&self.path);
        }
    }
}
