//! Detection of a fork: one load, whereas getpid(2) is a system call.

use crate::memory::Mapping;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Distinguishes the process that made it from a child that was forked later.
#[derive(Debug)]
pub struct ForkGuard(Mapping);

impl ForkGuard {
    /// Makes a guard of this process.
    pub fn new() -> io::Result<Self> {
        let guard = Self(Mapping::private(4096)?);
        guard.0.wipe_on_fork()?;
        guard.word().store(1, Ordering::Relaxed);
        Ok(guard)
    }

    /// Returns false in a forked child.
    #[inline]
    pub fn is_same_process(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 1
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is longer than a word, aligned to a page, writable, lives as long as the reference, and is
        // reached through this function alone.
        unsafe { self.0.base().cast::<AtomicU32>().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_another_process() {
        let guard = ForkGuard::new().unwrap();
        assert!(guard.is_same_process());
        // SAFETY: the child makes no call but _exit and touches nothing but the guard.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(guard.is_same_process());
            // SAFETY: _exit runs no handler of this process.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child sees that it is not the one");
        assert!(guard.is_same_process());
    }
}
