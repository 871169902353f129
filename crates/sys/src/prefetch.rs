//! Prefetch instructions: a hint that the cache line of a value is needed soon. No effect but on time.
//!
//! Written in assembly: the compiler turns its hint for a write into one for a read unless it may assume PREFETCHW,
//! which the x86-64 baseline lacks. CPUs without the instruction do nothing.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use std::arch::asm;

    /// Prefetches the line of the value's first byte for writing.
    #[inline(always)]
    pub fn to_write<T>(value: &T) {
        let at = std::ptr::from_ref(value);
        // SAFETY: a prefetch neither faults nor changes what any load sees, wherever it points; in 64-bit mode the
        // instruction does nothing where the CPU does not know it.
        unsafe { asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Prefetches the line of the value's first byte for reading.
    #[inline(always)]
    pub fn to_read<T>(value: &T) {
        let at = std::ptr::from_ref(value);
        // SAFETY: as above.
        unsafe { asm!("prefetcht0 byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    /// Does nothing on other machines.
    pub fn to_write<T>(_: &T) {}

    /// Does nothing on other machines.
    pub fn to_read<T>(_: &T) {}
}

pub use lines::{to_read, to_write};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetched_value_is_as_before() {
        let values = [7_u64; 64];
        values.iter().for_each(to_read);
        values.iter().for_each(to_write);
        assert_eq!(values, [7; 64]);
    }
}
