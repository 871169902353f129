//! `sidestep watch`: watches a host's latency all day, with little load.
//!
//! Three threads take turns within an interval (`round`), so that none disturbs what another one measures: `probes` (short slices of
//! round trips, by `sidestep-bench`), `hiccups` (how late timers wake a thread), `host` (findings of `sidestep-tune`, the control plane,
//! the kernel's counters). They add to one `state::State`, whose memory does not grow; `exposition` renders it for Prometheus, over
//! HTTP and into a file. Changes are told as lines on standard error (`event`).
#![forbid(unsafe_code)]

mod event;
mod exposition;
mod hiccups;
mod host;
mod options;
mod plane;
mod probes;
mod process;
mod recent;
mod round;
mod state;
mod suspension;
mod textfile;
mod tuning;
mod watch;

pub use options::{HiccupCpus, INTERVAL_MAX, INTERVAL_MIN, Options, Tuning};
pub use watch::{once, watch};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
