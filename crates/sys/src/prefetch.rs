//! Cache lines fetched before they are needed.
//!
//! A miss costs some tens of nanoseconds, and misses that do not wait for each other cost little more than one: whoever knows
//! the lines that a step will touch fetches them all at its beginning.
//!
//! Instructions of their own, because the compiler's hint for a line that will be written becomes one for a line that will
//! be read unless it may assume PREFETCHW, which the x86-64 baseline does not have. CPUs without the instruction do nothing.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lines {
    use std::arch::asm;

    /// Fetches the line at `at`, which may be any address, with the right to write it.
    #[inline(always)]
    pub fn to_write(at: *const u8) {
        // SAFETY: a prefetch neither faults nor changes what any load sees, wherever it points; in 64-bit mode the
        // instruction does nothing where the CPU does not know it.
        unsafe { asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Fetches the line at `at`, which may be any address, to read it.
    #[inline(always)]
    pub fn to_read(at: *const u8) {
        // SAFETY: as above.
        unsafe { asm!("prefetcht0 byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod lines {
    /// Nothing, on other machines.
    pub fn to_write(_: *const u8) {}

    /// Nothing, on other machines.
    pub fn to_read(_: *const u8) {}
}

pub use lines::{to_read, to_write};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Fetches all lines of a value, with the right to write them.
#[inline(always)]
pub fn value_to_write<T>(value: &T) {
    let start: *const u8 = std::ptr::from_ref(value).cast();
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        to_write(start.wrapping_add(offset));
    }
}

/// Fetches the lines of the first `len` bytes from `start` on, to read them.
#[inline(always)]
pub fn bytes_to_read(start: *const u8, len: usize) {
    for offset in (0..len).step_by(LINE_BYTES) {
        to_read(start.wrapping_add(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_may_be_fetched() {
        let bytes = [7_u8; 1000];
        value_to_write(&bytes);
        bytes_to_read(bytes.as_ptr(), bytes.len());
        to_read(std::ptr::null());
        to_write(std::ptr::without_provenance(usize::MAX));
        assert_eq!(bytes, [7; 1000]);
    }
}
