//! Signals of a program whose threads enter the engine: no handler of the program runs while its thread is in there, for it may make
//! any call that is safe in a handler, also one that the engine serves.
//!
//! * `actions` has the program's actions: from [`start`] on the kernel's handlers are ours, and call the program's. `calls` has the C
//!   functions that set actions.
//! * `entry` is the handler that the kernel calls. While the thread is [`Inside`], it defers the signal: it blocks it in the interrupted
//!   context and queues it again to the thread. `inside` unblocks it when the thread leaves, and the kernel delivers it then.
//! * `order` keeps the order of real-time signals that are deferred.
//! * `mask` sets signal masks without the C library, `cancellation` ends waits of the engine by pthread_cancel(3).
//!
//! The handler of a fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) runs at once, inside of the engine, too, where a bad address
//! that the program gave to a call is touched. It may mend the page, or end the process. If it leaves by siglongjmp(3) from there, the
//! engine stays locked, and the next call of the program on it does not return.

mod actions;
pub(crate) mod calls;
pub(crate) mod cancellation;
mod entry;
mod inside;
mod mask;
mod order;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use actions::{sigaction, start};
pub(crate) use inside::{DroppedInside, Inside, has_handled, is_pending, may_restart, with_waker};
pub(crate) use mask::with_mask;
