//! `struct perf_event_attr` and the calls on an event (linux/perf_event.h).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// PERF_TYPE_TRACEPOINT.
pub(super) const TRACEPOINT: u32 = 2;
/// PERF_SAMPLE_TIME and PERF_SAMPLE_RAW.
pub(super) const SAMPLE_TIME: u64 = 1 << 2;
pub(super) const SAMPLE_RAW: u64 = 1 << 10;
/// Bits of `flags`: `disabled`, `watermark`, `sample_id_all`, `use_clockid`.
pub(super) const DISABLED: u64 = 1;
pub(super) const WATERMARK: u64 = 1 << 14;
pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
pub(super) const USE_CLOCKID: u64 = 1 << 25;

/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// PERF_EVENT_IOC_ENABLE, _DISABLE, _SET_OUTPUT, _SET_FILTER.
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;
const SET_OUTPUT: u64 = 0x2405;
const SET_FILTER: u64 = 0x4008_2406;

/// `struct perf_event_attr`, up to its version 7. Older kernels take it as long as what they do not know is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    /// Bytes in the ring after which a reader is woken.
    pub(super) wakeup_watermark: u32,
    pub(super) breakpoint_type: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_regs_user: u64,
    pub(super) sample_stack_user: u32,
    pub(super) clock: i32,
    pub(super) sample_regs_interrupt: u64,
    pub(super) aux_watermark: u32,
    pub(super) sample_max_stack: u16,
    pub(super) reserved1: u16,
    pub(super) aux_sample_size: u32,
    pub(super) reserved2: u32,
    pub(super) signal_data: u64,
}

impl Attributes {
    /// Opens the event on `cpu`, of whatever runs there.
    pub(super) fn open(mut self, cpu: u32) -> io::Result<OwnedFd> {
        self.size = size_of::<Self>() as u32;
        let (anybody, no_group) = (-1, -1);
        // SAFETY: the structure is plain words of the size that stands in it, and lives until after the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const self,
                anybody,
                cpu.cast_signed(),
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}

/// Begins to count or to record.
pub(super) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    call(event, ENABLE, 0)
}

/// Ends it.
pub(super) fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    call(event, DISABLE, 0)
}

/// Makes an event write into the ring of another one on the same CPU.
pub(super) fn share_ring(event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()> {
    call(event, SET_OUTPUT, ring.as_raw_fd() as usize)
}

/// Records only what fulfils the expression (Documentation/trace/events.rst, section 5).
pub(super) fn filter(event: BorrowedFd<'_>, expression: &CStr) -> io::Result<()> {
    call(event, SET_FILTER, expression.as_ptr().expose_provenance())
}

fn call(event: BorrowedFd<'_>, request: u64, argument: usize) -> io::Result<()> {
    // SAFETY: the argument is none, a descriptor, or the address of a string that lives until after the call, as each
    // request asks for; none of them writes to memory of ours.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_structure_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 128);
        assert_eq!(
            [offset_of!(Attributes, flags), offset_of!(Attributes, clock), offset_of!(Attributes, signal_data)],
            [40, 92, 120]
        );
    }
}
