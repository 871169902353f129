//! Signal masks of threads.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Runs `work` with all signals blocked in this thread; threads that it starts inherit that, so that no handler of the program
/// runs in them.
pub fn with_all_blocked<T>(work: impl FnOnce() -> T) -> T {
    let before = Restore(set(all()));
    let result = work();
    drop(before);
    result
}

/// Restores the mask, also after a panic.
struct Restore(libc::sigset_t);

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.0);
    }
}

fn all() -> libc::sigset_t {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: sigfillset writes the whole set.
    unsafe {
        libc::sigfillset(mask.as_mut_ptr());
        mask.assume_init()
    }
}

fn set(mask: libc::sigset_t) -> libc::sigset_t {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both point to sets; it cannot fail with SIG_SETMASK, and all bits zero are a set, too.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, before.as_mut_ptr());
        before.assume_init()
    }
}

/// Returns whether a signal is blocked in this thread.
pub fn is_blocked(signal: i32) -> bool {
    let mut mask = MaybeUninit::zeroed();
    // SAFETY: without a new set it only reads the present one into ours.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, null_mut(), mask.as_mut_ptr());
        libc::sigismember(mask.as_ptr(), signal) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_started_meanwhile_get_no_signals() {
        let of_thread = with_all_blocked(|| std::thread::spawn(|| is_blocked(libc::SIGUSR1)).join().unwrap());
        assert!(of_thread && !is_blocked(libc::SIGUSR1));
    }
}
