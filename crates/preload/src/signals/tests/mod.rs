//! Signals to threads that enter and leave the engine. Each test has a signal of its own, because the tests share a process.

mod actions;
mod cancellation;
mod deferral;
mod jump;

use crate::signals::{sigaction, start};
use libc::{c_int, c_void, sigaction as SignalAction, siginfo_t};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::{Mutex, Once, PoisonError};

/// Held by who starts a process, and by who closes descriptors that no other process may have a copy of at the time.
pub(crate) static PROCESSES: Mutex<()> = Mutex::new(());

type Function = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// A real-time signal of the test's own.
fn real_time(index: c_int) -> c_int {
    libc::SIGRTMIN() + 3 + index
}

fn wrapped() {
    static STARTED: Once = Once::new();
    STARTED.call_once(start);
}

fn action(function: usize, flags: c_int) -> SignalAction {
    // SAFETY: zeroes are an action.
    let mut action: SignalAction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = function;
    action.sa_flags = flags;
    action
}

/// Installs a handler as a program does.
fn install(signal: c_int, function: Function, flags: c_int) {
    wrapped();
    let action = action(function as usize, flags | libc::SA_SIGINFO);
    // SAFETY: the action is valid, and its function a handler.
    assert_eq!(unsafe { sigaction(signal, &raw const action, null_mut()) }, 0);
}

/// The action as the program reads it.
fn read_back(signal: c_int) -> SignalAction {
    let mut old = action(0, 0);
    // SAFETY: the place is valid.
    assert_eq!(unsafe { sigaction(signal, std::ptr::null(), &raw mut old) }, 0);
    old
}

fn raise(signal: c_int) {
    // SAFETY: raise(3) goes to this thread.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// A function of a file of C, compiled and loaded into this process: Rust has no setjmp(3), and is not to be unwound by cancellation.
fn compiled(source: &str, name: &str) -> *mut c_void {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, library) = (folder.path().join("test.c"), folder.path().join("test.so"));
    std::fs::write(&file, source).expect("the source is written");
    let started = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-fexceptions", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(&file)
        .status();
    drop(started);
    assert!(compiler.expect("cc can be run").success());
    let path = CString::new(library.to_str().expect("a path of ASCII")).expect("no zero byte");
    let name = CString::new(name).expect("no zero byte");
    // SAFETY: the library is ours and has no constructors.
    let function = unsafe { libc::dlsym(libc::dlopen(path.as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
    assert!(!function.is_null());
    function
}
