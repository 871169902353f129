//! execve(2), posix_spawn(3) and their kin: what the new program has is the kernel's before, or known to it.

use crate::signals::Inside;
use crate::table::real;
use crate::{handover, inherited, process};
use libc::{FILE, c_char, c_int, c_void, pid_t};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

/// A program that replaces this one.
#[derive(Clone, Copy)]
enum Next<'a> {
    /// Found by its path, or as a shell finds it.
    Named(&'a CStr),
    /// Not looked at.
    Unknown,
}

/// Before another program replaces this one, with the environment. A program that has the library asks itself for what it uses.
///
/// # Safety
/// `environment` is null, or an array of strings that ends with null.
unsafe fn before_exec(next: Next<'_>, environment: *const *const c_char) {
    if Inside::is_entered() {
        return;
    }
    process::begin_child();
    if !process::is_owner() {
        return;
    }
    let _inside = Inside::enter();
    // SAFETY: the caller promises it.
    let asks_itself = || matches!(next, Next::Named(name) if unsafe { inherited::will_ask(OsStr::from_bytes(name.to_bytes()), environment) });
    if process::is_child() {
        // A child of vfork(2): the tables and the engine are its parent's.
        process::note_start();
        if handover::has_kept() && !asks_itself() {
            handover::claim_kept();
        }
        return;
    }
    handover::before_exec();
    if inherited::has_kept() && !asks_itself() {
        inherited::take_kept();
    }
}

/// # Safety
/// It is null, or a string.
unsafe fn named<'a>(name: *const c_char) -> Next<'a> {
    if name.is_null() {
        return Next::Unknown;
    }
    // SAFETY: the caller promises it.
    Next::Named(unsafe { CStr::from_ptr(name) })
}

/// The environment of this process.
fn present() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: one load; the C library has it always.
    unsafe { environ }
}

/// _Fork(3), which calls no handlers (pthread_atfork(3)): what there is the child has, too, and what is made meanwhile.
pub(crate) unsafe fn fork_untold() -> pid_t {
    process::note_fork();
    // SAFETY: as the C function's.
    let child = unsafe { real::_Fork() };
    if child != 0 {
        process::note_fork();
    }
    child
}

pub(crate) unsafe fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(named(path), environment) };
    // SAFETY: as the C function's.
    unsafe { real::execve(path, arguments, environment) }
}

pub(crate) unsafe fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(named(path), present()) };
    // SAFETY: as the C function's.
    unsafe { real::execv(path, arguments) }
}

pub(crate) unsafe fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(named(file), present()) };
    // SAFETY: as the C function's.
    unsafe { real::execvp(file, arguments) }
}

pub(crate) unsafe fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(named(file), environment) };
    // SAFETY: as the C function's.
    unsafe { real::execvpe(file, arguments, environment) }
}

/// execl(3): the list has the arguments.
pub(crate) unsafe extern "C-unwind" fn execl(path: *const c_char, list: *const *const c_char) -> c_int {
    // SAFETY: as the C function's.
    unsafe { execv(path, list) }
}

/// execlp(3): the list has the arguments.
pub(crate) unsafe extern "C-unwind" fn execlp(file: *const c_char, list: *const *const c_char) -> c_int {
    // SAFETY: as the C function's.
    unsafe { execvp(file, list) }
}

/// execle(3): behind the arguments and their null stands the environment.
pub(crate) unsafe extern "C-unwind" fn execle(path: *const c_char, list: *const *const c_char) -> c_int {
    let mut end = list;
    // SAFETY: as the C function's: nothing is read behind the environment.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, list, (*end.add(1)).cast())
    }
}

pub(crate) unsafe fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(Next::Unknown, environment) };
    // SAFETY: as the C function's.
    unsafe { real::execveat(folder, path, arguments, environment, flags) }
}

pub(crate) unsafe fn fexecve(
    descriptor: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_exec(Next::Unknown, environment) };
    // SAFETY: as the C function's.
    unsafe { real::fexecve(descriptor, arguments, environment) }
}

/// A program that is started beside this one.
fn before_start(asks_itself: impl FnOnce() -> bool) {
    if Inside::is_entered() || !process::is_owner() || process::is_child() {
        return;
    }
    let _inside = Inside::enter();
    process::note_start();
    if handover::has_kept() && !asks_itself() {
        handover::give_kept();
    }
}

/// # Safety
/// As posix_spawn(3).
unsafe fn before_spawn(name: *const c_char, environment: *const *mut c_char) {
    before_start(|| {
        // SAFETY: as the C function's.
        matches!(unsafe { named(name) }, Next::Named(name)
            // SAFETY: as the C function's.
            if unsafe { inherited::will_ask(OsStr::from_bytes(name.to_bytes()), environment.cast()) })
    });
}

pub(crate) unsafe fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_spawn(path, environment) };
    // SAFETY: as the C function's.
    unsafe { real::posix_spawn(pid, path, actions, attributes, arguments, environment) }
}

pub(crate) unsafe fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_spawn(file, environment) };
    // SAFETY: as the C function's.
    unsafe { real::posix_spawnp(pid, file, actions, attributes, arguments, environment) }
}

/// pidfd_spawn(3) of glibc 2.39
pub(crate) unsafe fn pidfd_spawn(
    process: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_spawn(path, environment) };
    // SAFETY: as the C function's.
    of_spawn(unsafe { real::pidfd_spawn(process, path, actions, attributes, arguments, environment) })
}

/// pidfd_spawnp(3) of glibc 2.39
pub(crate) unsafe fn pidfd_spawnp(
    process: *mut c_int,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    // SAFETY: as the C function's.
    unsafe { before_spawn(file, environment) };
    // SAFETY: as the C function's.
    of_spawn(unsafe { real::pidfd_spawnp(process, file, actions, attributes, arguments, environment) })
}

/// The result is an errno. A C library without the function has -1.
fn of_spawn(result: c_int) -> c_int {
    if result < 0 { libc::ENOSYS } else { result }
}

/// The shell of system(3) and popen(3).
const SHELL: &str = "/bin/sh";

fn before_shell() {
    // SAFETY: the C library's environment.
    before_start(|| unsafe { inherited::will_ask(OsStr::new(SHELL), present()) });
}

pub(crate) unsafe fn system(command: *const c_char) -> c_int {
    before_shell();
    // SAFETY: as the C function's.
    unsafe { real::system(command) }
}

pub(crate) unsafe fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    before_shell();
    // SAFETY: as the C function's.
    unsafe { real::popen(command, mode) }
}

/// The end without exit handlers: what is unsent is the kernel's before.
pub(crate) unsafe fn _exit(status: c_int) {
    process::at_exit();
    // SAFETY: _exit takes a plain value.
    unsafe { real::_exit(status) }
}

/// What a spawned child gets as another number is the kernel's before. Numbers that it inherits as they are stay ours: a child that does
/// not know of them does not use them.
pub(crate) unsafe fn posix_spawn_file_actions_adddup2(actions: *mut c_void, descriptor: c_int, number: c_int) -> c_int {
    handover::number_to_kernel(descriptor, handover::Cause::Exec);
    // SAFETY: as the C function's.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, descriptor, number) }
}
