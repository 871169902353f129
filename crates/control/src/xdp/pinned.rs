//! Pins of an earlier control.

use super::Xdp;
use super::interface::Interface;
use sidestep_sys::Problem;
use sidestep_sys::problem::{note, say};
use sidestep_xdp_steering::{self as steer, Steering};
use std::path::{Path, PathBuf};
use std::{fs, io};

impl Xdp {
    /// Adopts the pinned program of an earlier control, or removes its pins if the program is no longer attached.
    pub(super) fn adopt_program(&mut self, index: u32, directory: &Path) -> Result<(), Problem> {
        let why = match Steering::adopt(directory, index) {
            Ok(steering) if steering.is_attached().unwrap_or(false) => {
                note(format!("took over the program on {}", steering.facts().interface));
                let steering = renewed(steering);
                remove_feeds(&steering);
                self.interfaces.insert(index, Interface::new(steering));
                return Ok(());
            }
            Ok(_) => "it is no longer attached".into(),
            Err(problem) => problem.brief(),
        };
        note(format!("removes what an earlier control has left for interface {index}: {why}"));
        Steering::sweep(directory).map(|_| ())
    }

    /// Detaches from interfaces that no application of an earlier control uses any more: no other process would.
    pub(super) fn abandon(&mut self) {
        let is_unused = |interface: &Interface| interface.steering.tables().stacks().is_ok_and(|rows| rows.is_empty());
        let unused: Vec<u32> =
            self.interfaces.iter().filter(|(_, it)| is_unused(it)).map(|(index, _)| *index).collect();
        for index in unused {
            self.interfaces.remove(&index);
            Steering::remove(&self.directory(index)).map(|_| ()).unwrap_or_else(say);
        }
        if self.interfaces.is_empty() {
            Self::cleanup(&self.pins).map(|_| ()).unwrap_or_else(say);
        }
    }

    /// Detaches everything that is pinned.
    pub(crate) fn cleanup(pins: &Path) -> Result<usize, Problem> {
        let mut removed = 0;
        for (_, directory) in pinned(pins) {
            removed += usize::from(Steering::remove(&directory)?);
        }
        steer::unmount(pins)?;
        match fs::remove_dir(pins) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Problem::failed(format!("cannot remove {}", pins.display()), error).next("remove it by hand"))
            }
            _ => Ok(removed),
        }
    }
}

/// Removes the feeds of an earlier control: their readers open them anew.
fn remove_feeds(steering: &Steering) {
    let tables = steering.tables();
    match tables.feeds() {
        Ok(feeds) => feeds.iter().for_each(|feed| tables.feed_remove(feed.id).unwrap_or_else(say)),
        Err(problem) => say(problem),
    }
}

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
