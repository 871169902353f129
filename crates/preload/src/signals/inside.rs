//! Threads inside of the engine, and the signals that wait for them to leave.

use crate::signals::{cancellation, mask, mask::Set};
use libc::{c_int, siginfo_t};
use sidestep_socket::shared::Waker;
use sidestep_sys::own_descriptors;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::ptr::null;
use std::sync::atomic::{Ordering, compiler_fence};

thread_local! {
    // Without destructors, and never allocated: a handler may use them.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static DEFERRED: Cell<Set> = const { Cell::new(0) };
    /// The thread's cancelability outside (pthread_setcancelstate(3)).
    static CANCELLATION: Cell<c_int> = const { Cell::new(cancellation::DISABLED) };
    static UNQUEUED: Unqueued = const { Unqueued::new() };
    static HANDLED: Cell<Handled> = const { Cell::new(Handled::NONE) };
    static WAKER: Cell<*const Waker> = const { Cell::new(null()) };
}

/// The handlers that ran in this thread since its call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handled {
    any: bool,
    all_restart: bool,
}

impl Handled {
    const NONE: Self = Self { any: false, all_restart: true };

    /// These, and one more.
    fn and(self, restarts: bool) -> Self {
        Self { any: true, all_restart: self.all_restart && restarts }
    }
}

/// The thread is inside of the library: calls that it makes are the real ones, handlers of signals wait for it to leave, and it cannot be
/// cancelled, for the calls that it makes have cancellation points, and its frames something to drop. It is to be
/// the first value of its frame, for the handlers run when it is dropped, and may leave by siglongjmp(3).
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    #[inline]
    pub(crate) fn enter() -> Self {
        let depth = DEPTH.get();
        if depth == 0 {
            HANDLED.set(Handled::NONE);
            CANCELLATION.set(cancellation::exchange_state(cancellation::DISABLED));
        }
        DEPTH.set(depth + 1);
        // Nothing of the engine is touched before: the handler of a signal reads the depth.
        compiler_fence(Ordering::SeqCst);
        Self(())
    }

    /// Returns whether the caller is the library: this thread is inside, or is one of the library's own, which serves the engine. Its calls
    /// are the real ones.
    #[inline]
    pub(crate) fn is_entered() -> bool {
        DEPTH.get() != 0 || own_descriptors::is_own_thread()
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        compiler_fence(Ordering::SeqCst);
        if depth == 0 {
            // Before handlers of the program run, and nothing is a cancellation point from here on.
            cancellation::exchange_state(CANCELLATION.get());
            if DEFERRED.get() != 0 {
                deliver();
            }
        }
    }
}

/// A value that holds descriptors of the library, and is dropped inside of it, whoever drops it: what closes them is not the program.
#[derive(Debug)]
pub(crate) struct DroppedInside<T>(ManuallyDrop<T>);

impl<T> DroppedInside<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for DroppedInside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for DroppedInside<T> {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        // SAFETY: it is dropped here alone.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// Unblocks what was deferred: the kernel delivers it before the system call returns.
#[cold]
fn deliver() {
    let deferred = DEFERRED.take();
    UNQUEUED.with(Unqueued::queue);
    mask::change(libc::SIG_UNBLOCK, deferred);
}

/// Returns whether a signal or a cancellation waits for the thread to leave.
#[inline]
pub(crate) fn is_pending() -> bool {
    DEFERRED.get() != 0 || cancellation::is_requested()
}

/// Returns whether a handler ran since the call began.
pub(crate) fn has_handled() -> bool {
    HANDLED.get().any
}

/// Returns whether all handlers that ran since the call began let it go on (SA_RESTART).
pub(crate) fn may_restart() -> bool {
    HANDLED.get().all_restart
}

/// Runs a wait that the waker ends when a signal or a cancellation comes.
pub(crate) fn with_waker<T>(waker: &Waker, work: impl FnOnce() -> T) -> T {
    let outer = WAKER.replace(waker);
    let result = cancellation::with_waker(waker, || {
        // What came before the waker was known would otherwise let the wait sleep.
        if is_pending() {
            waker.wake();
        }
        work()
    });
    WAKER.set(outer);
    result
}

/// Runs a handler of the program. Calls that it makes are not those of the call that it interrupts.
pub(super) fn handle(restarts: bool, handler: impl FnOnce()) {
    let before = HANDLED.replace(Handled::NONE);
    handler();
    HANDLED.set(before.and(restarts));
}

/// Notes a signal that is blocked until the thread leaves.
pub(super) fn note_deferred(signal: c_int) {
    DEFERRED.set(DEFERRED.get() | mask::bit(signal));
    let waker = WAKER.get();
    if !waker.is_null() {
        // SAFETY: `with_waker` has borrowed it until it takes it away.
        unsafe { (*waker).wake() };
    }
}

/// Leaves the deferred signals that a mask blocks pending, as if they had come just now. Returns those that are handled when the thread
/// leaves.
pub(super) fn leave_pending(mask: Set) -> Set {
    let not_queued = UNQUEUED.with(|unqueued| unqueued.signals.get());
    // A token of `order` is the library's own: nobody but the handler may take it.
    let left = DEFERRED.get() & (!mask | not_queued | mask::REAL_TIME);
    DEFERRED.set(left);
    left
}

/// Keeps a signal that the kernel's queue has no room for.
pub(super) fn keep(signal: c_int, info: &siginfo_t) {
    UNQUEUED.with(|unqueued| unqueued.keep(signal, info));
}

/// Signals that are to be queued when the thread leaves: one of each at most, for they are blocked from the first on.
struct Unqueued {
    signals: Cell<Set>,
    infos: UnsafeCell<[MaybeUninit<siginfo_t>; mask::SIGNALS as usize]>,
}

impl Unqueued {
    const fn new() -> Self {
        Self {
            signals: Cell::new(0),
            infos: UnsafeCell::new([const { MaybeUninit::uninit() }; mask::SIGNALS as usize]),
        }
    }

    fn keep(&self, signal: c_int, info: &siginfo_t) {
        // SAFETY: this thread alone has it, and no reference into it outlives a statement.
        unsafe { (*self.infos.get())[signal as usize - 1].write(*info) };
        self.signals.set(self.signals.get() | mask::bit(signal));
    }

    /// Queues them, when there is room: the limit is one of the user (RLIMIT_SIGPENDING), whose other processes may take a while.
    fn queue(&self) {
        while self.signals.get() != 0 {
            let index = self.signals.get().trailing_zeros();
            // SAFETY: the bit says that it was written; this thread alone has it.
            let info = unsafe { (*self.infos.get())[index as usize].assume_init() };
            if super::entry::queue(index as c_int + 1, &info) {
                self.signals.set(self.signals.get() & !(1 << index));
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The helper thread binds sockets with the engine locked: a bind(2) that asks the engine would wait for itself.
    #[test]
    fn calls_of_the_librarys_own_threads_are_real() {
        assert!(!Inside::is_entered());
        let own = || {
            own_descriptors::own_thread();
            Inside::is_entered()
        };
        assert!(std::thread::spawn(own).join().unwrap());
    }
}
