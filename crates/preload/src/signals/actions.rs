//! The program's actions for signals, beside the kernel's table, which has our handlers in it.
//!
//! The kernel keeps the flags and masks; only the handlers are kept here, twice for each signal: the kernel's handler tells which of both
//! slots it means, so that the handler and the mask are changed at one instant, and a handler reads without a lock.

use crate::signals::entry;
use crate::signals::mask::{AllBlocked, SIGNALS};
use crate::table::real;
use libc::{SA_RESETHAND, SA_RESTART, SA_SIGINFO, c_int, sigaction as SignalAction, sighandler_t};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

pub(super) const SLOTS: usize = 2;

/// An action of the program that is a handler.
struct Slot {
    function: AtomicUsize,
    /// The flags as the program gave them, and [`TAKEN`].
    flags: AtomicI32,
}

/// The handler of an action with SA_RESETHAND has run. Linux has no flag of this value.
const TAKEN: c_int = 0x0010_0000;

static ACTIONS: [[Slot; SLOTS]; SIGNALS as usize] =
    [const { [const { Slot { function: AtomicUsize::new(0), flags: AtomicI32::new(0) } }; SLOTS] }; SIGNALS as usize];

/// The process whose handlers are ours; 0: none. A child's new handlers are its own: it does not use the engine, and after vfork(2) it
/// would change its parent's table.
static WRAPPED: AtomicU32 = AtomicU32::new(0);

/// A program's handler.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) function: sighandler_t,
    /// SA_RESTART
    pub(super) restarts: bool,
}

/// Returns whether handlers are wrapped in this process.
fn is_wrapped() -> bool {
    WRAPPED.load(Ordering::Acquire) == std::process::id()
}

/// Wraps the handlers that are installed, and from here on each that is. Called before a thread of this process first enters the engine.
pub(crate) fn start() {
    let _changing = Changing::begin();
    WRAPPED.store(std::process::id(), Ordering::Release);
    for signal in 1..=SIGNALS {
        if let Some(action) = present(signal)
            && is_function(action.sa_sigaction)
            && slot_of(action.sa_sigaction).is_none()
        {
            install(signal, &action);
        }
    }
}

/// sigaction(2)
///
/// # Safety
/// As sigaction(2).
pub(crate) unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    action: *const SignalAction,
    old: *mut SignalAction,
) -> c_int {
    if !(1..=SIGNALS).contains(&signal) {
        // SAFETY: the caller's promise.
        return unsafe { real::sigaction(signal, action, old) };
    }
    // The two may be one.
    // SAFETY: the caller's promise.
    let new = unsafe { action.as_ref() }.copied();
    let (result, before) = exchange(signal, new.as_ref());
    if result == 0 && !old.is_null() {
        // SAFETY: the caller's promise.
        unsafe { old.write(before) };
    }
    result
}

fn exchange(signal: c_int, new: Option<&SignalAction>) -> (c_int, SignalAction) {
    if !is_wrapped() {
        let (result, before) = set(signal, new);
        return (result, as_programmed(signal, before));
    }
    let _changing = Changing::begin();
    let before = present(signal).map(|before| as_programmed(signal, before));
    let result = match new {
        Some(new) if is_function(new.sa_sigaction) => install(signal, new),
        new => set(signal, new).0,
    };
    // SAFETY: zeroes are an action, the default one; it is not shown where the call failed.
    (result, before.unwrap_or(unsafe { MaybeUninit::zeroed().assume_init() }))
}

/// Installs our handler for the program's, in the slot that is not in use.
fn install(signal: c_int, action: &SignalAction) -> c_int {
    let used = present(signal).and_then(|present| slot_of(present.sa_sigaction));
    let slot = used.map_or(0, |used| (used + 1) % SLOTS);
    let place = &ACTIONS[signal as usize - 1][slot];
    place.function.store(action.sa_sigaction, Ordering::Relaxed);
    place.flags.store(action.sa_flags, Ordering::Release);
    let mut ours = *action;
    ours.sa_sigaction = entry::handler(slot);
    // A signal that is deferred comes twice: the first time must not reset the action.
    ours.sa_flags = (action.sa_flags | SA_SIGINFO) & !SA_RESETHAND;
    set(signal, Some(&ours)).0
}

/// The handler of a slot, for a signal that has come; `None` if it was to run once, and did.
pub(super) fn take(signal: c_int, slot: usize) -> Option<Handler> {
    let place = &ACTIONS[signal as usize - 1][slot];
    let flags = place.flags.load(Ordering::Acquire);
    let function = place.function.load(Ordering::Relaxed);
    if flags & SA_RESETHAND != 0 {
        if place.flags.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN != 0 {
            return None;
        }
        reset(signal, slot);
    }
    Some(Handler { function, restarts: flags & SA_RESTART != 0 })
}

/// SA_RESETHAND: the action becomes the default one, unless another has taken its place.
fn reset(signal: c_int, slot: usize) {
    let _changing = Changing::begin();
    let present = present(signal).filter(|present| slot_of(present.sa_sigaction) == Some(slot));
    if let Some(present) = present {
        let mut default = as_programmed(signal, present);
        default.sa_sigaction = libc::SIG_DFL;
        set(signal, Some(&default));
    }
}

/// An action of the kernel's table as the program gave it.
fn as_programmed(signal: c_int, mut action: SignalAction) -> SignalAction {
    if let Some(slot) = slot_of(action.sa_sigaction) {
        let place = &ACTIONS[signal as usize - 1][slot];
        let flags = place.flags.load(Ordering::Relaxed);
        action.sa_sigaction = place.function.load(Ordering::Relaxed);
        let ours = SA_SIGINFO | SA_RESETHAND;
        action.sa_flags = (action.sa_flags & !ours) | (flags & ours);
    }
    action
}

fn slot_of(function: sighandler_t) -> Option<usize> {
    (0..SLOTS).find(|slot| entry::handler(*slot) == function)
}

fn is_function(handler: sighandler_t) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

fn present(signal: c_int) -> Option<SignalAction> {
    let (result, action) = set(signal, None);
    (result == 0).then_some(action)
}

/// The real sigaction(2); returns the action before.
fn set(signal: c_int, action: Option<&SignalAction>) -> (c_int, SignalAction) {
    let mut before = MaybeUninit::<SignalAction>::zeroed();
    // SAFETY: both are null or valid.
    let result = unsafe { real::sigaction(signal, action.map_or(null(), std::ptr::from_ref), before.as_mut_ptr()) };
    // SAFETY: zeroes are an action, too.
    (result, unsafe { before.assume_init() })
}

/// One thread at a time changes actions, with its signals blocked, for a handler may do the same.
struct Changing {
    _blocked: AllBlocked,
}

/// The process of the thread that changes actions. A forked child finds its parent's, whose thread it does not have.
static CHANGING: AtomicU32 = AtomicU32::new(0);

impl Changing {
    fn begin() -> Self {
        let blocked = AllBlocked::block();
        let ours = std::process::id();
        let mut holder = CHANGING.load(Ordering::Relaxed);
        loop {
            let expected = if holder == ours { 0 } else { holder };
            match CHANGING.compare_exchange_weak(expected, ours, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Self { _blocked: blocked },
                Err(found) => holder = found,
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.store(0, Ordering::Release);
    }
}
