//! Pins of an earlier control.

use sidestep_sys::problem::{note, say};
use sidestep_xdp_steering::Steering;
use std::fs;
use std::path::{Path, PathBuf};

/// Replaces an earlier build's program by this build's.
pub(super) fn renewed(mut steering: Steering) -> Steering {
    match steering.update_program() {
        Ok(true) => note(format!("renewed the program on {}", steering.facts().interface)),
        Ok(false) => {}
        Err(problem) => say(problem),
    }
    steering
}

/// The directories of interfaces, with their indexes.
pub(super) fn pinned(pins: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(pins).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).collect()
}
