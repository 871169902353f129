//! Cancellation of threads (pthread_cancel(3)) that wait in the engine.
//!
//! A cancelled thread unwinds from the C library without the engine's consent, so a thread inside of it ([`Inside`](super::Inside))
//! cannot be cancelled. A cancellation is noted for its thread and ends its wait, and the thread acts upon it in the outermost frame of the
//! call ([`point`]), where nothing is left to be dropped. The C library decides whether it does (pthread_setcancelstate(3)).
//!
//! A frame that has something to drop can be unwound from its calls alone, not from any instruction: the C library aborts the process
//! where it fails. So a thread with PTHREAD_CANCEL_ASYNCHRONOUS is in such frames as one with PTHREAD_CANCEL_DEFERRED: between
//! [`defer`] and [`resume`], in the frames of the exported functions (`table`) and of handlers (`entry`).

use crate::table::real;
use libc::{c_int, c_void, pthread_key_t, pthread_t};
use sidestep_socket::shared::Waker;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Threads that make blocking calls at one time. The cancellation of one beyond waits for what ends its call anyway.
const THREADS_MAX: usize = 4096;

/// A thread that cannot be cancelled (pthread.h).
pub(super) const DISABLED: c_int = 1;

/// Kinds of cancellation (pthread.h).
const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// A thread that makes blocking calls.
struct Thread {
    /// Its pthread_t; 0: none.
    id: AtomicUsize,
    is_requested: AtomicBool,
    /// Of its present wait.
    waker: AtomicPtr<Waker>,
    /// Threads that use the waker.
    users: AtomicU32,
}

static THREADS: [Thread; THREADS_MAX] = [const {
    Thread {
        id: AtomicUsize::new(0),
        is_requested: AtomicBool::new(false),
        waker: AtomicPtr::new(null_mut()),
        users: AtomicU32::new(0),
    }
}; THREADS_MAX];

unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

thread_local! {
    static OWN: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    /// PTHREAD_CANCEL_ASYNCHRONOUS
    static IS_ASYNCHRONOUS: Cell<bool> = const { Cell::new(false) };
}

/// A thread of the process has, or had, PTHREAD_CANCEL_ASYNCHRONOUS.
static IS_ANY_ASYNCHRONOUS: AtomicBool = AtomicBool::new(false);

/// A cancellation point: of the entry of a blocking call, and where it is about to return EINTR. Called in the outermost frame.
#[inline]
pub(crate) fn point() {
    match OWN.get() {
        Some(own) => own.is_requested.store(false, Ordering::Relaxed),
        None => OWN.set(register()),
    }
    // SAFETY: the frames above have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// In the place of a [`point`], for a call that is none: a cancellation that has come does not end its wait, and the next point acts upon
/// it.
#[inline]
pub(crate) fn put_off() {
    OWN.get().into_iter().for_each(|own| own.is_requested.store(false, Ordering::Relaxed));
}

/// Returns whether a cancellation came since the last [`point`].
#[inline]
pub(super) fn is_requested() -> bool {
    OWN.get().is_some_and(|own| own.is_requested.load(Ordering::SeqCst))
}

/// Runs a wait that the waker ends.
pub(super) fn with_waker<T>(waker: &Waker, work: impl FnOnce() -> T) -> T {
    let Some(own) = OWN.get() else { return work() };
    own.waker.store(std::ptr::from_ref(waker).cast_mut(), Ordering::SeqCst);
    let result = work();
    own.waker.store(null_mut(), Ordering::SeqCst);
    while own.users.load(Ordering::SeqCst) != 0 {
        std::hint::spin_loop();
    }
    result
}

/// pthread_setcanceltype(3). Nothing here is to be dropped: the thread may be cancelled when it has its new type.
pub(crate) unsafe extern "C-unwind" fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    if kind == PTHREAD_CANCEL_ASYNCHRONOUS {
        IS_ANY_ASYNCHRONOUS.store(true, Ordering::Relaxed);
    }
    let was_asynchronous = IS_ASYNCHRONOUS.replace(kind == PTHREAD_CANCEL_ASYNCHRONOUS);
    // SAFETY: the caller's promise.
    let result = unsafe { real::pthread_setcanceltype(kind, old) };
    if result != 0 {
        IS_ASYNCHRONOUS.set(was_asynchronous);
    } else if was_asynchronous && !old.is_null() {
        // Since `defer` the C library knows another.
        // SAFETY: the C library has just written there.
        unsafe { old.write(PTHREAD_CANCEL_ASYNCHRONOUS) };
    }
    result
}

