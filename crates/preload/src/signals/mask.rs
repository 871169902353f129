//! Signal masks, by the system call: it is no cancellation point and takes no lock.

use crate::signals::inside::{self, Inside};
use libc::{c_int, c_long, sigset_t};
use rustix::io::Errno;

/// The kernel's signal set: bit `n - 1` stands for signal `n`.
pub(crate) type Set = u64;

/// The signals that have a number.
pub(crate) const SIGNALS: c_int = 64;

/// The signals that are queued, each with its value.
pub(super) const REAL_TIME: Set = Set::MAX << 31;

pub(crate) fn bit(signal: c_int) -> Set {
    1 << (signal - 1)
}

/// Changes the mask of this thread, and returns the one before.
pub(crate) fn change(how: c_int, set: Set) -> Set {
    let mut before: Set = 0;
    // SAFETY: both places are of the length that is told.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, c_long::from(how), &raw const set, &raw mut before, size_of::<Set>())
    };
    before
}

/// All signals are blocked in this thread while it lives.
#[derive(Debug)]
pub(crate) struct AllBlocked(Set);

impl AllBlocked {
    pub(crate) fn block() -> Self {
        Self(change(libc::SIG_SETMASK, Set::MAX))
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        change(libc::SIG_SETMASK, self.0);
    }
}

/// Runs a wait with another signal mask, as ppoll(2) does: a signal that only the other mask admits interrupts it, and its handler has run
/// when this returns; where the wait ends for another reason, the signal stays pending. Null: the present mask. The caller is not
/// [`Inside`].
///
/// # Safety
/// `mask` is null, or valid.
pub(crate) unsafe fn with_mask<T>(mask: *const sigset_t, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    if mask.is_null() {
        return work();
    }
    // SAFETY: the caller promises the mask, whose first word is the kernel's.
    let mask = unsafe { mask.cast::<Set>().read_unaligned() };
    // A signal that comes between the mask and the wait is deferred, and so interrupts the wait.
    let inside = Inside::enter();
    let before = change(libc::SIG_SETMASK, mask);
    let result = work();
    if !matches!(result, Err(Errno::INTR)) {
        change(libc::SIG_SETMASK, before | inside::leave_pending(before));
        return result;
    }
    drop(inside);
    change(libc::SIG_SETMASK, before);
    result
}
