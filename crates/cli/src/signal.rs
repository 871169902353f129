//! Signals that end a run: the first one in order, a second one at once.

use sidestep_sys::Problem;
use sidestep_sys::problem::Kind;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The signal that came last; 0 before the first.
static SEEN: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// A flag that SIGINT and SIGTERM set. The second signal ends the process on the spot; what it leaves behind (a lab) is
/// found and removed by the next run.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register_usize(signal, SEEN.clone(), signal as usize))
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| {
                Problem::failed("cannot handle Ctrl-C", error)
                    .next("check what forbids sigaction(2), such as a seccomp filter")
            })?;
    }
    Ok(stop)
}

/// A socket that can be read once SIGINT or SIGTERM has come, for a daemon that sleeps until then. SIGHUP, which ends a process by
/// default, does nothing from here on.
pub(crate) fn stop_wire() -> Result<UnixStream, Problem> {
    let wire = || {
        let (read, write) = UnixStream::pair()?;
        pipe::register(SIGINT, write.try_clone()?)?;
        pipe::register(SIGTERM, write)?;
        flag::register(SIGHUP, Arc::default())?;
        Ok(read)
    };
    wire().map_err(|error: std::io::Error| {
        Problem::failed("cannot handle signals", error)
            .next("check what forbids sigaction(2), such as a seccomp filter, and the limit of open files: ulimit -n")
    })
}

/// Names the signal in the problem of a run that one has ended.
pub(crate) fn named(problem: Problem) -> Problem {
    match SEEN.load(Ordering::Relaxed) {
        0 => problem,
        seen => of(problem, seen as i32),
    }
}

fn of(problem: Problem, signal: i32) -> Problem {
    match (problem.kind(), signal) {
        (Kind::Interrupted, SIGINT) => Problem::new(Kind::Interrupted, "stopped", "Ctrl-C (SIGINT)"),
        (Kind::Interrupted, SIGTERM) => Problem::new(Kind::Interrupted, "stopped", "SIGTERM"),
        _ => return problem,
    }
    .next(problem.next_step())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_is_named() {
        let stopped = || Problem::new(Kind::Interrupted, "stopped", "a signal").next("see the rows");
        assert_eq!(of(stopped(), SIGTERM).to_string(), "stopped: SIGTERM\n  next: see the rows");
        assert_eq!(of(stopped(), SIGINT).brief(), "stopped: Ctrl-C (SIGINT)");
        assert_eq!(named(stopped()).brief(), "stopped: a signal", "no signal came");
    }
}
