//! L0: rings at the speed of one cache line, in process and in shared memory.
//!
//! [`spsc`]: one writer, one reader, messages of any size, written and read in place. If the reader is slow, the writer
//! waits or drops new messages. [`broadcast`]: one writer that never waits, and any number of readers that know exactly
//! which messages they lost. Both lie in memory of this process or in a [`Segment`] that processes share. They survive
//! the death of either side: published messages stay, messages that were only begun are lost and counted, and a
//! successor takes over the side.
//!
//! A message of up to [`layout::ONE_LINE_BYTES`] bytes travels in one cache line, together with its word; no other line
//! moves between the two CPUs until a quarter of the ring is read. A ring for streams of small messages has cells of a
//! quarter of a line instead ([`Cell`]).
//!
//! The kernel fills broadcast rings as well: a BPF program in a map, or the module in its device, by
//! `include/sidestep/ring_producer.h`. [`Segment::foreign`] attaches to them, read-only; their words have no pids, and their
//! readers sleep by a [`Doorbell`].
//!
//! A peer can write anything to the shared memory at any time. Every position, length and kind that comes from there is
//! checked before use; an impossible value is a [`Fault`] and ends the use of the ring. The bytes of a message read in
//! place can change meanwhile: copy them before you check and use them.

// The models leave out processes, files and futexes.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

#[cfg(not(target_endian = "little"))]
compile_error!("a record's word is compared as little-endian 64 bits; no other machine has been tried");

pub mod broadcast;
mod checkpoint;
#[cfg(not(loom))]
mod doorbell;
#[cfg(not(loom))]
mod facts;
mod fault;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod kernel;
pub mod layout;
mod memory;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod private;
mod record;
mod ring;
mod role;
#[cfg(not(loom))]
mod segment;
mod sleeper;
pub mod spsc;
mod sync;
mod wait;
mod waking;
mod writer;

#[cfg(all(test, not(loom)))]
mod crash;
#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
pub use doorbell::Doorbell;
pub use fault::{ClaimError, Fault, Loss, ReadError};
#[cfg(not(loom))]
pub use kernel::{kernel_header, kernel_ring_bytes};
#[cfg(not(loom))]
pub use observe::{Flow, Holder, Stat};
#[cfg(not(loom))]
pub use options::Options;
pub use ring::{Cell, Kind};
pub use role::{Peer, Side};
#[cfg(not(loom))]
pub use segment::{Backing, Segment};
#[cfg(not(loom))]
pub use sidestep_sys::memory::Access;
pub use wait::{Deadline, WaitError};
pub use waking::Waking;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
