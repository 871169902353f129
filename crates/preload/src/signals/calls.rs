//! The C functions that set actions: sigaction(2) and its elders, which differ in the flags.

use crate::signals::actions::sigaction;
use crate::signals::mask::{self, SIGNALS, Set, bit};
use libc::{SA_NODEFER, SA_RESETHAND, SA_RESTART, SIG_ERR, SIG_IGN, c_int, sigaction as SignalAction, sighandler_t};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering};

/// sigset(3): the signal is blocked (bits/signum-generic.h).
const SIG_HOLD: sighandler_t = 2;

/// The signals that siginterrupt(3) has said to interrupt system calls.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// signal(2), as BSD has it: the handler stays, and system calls go on unless siginterrupt(3) was called.
pub(crate) unsafe extern "C-unwind" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let is_interrupting = INTERRUPTING.load(Ordering::Relaxed) & bit_or_none(signal) != 0;
    let flags = if is_interrupting { 0 } else { SA_RESTART };
    set(signal, handler, flags, bit_or_none(signal))
}

/// sysv_signal(3): the handler runs once, with the signal unblocked, and interrupts system calls.
pub(crate) unsafe extern "C-unwind" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set(signal, handler, SA_RESETHAND | SA_NODEFER, 0)
}

/// sigset(3)
pub(crate) unsafe extern "C-unwind" fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let before = if handler == SIG_HOLD { present(signal) } else { set(signal, handler, 0, 0) };
    if before == SIG_ERR {
        return SIG_ERR;
    }
    let how = if handler == SIG_HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    let was_blocked = mask::change(how, bit(signal)) & bit(signal) != 0;
    if was_blocked { SIG_HOLD } else { before }
}

/// sigignore(3)
pub(crate) unsafe extern "C-unwind" fn sigignore(signal: c_int) -> c_int {
    if set(signal, SIG_IGN, 0, 0) == SIG_ERR { -1 } else { 0 }
}

/// siginterrupt(3)
pub(crate) unsafe extern "C-unwind" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let mut action = MaybeUninit::<SignalAction>::zeroed();
    // SAFETY: the place is ours, and the call fills it unless it fails.
    if unsafe { sigaction(signal, null(), action.as_mut_ptr()) } != 0 {
        return -1;
    }
    // SAFETY: it was filled.
    let mut action = unsafe { action.assume_init() };
    if interrupts == 0 {
        INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed);
        action.sa_flags |= SA_RESTART;
    } else {
        INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed);
        action.sa_flags &= !SA_RESTART;
    }
    // SAFETY: the action is the present one but for a flag.
    unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) }
}

fn bit_or_none(signal: c_int) -> Set {
    if (1..=SIGNALS).contains(&signal) { bit(signal) } else { 0 }
}

fn present(signal: c_int) -> sighandler_t {
    exchange(signal, null())
}

fn set(signal: c_int, handler: sighandler_t, flags: c_int, blocked: Set) -> sighandler_t {
    if handler == SIG_ERR {
        crate::errno::set(rustix::io::Errno::INVAL);
        return SIG_ERR;
    }
    // SAFETY: zeroes are an action.
    let mut action: SignalAction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the C library's set is longer than the kernel's, which is its first word.
    unsafe { (&raw mut action.sa_mask).cast::<Set>().write_unaligned(blocked) };
    exchange(signal, &raw const action)
}

/// Sets an action unless it is null, and returns the handler before.
fn exchange(signal: c_int, action: *const SignalAction) -> sighandler_t {
    let mut before = MaybeUninit::<SignalAction>::zeroed();
    // SAFETY: the action is null or a local of the caller, and the place is ours.
    let result = unsafe { sigaction(signal, action, before.as_mut_ptr()) };
    if result != 0 {
        return SIG_ERR;
    }
    // SAFETY: it was filled.
    unsafe { before.assume_init() }.sa_sigaction
}
