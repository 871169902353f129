//! Metrics of a session's connection, also in Prometheus's text format.

mod prometheus;

pub(crate) use prometheus::render_strangers;
pub use prometheus::{Snapshot, Strangers, render};

use hdrhistogram::Histogram;

/// The longest turnaround with a bucket of its own, ns: a minute.
const LONGEST_NS: u64 = 60_000_000_000;

/// Counted and timed beside a session's own counters.
#[derive(Debug)]
pub struct Metrics {
    /// Connections taken up.
    pub connections: u64,
    /// The connection goes past the kernel.
    pub accelerated: bool,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Writes that moved something: messages that one poll brought leave in one.
    pub writes: u64,
    /// The number of bytes that were no FIX.
    pub(crate) garbled_bytes: u64,
    /// The error that ended the last connection; empty if it was none.
    pub last_error: String,
    /// See [`Metrics::turnaround_ns`].
    turnaround_ns: Histogram<u64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: 0,
            accelerated: false,
            bytes_in: 0,
            bytes_out: 0,
            writes: 0,
            garbled_bytes: 0,
            last_error: String::new(),
            turnaround_ns: histogram(),
        }
    }
}

/// Two significant digits: 1 % of error, 20 KiB of memory.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are in order")
}

impl Metrics {
    /// A read at `from_ns` (of [`crate::clock::Now::mono_ns`]) has been answered by now.
    #[inline]
    pub(crate) fn turnaround(&mut self, from_ns: u64) {
        let now = crate::clock::Now::system_mono_ns();
        self.turnaround_ns.saturating_record(now.saturating_sub(from_ns).max(1));
    }

    /// From a read's return until all that it caused has left, ns: the disk, where it is waited for, and a peer that reads slowly
    /// are part of it. What is read before the answer to an earlier read has left counts with that one.
    pub(crate) fn turnaround_ns(&self) -> &Histogram<u64> {
        &self.turnaround_ns
    }
}