/// Returns whether a thread of the process may have to [`defer`].
#[inline]
pub(crate) fn is_any_asynchronous() -> bool {
    IS_ANY_ASYNCHRONOUS.load(Ordering::Relaxed)
}

/// A thread that can be cancelled at any instruction cannot until [`resume`], which gets what this returns: a handler may run while the
/// thread is deferred already.
#[inline(never)]
pub(crate) fn defer() -> bool {
    IS_ASYNCHRONOUS.get() && exchange_kind(PTHREAD_CANCEL_DEFERRED) == PTHREAD_CANCEL_ASYNCHRONOUS
}

/// Ends [`defer`]: a cancellation that has come meanwhile ends the thread here.
#[inline(never)]
pub(crate) fn resume(is_deferred: bool) {
    if is_deferred && IS_ASYNCHRONOUS.get() {
        exchange_kind(PTHREAD_CANCEL_ASYNCHRONOUS);
    }
}

/// Sets whether the thread can be cancelled; returns what it was.
#[inline]
pub(super) fn exchange_state(state: c_int) -> c_int {
    let mut old = DISABLED;
    // SAFETY: the state is one, and the place is ours. The thread is no asynchronous one here ([`defer`]), so nothing unwinds.
    unsafe { pthread_setcancelstate(state, &raw mut old) };
    old
}

fn exchange_kind(kind: c_int) -> c_int {
    let mut old = PTHREAD_CANCEL_DEFERRED;
    // SAFETY: the kind is one, and the place is ours.
    unsafe { real::pthread_setcanceltype(kind, &raw mut old) };
    old
}

/// pthread_cancel(3)
pub(crate) unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise. The thread lives until it is joined, so its number is its own.
    let result = unsafe { real::pthread_cancel(thread) };
    if let Some(thread) = THREADS.iter().find(|entry| entry.id.load(Ordering::Acquire) == thread as usize) {
        thread.cancel();
    }
    result
}

impl Thread {
    fn cancel(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
        self.is_requested.store(true, Ordering::SeqCst);
        let waker = self.waker.load(Ordering::SeqCst);
        if !waker.is_null() {
            // SAFETY: its owner keeps it while there are users.
            unsafe { (*waker).wake() };
        }
        self.users.fetch_sub(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.is_requested.store(false, Ordering::Relaxed);
        self.id.store(0, Ordering::Release);
    }
}

#[cold]
fn register() -> Option<&'static Thread> {
    // SAFETY: pthread_self(3) has no conditions.
    let id = unsafe { libc::pthread_self() } as usize;
    let is_free = |entry: &&Thread| entry.id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let own = THREADS.iter().find(is_free)?;
    if !end_with_thread(own) {
        own.leave();
        return None;
    }
    Some(own)
}

/// Frees the entry when the thread ends, in whatever manner. Returns false if that cannot be had.
fn end_with_thread(own: &'static Thread) -> bool {
    static KEY: OnceLock<Option<pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the place is valid, and the function is one that takes the entry.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } == 0).then_some(key)
    });
    // SAFETY: the key was made.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(own).cast()) } == 0)
}

unsafe extern "C" fn ended(own: *mut c_void) {
    OWN.set(None);
    // SAFETY: the value of the key is an entry, which is static.
    unsafe { (*own.cast::<Thread>()).leave() };
}
