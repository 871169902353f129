//! The order of real-time signals that are deferred (signal(7): those of one number are delivered as they were queued).
//!
//! One that is queued again comes behind those of its number that are queued already. So the first is held back here, and a token is
//! queued in its place. When the next of the number is delivered, what is held runs, and the new one is held instead; the token is the
//! last.

use crate::signals::entry;
use crate::signals::mask::SIGNALS;
use libc::{c_int, c_void, siginfo_t, sigval};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// The first number of the kernel's queued signals (SIGRTMIN of the kernel; the C library keeps two of them for itself).
const FIRST: c_int = 32;

const COUNT: usize = (SIGNALS - FIRST + 1) as usize;

/// The value of a token: an address of ours, which is no value of the program.
static TOKEN: u8 = 0;

thread_local! {
    // Without destructors, and never allocated: a handler may use it.
    static HELD: Held = const { Held::new() };
}

/// One signal of each number, and the process that holds it: a forked child has none of its parent's pending signals.
struct Held {
    processes: [Cell<u32>; COUNT],
    infos: UnsafeCell<[MaybeUninit<siginfo_t>; COUNT]>,
}

impl Held {
    const fn new() -> Self {
        Self {
            processes: [const { Cell::new(0) }; COUNT],
            infos: UnsafeCell::new([const { MaybeUninit::uninit() }; COUNT]),
        }
    }

    fn put(&self, index: usize, info: siginfo_t) {
        // SAFETY: this thread alone has it, and no reference into it outlives a statement.
        unsafe { (*self.infos.get())[index].write(info) };
        self.processes[index].set(std::process::id());
    }

    fn take(&self, index: usize) -> Option<siginfo_t> {
        let process = self.processes[index].replace(0);
        // SAFETY: the process says that it was written; this thread alone has it.
        (process == std::process::id()).then(|| unsafe { (*self.infos.get())[index].assume_init() })
    }
}

fn index_of(signal: c_int) -> Option<usize> {
    usize::try_from(signal - FIRST).ok()
}

/// Returns what is to be queued for a signal that is deferred: a token where the signal is held back, or the signal.
pub(super) fn hold(signal: c_int, info: &siginfo_t) -> siginfo_t {
    let Some(index) = index_of(signal) else { return *info };
    HELD.with(|held| match held.take(index) {
        None => {
            held.put(index, *info);
            token()
        }
        // A handler that its own signal interrupts (SA_NODEFER): the order of such is the program's.
        Some(before) => {
            held.put(index, before);
            *info
        }
    })
}

/// Returns the signal that is to be handled where this one is delivered.
pub(super) fn first(signal: c_int, info: &siginfo_t) -> Option<siginfo_t> {
    let Some(index) = index_of(signal) else { return Some(*info) };
    HELD.with(|held| match held.take(index) {
        None if is_token(info) => None,
        None => Some(*info),
        Some(before) if is_token(info) => Some(before),
        Some(before) => {
            if is_pending(signal) {
                held.put(index, *info);
            } else {
                // The token was discarded, as another thread has had the signal ignored meanwhile.
                entry::queue(signal, info);
            }
            Some(before)
        }
    })
}

/// Returns whether a signal of this number is queued.
fn is_pending(signal: c_int) -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the place is valid, and is filled unless the call fails; zeroes are the empty set.
    unsafe { libc::sigpending(set.as_mut_ptr()) == 0 && libc::sigismember(set.as_ptr(), signal) == 1 }
}

/// The siginfo of sigqueue(3), which the C library's type does not show (bits/types/siginfo_t.h).
#[repr(C)]
struct Queued {
    signal: c_int,
    errno: c_int,
    code: c_int,
    _padding: c_int,
    process: c_int,
    user: u32,
    value: sigval,
}

fn token() -> siginfo_t {
    let mut info = MaybeUninit::<siginfo_t>::zeroed();
    let value = sigval { sival_ptr: (&raw const TOKEN).cast_mut().cast::<c_void>() };
    let token = Queued {
        signal: 0,
        errno: 0,
        code: libc::SI_QUEUE,
        _padding: 0,
        process: std::process::id() as c_int,
        user: 0,
        value,
    };
    // SAFETY: the layout is that of the kernel's struct on 64-bit machines, and shorter than the whole.
    unsafe {
        info.as_mut_ptr().cast::<Queued>().write(token);
        info.assume_init()
    }
}

fn is_token(info: &siginfo_t) -> bool {
    // SAFETY: a siginfo of this code has a value.
    info.si_code == libc::SI_QUEUE && unsafe { info.si_value() }.sival_ptr.cast_const().cast() == &raw const TOKEN
}
