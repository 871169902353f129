//! L5: the C ABI of the rings, of the accelerated sockets, of the FIX engine and of market data.
//! `include/sidestep/{error,ring,ring_flow,socket,fix,market}.h` is its contract; a test compares every prototype, structure and number
//! there with this crate.
//!
//! Every call checks its pointers for null, catches panics, returns 0 or a negative code, and stores the reason of a
//! failure for the calling thread. There is no logic here: a call is one call of `sidestep_ring`, `sidestep_socket`,
//! `sidestep_fix` or `sidestep_feed_handler`.
//!
//! # Safety
//!
//! The header's requirements are the safety condition of every function: a pointer is null or points to an object of
//! its type, a handle is used by one thread at a time and not after it was freed, and bytes on loan are not accessed
//! after they were returned.

// Stated once, above, for all of them.
#![allow(clippy::missing_safety_doc)]

pub mod codes;
pub mod consumer;
pub mod fix;
pub mod flow;
pub mod market;
pub mod producer;
pub mod publisher;
pub mod segment;
pub mod socket;
pub mod subscriber;
pub mod views;

mod arguments;
pub mod failure;
