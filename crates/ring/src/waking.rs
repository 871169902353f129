//! Barriers between a side that goes to sleep and the side that wakes it.
//!
//! A reader that goes to sleep says so in a flag and looks for a message once more; a writer that has published looks at
//! the flag. One of the two must see the other: without a full barrier between the store and the load of each, both can
//! miss (Dekker). The barrier of the side that goes to sleep can stand for both: membarrier(2) puts it on every running
//! thread, so the sending side pays one load of a line that it has in its cache. It interrupts the CPUs of all of them, so it
//! is put once per idle period, however often the sleeper wakes up by itself and sleeps on.

#[cfg(not(loom))]
use crate::sync::compiler_fence;
use crate::sync::{SeqCst, fence};

/// The way in which the two sides make sure that a sleeper is seen; fixed when a ring is made.
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
    pub(crate) fn after_publish(self) {
        match self {
            #[cfg(not(loom))]
            Self::Barrier => compiler_fence(SeqCst),
            _ => fence(SeqCst),
        }
    }

    /// Between the store of the flag and the last look for a message: partner of [`Waking::after_publish`]. Returns
    /// whether it is certain from now on that the other side sees the flag.
    pub(crate) fn before_sleep(self, is_shared: bool) -> bool {
        fence(SeqCst);
        #[cfg(not(loom))]
        if self == Self::Barrier {
            // Registration has succeeded, so only a sandbox set up since then can refuse.
            return sidestep_sys::futex::barrier(scope(is_shared)).is_ok();
        }
        let _ = is_shared;
        true
    }
}

#[cfg(not(loom))]
pub(crate) fn scope(is_shared: bool) -> sidestep_sys::futex::Scope {
    if is_shared { sidestep_sys::futex::Scope::Shared } else { sidestep_sys::futex::Scope::Private }
}
