//! Who pays for the certainty that a sleeper is seen.
//!
//! A reader that goes to sleep says so in a flag and looks for a message once more; a writer that has published looks at
//! the flag. One of the two must see the other: without a full barrier between the store and the load of each, both can
//! miss (Dekker). The barrier of the side that goes to sleep can stand for both: membarrier(2) puts it on every running
//! thread, so the sending side pays one load of a line that it has in its cache.

use crate::memory::Memory;
#[cfg(not(loom))]
use crate::sync::compiler_fence;
use crate::sync::{Relaxed, SeqCst, fence};
use std::time::Duration;

/// How the two sides make sure that a sleeper is seen; fixed when a ring is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Waking {
    /// Nobody sleeps: who waits, spins. Nothing is looked at after a message.
    Never = 0,
    /// The sleeper issues membarrier(2) for both; the other side is free. The default where the kernel offers it.
    #[default]
    Barrier = 1,
    /// Both sides issue a fence: some ten nanoseconds per message. For kernels and sandboxes without membarrier(2).
    Fence = 2,
}

impl Waking {
    /// The choice with this number in a header.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        [Self::Never, Self::Barrier, Self::Fence].into_iter().find(|waking| *waking as u64 == code)
    }

    /// Between the store of a message (or of a position) and the load of the flag: partner of [`Waking::before_sleep`].
    #[inline(always)]
    fn after_publish(self) {
        match self {
            #[cfg(not(loom))]
            Self::Barrier => compiler_fence(SeqCst),
            _ => fence(SeqCst),
        }
    }

    /// Between the store of the flag and the last look for a message: partner of [`Waking::after_publish`].
    fn before_sleep(self) {
        fence(SeqCst);
        #[cfg(not(loom))]
        if self == Self::Barrier && sidestep_sys::futex::barrier_everywhere().is_err() {
            // Registration has succeeded, so only a sandbox set up since then can refuse. The limit on one sleep
            // (`wait::NAP_MAX`) then bounds the harm.
        }
    }
}

/// The flag of a side that sleeps on the flag itself.
const ASLEEP: u32 = 1;
/// The flag of a side that sleeps somewhere else and has asked for the other side's bell.
const ASKED_FOR_BELL: u32 = 2;

/// Wakes those who sleep on the flag at `at`, if any; true when the caller has to ring its bell for them. To be called
/// after what they wait for is stored.
#[inline(always)]
pub(crate) fn wake(memory: &Memory, waking: Waking, is_shared: bool, at: usize) -> bool {
    is_asleep(memory, waking, at) && wake_sleepers(memory, is_shared, at)
}

/// Whether somebody sleeps on the flag at `at`. To be called after what it waits for is stored.
#[inline(always)]
pub(crate) fn is_asleep(memory: &Memory, waking: Waking, at: usize) -> bool {
    if waking == Waking::Never {
        return false;
    }
    waking.after_publish();
    memory.flag(at).load(Relaxed) != 0
}

#[cold]
fn wake_sleepers(memory: &Memory, is_shared: bool, at: usize) -> bool {
    if memory.flag(at).swap(0, SeqCst) == ASKED_FOR_BELL {
        return true;
    }
    #[cfg(not(loom))]
    sidestep_sys::futex::wake_all(futex(memory, at), scope(is_shared));
    #[cfg(loom)]
    let _ = is_shared;
    false
}

/// Puts up the flag at `at` in the form `how`; false, and the flag down again with nobody having seen it, when `is_ready`
/// after that.
fn announce(memory: &Memory, waking: Waking, at: usize, how: u32, is_ready: impl FnOnce() -> bool) -> bool {
    let flag = memory.flag(at);
    flag.store(how, Relaxed);
    waking.before_sleep();
    // Down again, unless the other side has already taken the flag: then it wakes this one, or rings, and that is waited for.
    !(is_ready() && flag.swap(0, SeqCst) == how)
}

/// Asks the other side to ring its bell once when what `is_ready` looks for is there; false when it is there already.
pub(crate) fn ask_for_bell(memory: &Memory, waking: Waking, at: usize, is_ready: impl FnOnce() -> bool) -> bool {
    announce(memory, waking, at, ASKED_FOR_BELL, is_ready)
}

/// Sleeps on the flag at `at` for at most `nap`, unless `is_ready` after the flag is up.
pub(crate) fn sleep(
    memory: &Memory,
    waking: Waking,
    is_shared: bool,
    at: usize,
    nap: Duration,
    is_ready: impl FnOnce() -> bool,
) {
    if !announce(memory, waking, at, ASLEEP, is_ready) {
        // Readers of a broadcast ring share the flag: who takes it down answers for those that sleep on it.
        #[cfg(not(loom))]
        sidestep_sys::futex::wake_all(futex(memory, at), scope(is_shared));
        return;
    }
    #[cfg(not(loom))]
    sidestep_sys::futex::wait(futex(memory, at), ASLEEP, nap, scope(is_shared));
    // loom has no clock: a model in which the flag never falls runs out of steps, and that is the failure.
    #[cfg(loom)]
    while memory.flag(at).load(crate::sync::Acquire) == ASLEEP {
        let _ = (nap, is_shared);
        crate::sync::pause();
    }
}

#[cfg(not(loom))]
fn scope(is_shared: bool) -> sidestep_sys::futex::Scope {
    if is_shared { sidestep_sys::futex::Scope::Shared } else { sidestep_sys::futex::Scope::Private }
}

#[cfg(not(any(loom, test)))]
fn futex(memory: &Memory, at: usize) -> &crate::sync::Flag {
    memory.flag(at)
}

#[cfg(all(test, not(loom)))]
fn futex(memory: &Memory, at: usize) -> &std::sync::atomic::AtomicU32 {
    memory.flag(at).inner()
}
