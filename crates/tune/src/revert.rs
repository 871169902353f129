//! The way back, by three values: the one before, ours, and the present one. What somebody else has changed since stays.

use crate::apply::Event;
use crate::host::{Absence, Host};
use crate::place::Reach;
use crate::plan::Change;
use crate::snapshot::{Snapshot, Store};
use serde::Serialize;
use sidestep_sys::Problem;

/// What becomes of a setting on the way back, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It has our value, and is put back.
    Ours,
    /// It has its old value already.
    Back,
    /// Somebody else has changed it since: this is its value, and it stays.
    Foreign(String),
    /// It is no longer there: an interface that was removed.
    Gone,
    /// The host was booted since: nothing of ours is left to put back.
    Rebooted,
    /// It is of another network namespace, this one.
    Elsewhere(String),
    /// It cannot be put back, and why.
    Failed(String),
}

impl Fate {
    /// Whether the way back is not at its end with it.
    pub fn is_left_to_do(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Elsewhere(_))
    }

    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            Self::Ours => "in force".into(),
            Self::Back => "at its old value".into(),
            Self::Foreign(now) => format!("changed since by somebody else to {now:?}, left alone"),
            Self::Gone => "no longer there".into(),
            Self::Rebooted => "gone with the reboot".into(),
            Self::Elsewhere(there) => format!("of the network namespace {there}, to be put back there"),
            Self::Failed(why) => format!("cannot be put back: {why}"),
        }
    }
}

/// The present value, in the one spelling.
pub(crate) fn present(host: &dyn Host, change: &Change) -> Result<String, String> {
    match host.read(&change.place) {
        Ok(raw) => Ok(change.form.normalise(&raw)),
        Err(Absence::Missing) => Err("it is no longer there".into()),
        Err(Absence::Denied) => Err("only root may read it".into()),
        Err(Absence::Unreadable(why)) => Err(why),
    }
}

/// What has become of a setting, by its present value.
fn fate(host: &dyn Host, change: &Change) -> Fate {
    match host.read(&change.place).map(|raw| change.form.normalise(&raw)) {
        Ok(now) if now == change.after => Fate::Ours,
        Ok(now) if now == change.before => Fate::Back,
        Ok(now) => Fate::Foreign(now),
        Err(Absence::Missing) => Fate::Gone,
        Err(Absence::Denied) => Fate::Failed("only root may read it".into()),
        Err(Absence::Unreadable(why)) => Fate::Failed(why),
    }
}

/// What has become of each setting of a snapshot. Nothing is changed. Err where all of it is of another network namespace.
pub fn fates(host: &dyn Host, snapshot: &Snapshot) -> Result<Vec<(Change, Fate)>, Problem> {
    let bond = bond(host, snapshot)?;
    let of = |change: &Change| (change.clone(), bond.out_of_reach(change).unwrap_or_else(|| fate(host, change)));
    Ok(snapshot.changes.iter().map(of).collect())
}

/// What of a snapshot can be reached from here.
enum Bond {
    /// All.
    Here,
    /// Nothing: the host was booted since.
    Rebooted,
    /// Settings of the whole host; the others are of this network namespace.
    Elsewhere(String),
}

impl Bond {
    /// Why a setting cannot be reached; `None` where it can.
    fn out_of_reach(&self, change: &Change) -> Option<Fate> {
        match self {
            Self::Here => None,
            Self::Rebooted => Some(Fate::Rebooted),
            Self::Elsewhere(_) if change.place.reach() == Reach::Host => None,
            Self::Elsewhere(there) => Some(Fate::Elsewhere(there.clone())),
        }
    }
}

/// What can be reached. Err where nothing can, because this is another network namespace of the same boot.
fn bond(host: &dyn Host, snapshot: &Snapshot) -> Result<Bond, Problem> {
    let (here, there) = (host.identity(), &snapshot.identity);
    if here.boot != there.boot {
        return Ok(Bond::Rebooted);
    }
    if here.network == there.network {
        return Ok(Bond::Here);
    }
    if snapshot.changes.iter().any(|change| change.place.reach() == Reach::Host) {
        return Ok(Bond::Elsewhere(there.network.clone()));
    }
    Err(Problem::failed(
        format!("cannot put back snapshot {}", snapshot.number),
        format!("it was made in the network namespace {}, this is {}", there.network, here.network),
    )
    .next("run it there (ip netns exec NAME, nsenter --net); where it is gone: sidestep tune revert --forget"))
}

/// Puts back what a snapshot has changed, last first, and forgets the snapshot when nothing of it is left to do.
pub fn revert(
    host: &dyn Host,
    store: &Store,
    snapshot: &Snapshot,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<(Change, Fate)>, Problem> {
    let _lock = store.lock()?;
    let bond = bond(host, snapshot)?;
    let (mut fates, mut within_reach) = (Vec::new(), Vec::new());
    for change in &snapshot.changes {
        match bond.out_of_reach(change) {
            Some(fate) => fates.push((change.clone(), fate)),
            None => within_reach.push(change),
        }
    }
    fates.extend(put_back(host, &within_reach, observe));
    if !fates.iter().any(|(_, fate)| fate.is_left_to_do()) {
        store.remove(snapshot)?;
    }
    Ok(fates)
}

/// Last first. What fails is tried once more at the end: a setting may forbid another one as long as it stands (the governor
/// `performance` forbids every energy preference but its own).
pub(crate) fn put_back(
    host: &dyn Host,
    changes: &[&Change],
    observe: &mut dyn FnMut(Event<'_>),
) -> Vec<(Change, Fate)> {
    let one = |change: &&Change| ((*change).clone(), put_back_one(host, change, observe));
    let mut fates: Vec<(Change, Fate)> = changes.iter().rev().map(one).collect();
    for (change, fate) in fates.iter_mut().filter(|(_, fate)| matches!(fate, Fate::Failed(_))) {
        *fate = put_back_one(host, change, observe);
    }
    fates.iter().for_each(|(change, fate)| observe(Event::Reverted(change, fate)));
    fates
}

fn put_back_one(host: &dyn Host, change: &Change, observe: &mut dyn FnMut(Event<'_>)) -> Fate {
    match fate(host, change) {
        Fate::Ours => {}
        other => return other,
    }
    observe(Event::Writing(change));
    match undo_attempt(host, change) {
        Ok(()) => Fate::Back,
        Err(why) => Fate::Failed(why),
    }
}

/// Writes the old value, and reads it again.
pub(crate) fn undo_attempt(host: &dyn Host, change: &Change) -> Result<(), String> {
    if present(host, change)? == change.before {
        return Ok(());
    }
    host.write(&change.place, &change.form.spell(&change.before)).map_err(|error| error.to_string())?;
    match present(host, change)? {
        now if now == change.before => Ok(()),
        now => Err(format!("the kernel made it {now:?}")),
    }
}
