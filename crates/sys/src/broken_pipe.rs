//! SIGPIPE as this process has inherited it. Rust's runtime ignores it before `main` begins, and resets it to its default in programs that
//! are executed: a program that this one becomes is to have what it would have had without it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// The loader calls it before Rust's runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// The kernel's `struct sigaction`: the handler is its first word.
#[repr(C)]
struct Action([usize; 8]);

extern "C" fn note() {
    let mut present = Action([0; 8]);
    // SAFETY: without a new action the call only writes the present one, which is shorter than the place. No function of the C library:
    // this one may be in a library that intercepts them.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, libc::SIGPIPE, 0_usize, &raw mut present, size_of::<u64>()) };
    WAS_IGNORED.store(result == 0 && present.0[0] == libc::SIG_IGN, Ordering::Relaxed);
}

/// Gives a command SIGPIPE as this process has inherited it.
pub fn inherit(command: &mut Command) -> &mut Command {
    if !WAS_IGNORED.load(Ordering::Relaxed) {
        // std sets the default.
        return command;
    }
    let ignore = || {
        // SAFETY: signal(2) takes plain values, and may be called after a fork.
        match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(ignore) }
}
