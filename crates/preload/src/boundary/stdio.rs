//! Functions of the C library that read and write a descriptor by themselves, not by the names that are intercepted: streams of stdio,
//! dprintf(3), POSIX asynchronous I/O. What they are given is the kernel's before.

use crate::handover::{Cause, number_to_kernel};
use crate::stdio;
use crate::symbol::{Absent, Symbol};
use crate::table::real;
use libc::{FILE, aiocb, c_char, c_int, c_void, sigevent};

pub(crate) unsafe fn fdopen(number: c_int, mode: *const c_char) -> *mut FILE {
    number_to_kernel(number, Cause::Stdio);
    stdio::note_stream(number);
    // SAFETY: as the C function's.
    unsafe { real::fdopen(number, mode) }
}

/// `arguments` is a va_list, which x86-64 and AArch64 pass by a pointer.
pub(crate) unsafe fn vdprintf(number: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    number_to_kernel(number, Cause::Stdio);
    // SAFETY: as the C function's.
    unsafe { real::vdprintf(number, format, arguments) }
}

pub(crate) unsafe fn vdprintf_chk(number: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    number_to_kernel(number, Cause::Stdio);
    // SAFETY: as the C function's.
    unsafe { real::__vdprintf_chk(number, flag, format, arguments) }
}

static DPRINTF: Symbol = Symbol::new("dprintf\0");
static DPRINTF_CHK: Symbol = Symbol::new("__dprintf_chk\0");

/// Looks the real functions up that no row of the table has.
#[cfg_attr(test, allow(dead_code))] // The constructor calls it, which tests do not have.
pub(crate) fn look_up() {
    DPRINTF.look_up();
    DPRINTF_CHK.look_up();
}

/// Before dprintf(3); returns the real function, to which all arguments go on.
pub(crate) extern "C-unwind" fn before_dprintf(number: c_int) -> *const c_void {
    before_printing(number, &DPRINTF)
}

/// Before the fortified dprintf(3), likewise.
pub(crate) extern "C-unwind" fn before_dprintf_chk(number: c_int) -> *const c_void {
    before_printing(number, &DPRINTF_CHK)
}

fn before_printing(number: c_int, symbol: &Symbol) -> *const c_void {
    number_to_kernel(number, Cause::Stdio);
    let absent: extern "C-unwind" fn() -> c_int = absent;
    symbol.address().map_or(absent as *const c_void, |address| address.as_ptr().cast_const())
}

extern "C-unwind" fn absent() -> c_int {
    Absent::answer()
}

/// # Safety
/// As aio_read(3).
unsafe fn before_aio(block: *const aiocb) {
    // SAFETY: the caller promises null or a block.
    if let Some(block) = unsafe { block.as_ref() } {
        number_to_kernel(block.aio_fildes, Cause::Asynchronous);
    }
}

pub(crate) unsafe fn aio_read(block: *mut aiocb) -> c_int {
    // SAFETY: as the C function's.
    unsafe {
        before_aio(block);
        real::aio_read(block)
    }
}

pub(crate) unsafe fn aio_write(block: *mut aiocb) -> c_int {
    // SAFETY: as the C function's.
    unsafe {
        before_aio(block);
        real::aio_write(block)
    }
}

pub(crate) unsafe fn lio_listio(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int {
    if let (Ok(count), false) = (usize::try_from(count), list.is_null()) {
        // SAFETY: as the C function's: a list of so many pointers.
        unsafe { std::slice::from_raw_parts(list, count).iter().for_each(|block| before_aio(*block)) };
    }
    // SAFETY: as the C function's.
    unsafe { real::lio_listio(mode, list, count, event) }
}
