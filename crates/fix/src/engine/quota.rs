//! How many sessions templates may keep on the disk: a name costs nothing to make up, a journal stays.

use super::core::Engine;
use super::plan::{SessionPlan, StorePlan, session_folder};
use crate::session::Application;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two countings of a folder that was full: somebody may have removed what nobody needs.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

/// What is known of the folders that templates keep sessions in, each counted up to so many as may be there.
#[derive(Debug, Default)]
pub(super) struct Quota(HashMap<(PathBuf, usize), Kept>);

#[derive(Debug)]
struct Kept {
    sessions: usize,
    counted_ns: u64,
}

impl<A: Application> Engine<A> {
    /// Whether a template may keep one more session, one that there is nothing of yet.
    pub(super) fn may_keep_one_more(&mut self, plan: &SessionPlan, mono_ns: u64) -> bool {
        let StorePlan::Journal { folder, .. } = &plan.store else { return true };
        let counted = (folder.clone(), plan.kept_max);
        let is_known = self.quota.0.get(&counted).is_some_and(|kept| {
            let is_old = mono_ns >= kept.counted_ns.saturating_add(COUNTED_EVERY.as_nanos() as u64);
            kept.sessions < plan.kept_max || !is_old
        });
        if !is_known {
            let kept = Kept { sessions: self.kept_in(folder, plan.kept_max), counted_ns: mono_ns };
            self.quota.0.insert(counted.clone(), kept);
        }
        self.quota.0.get(&counted).is_some_and(|kept| kept.sessions < plan.kept_max)
    }

    /// A template has kept one.
    pub(super) fn note_kept(&mut self, plan: &SessionPlan) {
        let StorePlan::Journal { folder, .. } = &plan.store else { return };
        let same = self.quota.0.iter_mut().filter(|((place, _), _)| place == folder);
        same.for_each(|(_, kept)| kept.sessions += 1);
    }

    /// Sessions kept there, by this process or an earlier one, without those that were not made by templates. No more than `most` are
    /// counted: the thread that trades does it, when a stranger knocks.
    pub(super) fn kept_in(&self, folder: &Path, most: usize) -> usize {
        let named = self.slots.iter().enumerate().filter(|(place, _)| !self.dynamic.contains(place));
        let named: HashSet<OsString> = named
            .filter_map(|(_, slot)| session_folder(folder, slot.session.id()).file_name().map(OsString::from))
            .collect();
        // What cannot be read cannot be written either: that is said when the session is to be kept.
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && !named.contains(&entry.file_name()))
            .take(most)
            .count()
    }
}
