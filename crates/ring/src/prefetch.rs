//! Cache lines fetched before they are needed.
//!
//! Instructions of their own, because the compiler's hint for a line that will be written becomes one for a line that will
//! be read unless it may assume PREFETCHW, which the x86-64 baseline does not have. CPUs without the instruction do nothing.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use std::arch::asm;

    /// Fetches the line at `at` with the right to write it.
    #[inline(always)]
    pub(crate) fn to_write(at: *const u8) {
        // SAFETY: a prefetch neither faults nor changes what any load sees, wherever it points; in 64-bit mode the
        // instruction does nothing where the CPU does not know it.
        unsafe { asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Fetches the line at `at` to read it.
    #[inline(always)]
    pub(crate) fn to_read(at: *const u8) {
        // SAFETY: as above.
        unsafe { asm!("prefetcht0 byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    /// Nothing, on other machines.
    pub(crate) fn to_write(_: *const u8) {}

    /// Nothing, on other machines.
    pub(crate) fn to_read(_: *const u8) {}
}

pub(crate) use lines::{to_read, to_write};
