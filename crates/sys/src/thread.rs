//! Threads for what concerns the calling thread alone (namespaces, affinity): where none can be started that is a problem, and no panic.

use crate::Problem;
use std::thread::{Builder, scope};

/// Runs `work` on a thread of its own, and returns what it returns. A panic in it goes on in the caller.
///
/// # Errors
/// No thread can be started (RLIMIT_NPROC, pids.max).
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Problem> {
    scope(|threads| {
        let started = Builder::new().spawn_scoped(threads, work).map_err(|error| {
            Problem::failed("cannot start a thread", error)
                .next("raise the limit of processes: ulimit -u, or pids.max of the control group")
        })?;
        Ok(started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
