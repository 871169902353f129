//! Ctrl-C: the first one ends the run in order, a second one at once.

use sidestep_sys::Problem;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT and SIGTERM set. The second signal ends the process on the spot; what it leaves behind (a lab) is
/// found and removed by the next run.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| {
                Problem::failed("cannot handle Ctrl-C", error)
                    .next("check what forbids sigaction(2), such as a seccomp filter")
            })?;
    }
    Ok(stop)
}
