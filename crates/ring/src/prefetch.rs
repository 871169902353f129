//! Prefetch instructions.
//!
//! Written in assembly: the compiler turns its hint for a write into one for a read unless it may assume PREFETCHW,
//! which the x86-64 baseline lacks. CPUs without the instruction do nothing.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use std::arch::asm;

    /// Prefetches the line at `at` for writing.
    #[inline(always)]
    pub(crate) fn to_write(at: *const u8) {
        // SAFETY: a prefetch neither faults nor changes what any load sees, wherever it points; in 64-bit mode the
        // instruction does nothing where the CPU does not know it.
        unsafe { asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Prefetches the line at `at` for reading.
    #[inline(always)]
    pub(crate) fn to_read(at: *const u8) {
        // SAFETY: as above.
        unsafe { asm!("prefetcht0 byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    /// Does nothing on other machines.
    pub(crate) fn to_write(_: *const u8) {}

    /// Does nothing on other machines.
    pub(crate) fn to_read(_: *const u8) {}
}

pub(crate) use lines::{to_read, to_write};
