//! Detection of a fork: one load, whereas getpid(2) is a system call.

use crate::memory::Mapping;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The guard's word in a forked child, in one that begins to make the guard its own, and in the process whose guard it is.
const FORKED: u32 = 0;
const BEGUN: u32 = 1;
const SAME: u32 = 2;

/// Distinguishes the process that made it from a child that was forked later.
#[derive(Debug)]
pub struct ForkGuard(Mapping);

impl ForkGuard {
    /// Makes a guard of this process.
    pub fn new() -> io::Result<Self> {
        let guard = Self(Mapping::private(4096)?);
        guard.0.wipe_on_fork()?;
        guard.renew();
        Ok(guard)
    }

    /// Returns false in a forked child.
    #[inline]
    pub fn is_same_process(&self) -> bool {
        self.word().load(Ordering::Relaxed) == SAME
    }

    /// Begins to make the guard this process's; returns whether the calling thread is the one to do it: none was before since the fork.
    pub fn begin(&self) -> bool {
        self.word().compare_exchange(FORKED, BEGUN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Makes the guard this process's: a forked child that has made all that it guards anew is the one, and its children are others.
    pub fn renew(&self) {
        self.word().store(SAME, Ordering::Release);
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
            let mut is_good = !guard.is_same_process() && guard.begin() && !guard.begin() && !guard.is_same_process();
            guard.renew();
            is_good &= guard.is_same_process() && !guard.begin();
            let code = i32::from(!is_good);
            // SAFETY: _exit runs no handler of this process.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child sees that it is not the one, and becomes it");
        assert!(guard.is_same_process());
    }
}
