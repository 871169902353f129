//! The public face, as a program outside the workspace meets it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn outside() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside")
}

/// The program is built with the lock file beside it: nothing is downloaded that the workspace does not have.
#[test]
fn a_program_outside_the_workspace_can_use_all_of_it() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--offline", "--target-dir", env!("CARGO_TARGET_TMPDIR")]);
    let output = cargo.current_dir(outside()).output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "good\n");
}
