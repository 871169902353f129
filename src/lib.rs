//! Low-latency networking for trading on stock Linux.
//!
//! This is the one crate a program depends on; it re-exports the public part of the workspace. So far that is [`link`],
//! connected transports behind one trait, and [`ring`], messages through memory.
#![forbid(unsafe_code)]

pub use sidestep_link as link;
pub use sidestep_ring as ring;
