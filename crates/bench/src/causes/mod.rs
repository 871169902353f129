//! What the host did during the slowest samples: each joined with the interrupts, softirqs, tasks and other events on the CPUs
//! of both ends in its interval.
//!
//! Tracepoints are recorded in slices of their own (see `Interleave::observe`), never in those that the row's figures come
//! from. After a slice its events become time spans per CPU (`lanes`), clipped to the time in which an end was there. The
//! slowest samples are then joined with them, and, to show coincidences, so are random intervals of the same length in the
//! same slice (`slice`). `tail` adds up the slices of an arm. What is only counted (steal time, SMIs, throttling) is joined by
//! slice (`counters`).

mod counters;
mod lanes;
mod names;
mod observer;
mod slice;
mod tail;
mod threads;
mod watch;

pub(crate) use observer::{Observer, Scope};
pub(crate) use slice::SliceTail;
pub(crate) use tail::Tail;
