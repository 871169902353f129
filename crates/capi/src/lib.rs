//! L3: the C ABI of the rings, of the sockets past the kernel and of the FIX engine. What callers may rely on stands in
//! `include/sidestep/{error,ring,socket,fix}.h`; a test holds every prototype, structure and number there against this crate.
//!
//! Every call checks its pointers for null, catches what might unwind, returns 0 or a negative code, and leaves the
//! reason of a failure in the calling thread. Nothing here decides anything: a call is one call of `sidestep_ring`,
//! `sidestep_socket` or `sidestep_fix`.
//!
//! # Safety
//!
//! What the header asks of its callers is the safety condition of every function: a pointer is null or points to what
//! its type says, a handle is used by one thread at a time and not after it was freed, and bytes on loan are not touched
//! after they were given back.

// Stated once, above, for all of them.
#![allow(clippy::missing_safety_doc)]

pub mod codes;
pub mod consumer;
pub mod fix;
pub mod producer;
pub mod publisher;
pub mod segment;
pub mod socket;
pub mod subscriber;
pub mod views;

mod arguments;
pub mod failure;
