//! The atomics of the protocols: real ones, loom's in a model, counted ones in the crash tests.
//!
//! All shared state uses these names, so loom and the crash tests exercise the code that ships.

#[cfg(loom)]
pub(crate) use loom::{
    sync::Arc,
    sync::atomic::{AtomicU32 as Flag, AtomicU64 as Word, fence},
};

#[cfg(not(loom))]
pub(crate) use std::sync::Arc;
#[cfg(not(any(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicU32 as Flag, AtomicU64 as Word};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{compiler_fence, fence};

#[cfg(all(test, not(loom)))]
pub(crate) use counted::{Flag, Word};

pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// One iteration of a loop that waits for another thread.
#[inline(always)]
pub(crate) fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Atomics that count their stores, so that a test can end the process at store number N.
#[cfg(all(test, not(loom)))]
pub(crate) mod counted {
    use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

    /// Stores left until the process kills itself; negative: never.
    static LEFT: AtomicI64 = AtomicI64::new(-1);

    /// Kills this process with SIGKILL instead of the store after `stores` others.
    pub(crate) fn arm(stores: i64) {
        LEFT.store(stores, Ordering::SeqCst);
    }

    /// Called before each store.
    pub(crate) fn step() {
        if LEFT.load(Ordering::Relaxed) >= 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
            // SAFETY: kill takes no pointer; the signal ends this process and nothing else.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }

    macro_rules! counted {
        ($name:ident, $inner:ty, $value:ty) => {
            /// An atomic whose stores are counted.
            #[repr(transparent)]
            pub(crate) struct $name($inner);

            #[allow(dead_code)] // Every atomic gets all methods; the protocol uses some of each.
            impl $name {
                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    step();
                    self.0.store(value, order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    step();
                    self.0.swap(value, order)
                }

                pub(crate) fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    step();
                    self.0.compare_exchange(current, new, success, failure)
                }
            }
        };
    }

    impl Flag {
        pub(crate) fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            step();
            self.0.fetch_or(bits, order)
        }

        pub(crate) fn fetch_and(&self, bits: u32, order: Ordering) -> u32 {
            step();
            self.0.fetch_and(bits, order)
        }
    }

    counted!(Word, AtomicU64, u64);
    counted!(Flag, AtomicU32, u32);

    impl Flag {
        /// The atomic itself, for the futex.
        pub(crate) fn inner(&self) -> &AtomicU32 {
            &self.0
        }
    }
}
