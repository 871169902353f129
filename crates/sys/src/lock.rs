//! A lock between processes that the kernel releases when its holder dies.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Waits for the exclusive lock of an open file (flock(2)). Closing the file, or the end of the process, releases it.
pub fn exclusive(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: flock takes no pointer and the descriptor is open for the length of the call.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
