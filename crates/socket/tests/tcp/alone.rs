//! Tests that share their process with no other.

use crate::roles::ROLE;
use sidestep_sys::process::die_with_parent;
use std::process::Command;

/// What the test finds in the environment of its own process.
const ALONE: &str = "alone";

/// Returns whether this process is one that [`alone`] has started.
pub(crate) fn is_alone() -> bool {
    std::env::var(ROLE).as_deref() == Ok(ALONE)
}

/// Runs a test again, in a process of its own.
pub(crate) fn alone(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, ALONE);
    die_with_parent(&mut command);
    let output = command.output().unwrap();
    let [said, told] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && said.contains("1 passed"), "{}\n{said}{told}", output.status);
}
