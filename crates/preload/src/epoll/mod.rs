//! epoll(7) over descriptors of ours and of the kernel.
//!
//! The program's set is a real one of the kernel. Descriptors past the kernel stand in a second set beside it: [`items`] has its
//! rules, [`set`] its life, [`wait`] mixes both, [`turns`] says how often each is asked. Sockets that
//! have a kernel side, too (listeners), stand in both. A socket that goes past the kernel when it is connected leaves the kernel's
//! set for ours ([`adopt`]), and returns when the kernel gets it. Sets that this process has not made: [`foreign`].
//! One-shot items that the kernel gets when they were told: [`disarmed`].

mod disarmed;
pub(crate) mod foreign;
mod items;
mod set;
mod turns;
pub(crate) mod wait;

pub(crate) use items::Interest;
pub(crate) use set::{Set, adopt, forget, renew};
