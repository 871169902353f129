//! The process that the tables and the engine belong to, its children, and its end.
//!
//! A forked child finds its parent's tables and engine in its memory. It touches none of it: it begins with empty tables and no engine, as a
//! fresh process does, and remembers which numbers it has inherited (`inherited`). A child of vfork(2) shares all of it with its parent,
//! and changes nothing.

use crate::signals::Inside;
use crate::{datagram, descriptors, engine, epoll, handover};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::own_descriptors;
use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static OWNER: AtomicU32 = AtomicU32::new(0);
static GUARD: OnceLock<ForkGuard> = OnceLock::new();
/// Forks of this process: each child has a copy of every descriptor.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Programs that this process has started otherwise: each has a copy of every descriptor without FD_CLOEXEC.
static STARTED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// The moment at which an open file description was made, among the children of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    forks: u64,
    started: u64,
}

impl Birth {
    pub(crate) fn now() -> Self {
        Self { forks: FORKS.load(Ordering::Relaxed), started: STARTED.load(Ordering::Relaxed) }
    }

    /// Returns whether a forked child may have the description.
    pub(crate) fn was_before_fork(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// Returns whether a program that was started since may have those of its numbers that stay open.
    pub(crate) fn was_before_start(&self) -> bool {
        self.started != STARTED.load(Ordering::Relaxed)
    }
}

/// Notes that another program is started, which has what stays open.
pub(crate) fn note_start() {
    STARTED.fetch_add(1, Ordering::Relaxed);
}

/// Notes that the tables are this process's; before anything is in them.
pub(crate) fn own() -> io::Result<()> {
    if GUARD.get().is_none() {
        let guard = ForkGuard::new()?;
        if GUARD.set(guard).is_ok() {
            own_descriptors::begin();
            // SAFETY: the handlers take nothing and return: two in the calling process, before and after it forks, one in the child.
            unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(begin_child)) };
            // SAFETY: as above; these take and give a flag.
            unsafe {
                libc::pthread_atfork(
                    Some(own_descriptors::hold_limit),
                    Some(own_descriptors::release_limit),
                    Some(own_descriptors::release_limit),
                )
            };
            // SAFETY: as above, and before the process ends.
            unsafe { libc::atexit(at_exit) };
            // SAFETY: as above.
            unsafe { at_quick_exit(at_exit) };
        }
    }
    begin_child();
    OWNER.store(std::process::id(), Ordering::Relaxed);
    Ok(())
}

/// The kernel gets what is unsent.
pub(crate) extern "C" fn at_exit() {
    if is_owner() && !is_child() && !Inside::is_entered() {
        handover::at_exit();
    }
}

/// Called before fork(2), and before other calls that copy this process.
pub(crate) extern "C" fn before_fork() {
    if is_owner() && !is_child() && !Inside::is_entered() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        handover::before_fork();
    }
}

/// Called after fork(2) in the process that has forked: what other threads have made since [`before_fork`] began, which may wait for
/// control, the child has, too. What they have made since the fork itself counts as the child's as well; it costs a hand-over.
pub(crate) extern "C" fn after_fork() {
    note_fork();
}

/// Notes that a child has all that there is.
pub(crate) fn note_fork() {
    if is_owner() && !is_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The beginning of a forked child: called in it after fork(2), and by its first use of what it has inherited where the C library did not
/// tell (_Fork(3), clone(2)). Does nothing in other processes.
pub(crate) extern "C" fn begin_child() {
    let Some(guard) = GUARD.get() else { return };
    while !guard.is_same_process() {
        // Handlers of signals come afterwards.
        let _inside = Inside::enter();
        if guard.begin() {
            own_descriptors::close_inherited();
            descriptors::inherit();
            engine::renew();
            epoll::renew();
            datagram::renew();
            OWNER.store(std::process::id(), Ordering::Relaxed);
            guard.renew();
        }
    }
}

/// Makes the tables this process's, if they are nobody's or its parent's; returns false in a child of vfork(2).
pub(crate) fn own_first() -> bool {
    if OWNER.load(Ordering::Relaxed) == 0 || !is_owner() {
        return own().is_ok();
    }
    !is_child()
}

/// Returns whether the memory is that of the process that the tables belong to: not in a child of fork(2) that has not begun.
#[inline]
pub(crate) fn is_owner() -> bool {
    GUARD.get().is_some_and(ForkGuard::is_same_process)
}

/// The process that the tables belong to; 0: none.
pub(crate) fn owner() -> u32 {
    OWNER.load(Ordering::Relaxed)
}

/// Returns whether this process is a child of that one: after vfork(2) it shares the tables with it.
pub(crate) fn is_child() -> bool {
    owner() != std::process::id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::tests::PROCESSES;
    use std::sync::{Mutex, PoisonError};

    static BORN: Mutex<Option<Birth>> = Mutex::new(None);

    extern "C" fn make_one() {
        if is_owner() {
            *BORN.lock().unwrap() = Some(Birth::now());
        }
    }

    #[test]
    fn what_is_made_while_a_fork_waits_is_the_childs_too() {
        // The child has the descriptors of other tests.
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        // Handlers run in the opposite order: this one after ours, if nobody has registered ours before.
        // SAFETY: the handler takes nothing and returns.
        unsafe { libc::pthread_atfork(Some(make_one), None, None) };
        own().unwrap();
        let before = Birth::now();
        // SAFETY: the child makes no call but _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: _exit runs no handler of this process.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: no status is asked for.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        let meanwhile = BORN.lock().unwrap().take().unwrap();
        assert_ne!(meanwhile, before, "the fork had begun");
        assert!(before.was_before_fork() && meanwhile.was_before_fork());
        assert!(!Birth::now().was_before_fork());
    }
}
