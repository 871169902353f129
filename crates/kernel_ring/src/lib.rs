//! Rings that BPF programs fill and processes map read-only, on stock kernels from Linux 5.14 on, without a module.
//!
//! A ring lies in a BPF array (BPF_F_MMAPABLE), frozen when it is made: no process can map it writable, no call can change
//! it, and programs go on writing. It has the layout of every other ring (`include/sidestep/ring_layout.h`, ABI 1, kind
//! broadcast), so any number of processes read it with the code for other rings, each with exact loss. Programs write it
//! with `include/sidestep/ring_producer.h`. [`source`] has programs that do, for measurements.
#![forbid(unsafe_code)]

mod memory;
pub mod source;

pub use memory::{RingMap, SLACK_BYTES, element_bytes};
