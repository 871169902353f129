//! The wake-up protocol: which side pays for the guarantee that a sleeper is seen.
//!
//! A reader that goes to sleep sets a flag and checks for a message once more; a writer that has published checks the
//! flag. One of the two must see the other: without a full barrier between the store and the load of each, both can
//! miss (Dekker). The barrier of the sleeping side can stand for both: membarrier(2) executes it on every running
//! thread, so the sending side pays for one load of a line in its cache. It interrupts the CPUs of all these threads,
//! so it is issued once per idle period, however often the sleeper wakes by itself and sleeps again.

#[cfg(not(loom))]
use crate::sync::compiler_fence;
use crate::sync::{SeqCst, fence};

/// The method by which a sleeper is seen; fixed when a ring is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Waking {
    /// No side sleeps: waits spin. Nothing is checked after a message.
    Never = 0,
    /// The sleeper issues membarrier(2) for both; the other side pays nothing. The default if the kernel supports it.
    #[default]
    Barrier = 1,
    /// Both sides issue a fence: some ten nanoseconds per message. For kernels and sandboxes without membarrier(2).
    Fence = 2,
}

impl Waking {
    /// The method with this number in a header.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        [Self::Never, Self::Barrier, Self::Fence].into_iter().find(|waking| *waking as u64 == code)
    }

    /// Orders the store of a message (or of a position) before the load of the flag: partner of
    /// [`Waking::before_sleep`].
    #[inline(always)]
    pub(crate) fn after_publish(self) {
        match self {
            #[cfg(not(loom))]
            Self::Barrier => compiler_fence(SeqCst),
            _ => fence(SeqCst),
        }
    }

    /// Orders the store of the flag before the last check for a message: partner of [`Waking::after_publish`]. Returns
    /// whether the other side certainly sees the flag from now on.
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
