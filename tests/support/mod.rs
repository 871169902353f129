//! Running the binary, for the end-to-end tests.
#![allow(dead_code)] // Every test file uses its own part.

pub(crate) mod exchange;
pub(crate) mod lab;
pub(crate) mod place;
pub(crate) mod result;
pub(crate) mod unmodified;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Far above what any command here takes on a busy machine (90 s, to measure streams in a lab): a hang is a failure.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(400);

/// What a finished command left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// The binary with arguments, its output caught.
pub(crate) fn sidestep(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidestep"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end.
pub(crate) fn run(arguments: &[&str]) -> Finished {
    finish(sidestep(arguments).spawn().expect("the binary is built"))
}

/// Copies a program that is to be started from there. By another process: a child that another test forks while this one
/// writes would hold the copy open, and what is open for writing cannot be started (ETXTBSY).
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().expect("cp is there").success(), "{}", from.display());
}

/// Waits for a child, at most [`WATCHDOG`].
pub(crate) fn finish(child: Child) -> Finished {
    finish_within(WATCHDOG, child)
}

/// Waits for a child, at most that long.
pub(crate) fn finish_within(longest: Duration, child: Child) -> Finished {
    let (begin, pid) = (Instant::now(), child.id());
    let waiter = std::thread::spawn(move || child.wait_with_output());
    while !waiter.is_finished() {
        if begin.elapsed() > longest {
            send_signal(pid, "KILL");
            panic!("no end after {longest:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = waiter.join().expect("waiting does not panic").expect("it was started");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal by name to a process that the test started.
pub(crate) fn send_signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "cannot send {signal} to {pid}");
}

/// Whether this test may make labs; says so when not.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

/// Measurements run one at a time: each needs the CPUs for itself.
pub(crate) fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
