//! What the kernel did on a CPU, and when: tracepoints by perf_event_open(2), each CPU's into a ring of its own.
//!
//! Tracepoints are named and described by tracefs (Documentation/trace/events.rst). Their events are stamped with
//! CLOCK_MONOTONIC_RAW (`use_clockid`, Linux 4.1). Nothing here wakes the reader while events are recorded: a wake-up would be an
//! interrupt of its own.

mod attributes;
mod counter;
mod recorder;
mod ring;
mod tracefs;

pub use counter::Counter;
pub use recorder::{Record, Recorder, Tracepoint};
pub use tracefs::{Field, Format, Tracefs};

use crate::Problem;
use std::io;

/// Returns the problem of a call that the kernel refused, with what would allow it.
fn refused(what: &str, error: &io::Error) -> Problem {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let level = match paranoid.trim() {
        "" => "this kernel has no perf events".to_owned(),
        level => format!("kernel.perf_event_paranoid is {level}"),
    };
    Problem::failed(what, format!("{error}; {level}"))
        .next("run as root, or with CAP_PERFMON and CAP_IPC_LOCK; a container must allow perf_event_open(2)")
}
