//! The result files of a folder: those in it, and those in its folders, one level deep.

use super::run::Run;
use crate::compare::Statistic;
use serde::Serialize;
use sidestep_report::json;
use sidestep_sys::Problem;
use sidestep_sys::printable::printable;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The most files: a thousand hosts with ten runs each. More is a folder of something else.
const FILES_MAX: usize = 10_000;
/// The most entries of folders that are looked at.
const ENTRIES_MAX: usize = 200_000;
/// The most statistics of rows of all runs together, which take a hundred megabytes.
const READINGS_MAX: usize = 1_000_000;
/// The longest name that is kept, bytes.
const NAME_BYTES: usize = 200;

/// A file that was found and not read.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// Its path.
    pub file: String,
    /// The reason.
    pub reason: String,
}

/// The runs of a folder, with what is compared of each.
#[derive(Debug, Default)]
pub struct Found {
    pub(super) runs: Vec<Run>,
    /// The names of rows, by the numbers that runs have for them.
    pub(super) names: Names,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) copies: Vec<String>,
}

/// The names of rows, each kept once.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The number of a name, a new one if there is none yet.
    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.list.len();
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn name(&self, number: usize) -> &str {
        self.list.get(number).map_or("", String::as_str)
    }
}

impl Found {
    /// The hosts, in the order of their names.
    pub(super) fn hosts(&self) -> Vec<&str> {
        let hosts: BTreeSet<&str> = self.members().map(|run| run.host.as_str()).collect();
        hosts.into_iter().collect()
    }

    /// The runs of the fleet; a baseline that is no host of it is none.
    pub(super) fn members(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| !run.is_reference)
    }

    /// The statistics of the members' runs that are compared, with their rows.
    pub(super) fn statistics(&self) -> impl Iterator<Item = (usize, Statistic)> + '_ {
        self.members().flat_map(|run| run.readings.iter().map(|reading| (reading.row, reading.statistic)))
    }

    fn readings(&self) -> usize {
        self.runs.iter().map(|run| run.readings.len()).sum()
    }

    /// Takes a result in, or records why not.
    fn take(&mut self, path: &Path, folder: Option<&str>, seen: &mut HashMap<u64, String>) -> Result<(), Problem> {
        let name = path.display().to_string();
        let document = match json::read_found(path) {
            Ok(document) => document,
            Err(problem) => {
                self.left_out.push(left_out(path, &problem));
                return Ok(());
            }
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let run = Run::of(&document, folder, &stem, &mut self.names);
        if let Some(first) = seen.get(&run.fingerprint) {
            self.copies.push(format!("{name} holds the run of {first}"));
            return Ok(());
        }
        seen.insert(run.fingerprint, name);
        self.runs.push(run);
        if self.readings() > READINGS_MAX {
            return Err(Problem::usage(
                format!("cannot compare the results of {}", path.parent().unwrap_or(path).display()),
                format!("together they have more than {READINGS_MAX} statistics of rows"),
            )
            .next("compare fewer of them, or results of fewer rows"));
        }
        Ok(())
    }
}

/// A file that cannot be read: its name once, then the reason.
fn left_out(path: &Path, problem: &Problem) -> LeftOut {
    let file = path.display().to_string();
    let brief = problem.brief();
    let reason = [format!("cannot read {file}: "), format!("{file} ")]
        .iter()
        .find_map(|lead| brief.strip_prefix(lead.as_str()))
        .unwrap_or(&brief)
        .to_owned();
    LeftOut { file, reason }
}

/// Reads the results in `folder` (`*.json`), and in the folders in it. A folder in it stands for a host, of its name; the host of other
/// files is the one that the result names. Links to folders are not followed, nor are names that begin with a dot.
///
/// # Errors
/// Fails if the folder cannot be read, holds no result file, or holds too much.
pub fn gather(folder: &Path) -> Result<Found, Problem> {
    let mut budget = ENTRIES_MAX;
    let mut found = Found::default();
    let mut seen = HashMap::new();
    let (files, folders) = list(folder, &mut budget)?;
    let mut all: Vec<(PathBuf, Option<String>)> = files.into_iter().map(|file| (file, None)).collect();
    for folder in folders {
        let host = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match list(&folder, &mut budget) {
            Ok((files, _)) => all.extend(files.into_iter().map(|file| (file, Some(host.clone())))),
            Err(problem) => {
                found.left_out.push(LeftOut { file: folder.display().to_string(), reason: problem.brief() });
            }
        }
    }
    if all.len() > FILES_MAX {
        return Err(too_many(folder, &format!("{} result files, more than {FILES_MAX}", all.len())));
    }
    for (file, host) in &all {
        let host = host.as_deref().map(|host| printable(host, NAME_BYTES));
        found.take(file, host.as_deref(), &mut seen)?;
    }
    if found.runs.is_empty() {
        let why = match found.left_out.first() {
            None => "it holds no file *.json, and no folder with one".to_owned(),
            Some(first) => {
                format!("none of its {} files is a result ({}: {})", found.left_out.len(), first.file, first.reason)
            }
        };
        return Err(Problem::failed(format!("cannot compare the hosts of {}", folder.display()), why)
            .next("put results of hosts there: sidestep bench rr --json FILE"));
    }
    Ok(found)
}

/// The result files and the folders of a folder, in the order of their names.
fn list(folder: &Path, budget: &mut usize) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Problem> {
    let unreadable = |error| {
        Problem::failed(format!("cannot read the folder {}", folder.display()), error)
            .next("name a folder with result files that you may read")
    };
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        *budget = budget
            .checked_sub(1)
            .ok_or_else(|| too_many(folder, &format!("more than {ENTRIES_MAX} files and folders")))?;
        let (path, name) = (entry.path(), entry.file_name());
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(path);
        } else if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

fn too_many(folder: &Path, what: &str) -> Problem {
    Problem::usage(format!("cannot compare the hosts of {}", folder.display()), format!("it holds {what}"))
        .next("name a folder that holds results alone")
}
