//! setns(2), unshare(2): sockets that a thread makes in another network namespace are not those of the engine, which stays in its own.

use crate::signals::Inside;
use crate::table::real;
use crate::{engine, errno, process};
use libc::c_int;
use sidestep_control_api::place::namespace_inode;

pub(crate) unsafe fn setns(descriptor: c_int, kind: c_int) -> c_int {
    // SAFETY: setns takes plain values.
    noticed(|| unsafe { real::setns(descriptor, kind) })
}

pub(crate) unsafe fn unshare(flags: c_int) -> c_int {
    if flags & libc::CLONE_NEWNET == 0 {
        // SAFETY: unshare takes plain values.
        return unsafe { real::unshare(flags) };
    }
    // SAFETY: as above.
    noticed(|| unsafe { real::unshare(flags) })
}

/// Makes the call. Where the network namespace is another one then, no further socket goes past the kernel.
fn noticed(call: impl FnOnce() -> c_int) -> c_int {
    // A child of vfork(2) leaves alone.
    if Inside::is_entered() || process::is_owner() && process::is_child() {
        return call();
    }
    let _inside = Inside::enter();
    let before = namespace_inode().ok();
    let result = call();
    let has_left = || before.is_none() || namespace_inode().ok() != before;
    if result == 0 {
        errno::preserve(|| {
            // The only thread of a process without an engine takes along all that there is.
            if has_left() && (engine::opened().is_some() || has_other_threads()) && engine::refuse_new() {
                let why = "a thread of the program has gone to another network namespace";
                engine::report_reason(|| format!("every further socket: kernel: {why}"));
            }
        });
    }
    result
}

/// Returns whether other threads are in the namespace that this one has left. Without /proc there may be.
fn has_other_threads() -> bool {
    std::fs::read_dir("/proc/self/task").map_or(true, |tasks| tasks.count() > 1)
}
