//! errno of the calling thread.

use rustix::io::Errno;

/// Sets errno of the calling thread.
pub(crate) fn set(errno: Errno) {
    // SAFETY: the C library has an errno for each thread, at an address that is valid while the thread runs.
    unsafe { *libc::__errno_location() = errno.raw_os_error() }
}

/// errno of the calling thread.
pub(crate) fn last() -> Errno {
    // SAFETY: as above.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Runs what may change errno of the calling thread, and restores it.
pub(crate) fn preserve<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: as above.
    let before = unsafe { *libc::__errno_location() };
    let result = work();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
    result
}
