//! Low-latency networking for trading on stock Linux.
//!
//! This is the one crate a program depends on; it re-exports the public part of the workspace. So far that is [`link`]:
//! connected transports behind one trait.
#![forbid(unsafe_code)]

pub use sidestep_link as link;
