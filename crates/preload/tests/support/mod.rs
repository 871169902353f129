//! The library as cargo has built it, and programs with and without it.

#![allow(dead_code)] // Every test file uses its own part.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// libsidestep.so of this build.
pub(crate) fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its file");
    let library = program.parent().expect("a file is in a folder").join("libsidestep_preload.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// Returns whether a program is installed.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).exists())
}

/// The exit code of timeout(1) when it has ended a program.
pub(crate) const TIMED_OUT: i32 = 124;

/// Runs a shell's command line, with the library or without it.
pub(crate) fn shell(line: &str, is_preloaded: bool) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", line]).env_remove("LD_PRELOAD");
    if is_preloaded {
        command.env("LD_PRELOAD", library());
    }
    command.output().expect("bash can be run")
}
