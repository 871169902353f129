//! Sleeping on a word of memory (futex(2)), between the threads of a process or between processes.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// membarrier(2), which the libc crate does not have.
const MEMBARRIER_GLOBAL_EXPEDITED: i32 = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
const MEMBARRIER_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// The threads that may sleep on the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only: the kernel need not look up the page.
    Private,
    /// Every process that maps the page.
    Shared,
}

impl Scope {
    fn flag(self) -> i32 {
        match self {
            Self::Private => libc::FUTEX_PRIVATE_FLAG,
            Self::Shared => 0,
        }
    }
}

/// Sleeps while the word is `expected`, until woken or for `timeout`. It may return early: check the condition again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration, scope: Scope) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let operation = libc::FUTEX_WAIT | scope.flag();
    // SAFETY: the word and the timespec outlive the call, and the kernel changes neither.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, &raw const time) };
}

/// Wakes all threads that sleep on the word.
pub fn wake_all(word: &AtomicU32, scope: Scope) {
    let operation = libc::FUTEX_WAKE | scope.flag();
    // SAFETY: FUTEX_WAKE uses the address as a name and does not follow it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}

/// Registers this process for [`barrier`] of that scope (membarrier(2): REGISTER_PRIVATE_EXPEDITED, Linux 4.14, or
/// REGISTER_GLOBAL_EXPEDITED, Linux 4.16).
pub fn register_barrier(scope: Scope) -> io::Result<()> {
    membarrier(match scope {
        Scope::Private => MEMBARRIER_REGISTER_PRIVATE_EXPEDITED,
        Scope::Shared => MEMBARRIER_REGISTER_GLOBAL_EXPEDITED,
    })
}

/// Executes a full memory barrier on every running thread of this process, or of every registered process. The thread
/// that is about to sleep pays for the fence, and those that might wake it need none. It interrupts the CPUs that these
/// threads run on.
pub fn barrier(scope: Scope) -> io::Result<()> {
    membarrier(match scope {
        Scope::Private => MEMBARRIER_PRIVATE_EXPEDITED,
        Scope::Shared => MEMBARRIER_GLOBAL_EXPEDITED,
    })
}

fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: membarrier takes no pointer.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_sleeper_is_woken_and_a_changed_word_does_not_sleep() {
        for scope in [Scope::Private, Scope::Shared] {
            let word = AtomicU32::new(1);
            wait(&word, 0, Duration::MAX, scope);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while word.load(Ordering::Acquire) == 1 {
                        wait(&word, 1, Duration::from_secs(60), scope);
                    }
                });
                word.store(0, Ordering::Release);
                wake_all(&word, scope);
            });
            wait(&word, 0, Duration::from_nanos(1), scope);
        }
    }

    #[test]
    fn barriers_work_once_registered() {
        for scope in [Scope::Private, Scope::Shared] {
            if register_barrier(scope).is_ok() {
                barrier(scope).unwrap();
            }
        }
    }
}
