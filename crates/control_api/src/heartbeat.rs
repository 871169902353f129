//! The heartbeat of an application, which the steering program checks for every frame: if it is stale, the kernel gets
//! the frames.

use rustix::time::{ClockId, clock_gettime};
use sidestep_sys::Problem;
use sidestep_sys::memory::{Access, Mapping};
use sidestep_sys::words::Words;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

/// The map is one page; only this much is read.
const PAGE_BYTES: usize = 4096;

/// This application's own heartbeat map.
#[derive(Debug)]
pub struct Heartbeat(Words);

impl Heartbeat {
    /// Maps the BPF map received from control. It takes no capability.
    pub fn open(map: BorrowedFd<'_>) -> Result<Self, Problem> {
        let mapping = Mapping::shared(map, PAGE_BYTES, Access::ReadWrite);
        let mapping = mapping.map_err(|error| Problem::failed("cannot map the heartbeat", error).next("report it"))?;
        Ok(Self(Words::over(mapping)))
    }

    /// Writes a heartbeat: a clock reading and a store. Once in some hundred microseconds is enough.
    #[inline]
    pub fn beat(&self) {
        self.beat_at(monotonic_ns());
    }

    /// Writes a heartbeat with a time that the caller has read: CLOCK_MONOTONIC, nanoseconds. 0 gives the frames to the
    /// kernel at once.
    #[inline]
    pub fn beat_at(&self, monotonic_ns: u64) {
        self.0.word(0).store(monotonic_ns, Relaxed);
    }
}

/// CLOCK_MONOTONIC, nanoseconds: the clock of heartbeats and of the shared table's writer.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.unsigned_abs())
}
