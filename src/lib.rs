//! Low-latency networking for trading on stock Linux.
//!
//! This is the one crate a program depends on; it re-exports the public part of the workspace. So far that is [`stream`],
//! connected transports, [`ring`], messages through memory, [`socket`], UDP past the kernel with the kernel
//! beside it, [`fix`], the FIX engine, and [`idle`], how a thread waits when it has no work.
#![forbid(unsafe_code)]

pub use sidestep_fix as fix;
pub use sidestep_ring as ring;
pub use sidestep_socket as socket;
pub use sidestep_socket::stream;
pub use sidestep_sys::idle;
