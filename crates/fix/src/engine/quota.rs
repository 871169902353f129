//! Limits of what templates may hold: sessions on the disk (a name costs nothing to make up, a journal stays) and descriptors.

use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The interval of counts of a folder that was full: an operator may have removed sessions.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// Half of the descriptors that the process may have. A quarter is for those that have not yet logged on, the rest for connections.
pub(super) fn store_descriptors_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 2).unwrap_or(usize::MAX)
}

/// The sessions in the folders of templates, each folder counted up to so many as may be there.
#[derive(Debug, Default)]
pub(super) struct Quota(HashMap<(PathBuf, usize), Kept>);

#[derive(Debug)]
struct Kept {
    sessions: usize,
    counted_ns: u64,
}

impl Quota {
    /// Returns whether the folder has to be counted: it never was, or it was full a while ago.
    pub(super) fn needs_count(&self, folder: &Path, kept_max: usize, mono_ns: u64) -> bool {
        self.kept(folder, kept_max).is_none_or(|kept| {
            let is_old = mono_ns >= kept.counted_ns.saturating_add(COUNTED_EVERY.as_nanos() as u64);
            kept.sessions >= kept_max && is_old
        })
    }

    /// Sets the count of a folder.
    pub(super) fn set(&mut self, folder: &Path, kept_max: usize, sessions: usize, counted_ns: u64) {
        self.0.insert((folder.to_owned(), kept_max), Kept { sessions, counted_ns });
    }

    /// Returns whether the folder has room for one more session.
    pub(super) fn has_room(&self, folder: &Path, kept_max: usize) -> bool {
        self.kept(folder, kept_max).is_some_and(|kept| kept.sessions < kept_max)
    }

    /// Counts one more session in the folder.
    pub(super) fn note_kept(&mut self, folder: &Path) {
        let same = self.0.iter_mut().filter(|((place, _), _)| place == folder);
        same.for_each(|(_, kept)| kept.sessions += 1);
    }

    fn kept(&self, folder: &Path, kept_max: usize) -> Option<&Kept> {
        self.0.get(&(folder.to_owned(), kept_max))
    }
}
