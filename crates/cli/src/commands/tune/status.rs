//! `sidestep tune status`.

use crate::{exit, output};
use serde::Serialize;
use sidestep_sys::Problem;
use sidestep_tune::host::Live;
use sidestep_tune::plan::Change;
use sidestep_tune::revert::states;
use sidestep_tune::revert_state::RevertState;
use sidestep_tune::show::{json, text};
use sidestep_tune::snapshot::Store;
use std::path::Path;

#[derive(Serialize)]
struct Listing {
    schema: u32,
    snapshots: Vec<SnapshotLine>,
}

#[derive(Serialize)]
struct SnapshotLine {
    number: u32,
    started_unix_s: u64,
    profile: String,
    /// The reason why the settings cannot be read from here.
    problem: Option<String>,
    settings: Vec<SettingLine>,
}

#[derive(Serialize)]
struct SettingLine {
    #[serde(flatten)]
    change: Change,
    state: RevertState,
}

pub(super) fn run(path: Option<&Path>) -> Result<u8, Problem> {
    let host = Live::new();
    let mut listing = Listing { schema: 1, snapshots: Vec::new() };
    let mut words = String::new();
    for snapshot in Store::usual().list()? {
        let found = states(&host, &snapshot);
        words.push_str(&text::snapshot(&snapshot, &found, super::page()));
        let problem = found.as_ref().err().map(Problem::brief);
        let settings =
            found.unwrap_or_default().into_iter().map(|(change, state)| SettingLine { change, state }).collect();
        let (number, started_unix_s, profile) = (snapshot.number, snapshot.started_unix_s, snapshot.profile);
        listing.snapshots.push(SnapshotLine { number, started_unix_s, profile, problem, settings });
    }
    match path {
        Some(path) => output::write(path, &json::pretty(&listing)?)?,
        None if words.is_empty() => output::print("nothing is changed\n")?,
        None => output::print(&words)?,
    }
    Ok(exit::GOOD)
}
