//! The handlers that the kernel calls: they run the program's, or defer the signal while its thread is inside of the engine.

use crate::errno;
use crate::signals::actions::{self, Handler};
use crate::signals::inside::{self, Inside};
use crate::signals::{cancellation, mask, order};
use libc::{c_int, c_long, c_void, sighandler_t, siginfo_t, ucontext_t};

/// The kernel's handler for the actions of a slot. It has nothing to drop itself, so that a thread can be cancelled at any instruction of
/// the program's.
pub(super) unsafe extern "C-unwind" fn entry<const SLOT: usize>(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let is_deferred = cancellation::defer();
    // SAFETY: the kernel gives what a handler is called with.
    let chosen = unsafe { choose(SLOT, signal, info, context) };
    cancellation::resume(is_deferred);
    if let Some((handler, mut first)) = chosen {
        // SAFETY: the program gave the handler; one without SA_SIGINFO reads the first argument alone.
        let function: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(handler.function) };
        // SAFETY: the arguments are the kernel's.
        inside::handle(handler.restarts, || unsafe { function(signal, &raw mut first, context) });
    }
}

/// The program's handler, and what it is told; `None` where none is to run now.
///
/// # Safety
/// The arguments are those of a handler.
#[inline(never)]
unsafe fn choose(
    slot: usize,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> Option<(Handler, siginfo_t)> {
    if Inside::is_entered() && !is_synchronous(signal, info) {
        // SAFETY: the caller's promise.
        errno::preserve(|| unsafe { defer(signal, &*info, context) });
        return None;
    }
    // SAFETY: the kernel gives a siginfo.
    let first = order::first(signal, unsafe { &*info })?;
    let handler = actions::take(signal, slot);
    if handler.is_none() {
        // Another thread took the only one (SA_RESETHAND), and the action is the default one meanwhile.
        queue(signal, &first);
    }
    Some((handler?, first))
}

/// Blocks a signal in the interrupted context, and queues it again.
///
/// # Safety
/// The context is that of a handler.
unsafe fn defer(signal: c_int, info: &siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel takes the mask from there when the handler returns. Its set is the first word of the C library's.
    unsafe {
        let blocked = (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<mask::Set>();
        blocked.write_unaligned(blocked.read_unaligned() | mask::bit(signal));
    }
    let queued = order::hold(signal, info);
    if !queue(signal, &queued) {
        inside::keep(signal, &queued);
    }
    inside::note_deferred(signal);
}

/// The handler of a slot.
pub(super) fn handler(slot: usize) -> sighandler_t {
    let entries: [unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void); actions::SLOTS] =
        [entry::<0>, entry::<1>];
    entries[slot] as sighandler_t
}

/// The kernel raises these at the instruction that causes them: it would cause them again, for ever, if they were put off.
fn is_synchronous(signal: c_int, info: *const siginfo_t) -> bool {
    let is_fault =
        matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS);
    // SAFETY: the kernel gives a siginfo.
    is_fault && unsafe { (*info).si_code } > 0
}

/// Queues a signal to this thread, with its siginfo. Only to itself a thread may queue what claims to be from the kernel.
/// Returns false if there is no room.
pub(super) fn queue(signal: c_int, info: &siginfo_t) -> bool {
    // SAFETY: the siginfo is valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            c_long::from(libc::getpid()),
            libc::syscall(libc::SYS_gettid),
            c_long::from(signal),
            std::ptr::from_ref(info),
        )
    };
    result == 0
}
