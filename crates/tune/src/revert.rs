//! Reverts settings by three values: the old one, ours, and the present one. A value that another program has set since stays.

use crate::event::Event;
use crate::host::{Absence, Host};
use crate::location::Reach;
use crate::plan::Change;
use crate::revert_state::RevertState;
use crate::snapshot::{Snapshot, Store};
use sidestep_sys::Problem;

/// Returns the present value, normalised.
pub(crate) fn present(host: &dyn Host, change: &Change) -> Result<String, String> {
    match host.read(&change.location) {
        Ok(raw) => Ok(change.form.normalise(&raw)),
        Err(Absence::Missing) => Err("it is no longer there".into()),
        Err(Absence::Denied) => Err("only root may read it".into()),
        Err(Absence::Unreadable(why)) => Err(why),
    }
}

/// Returns the state of a setting, by its present value.
fn state(host: &dyn Host, change: &Change) -> RevertState {
    match host.read(&change.location).map(|raw| change.form.normalise(&raw)) {
        Ok(now) if now == change.after => RevertState::Ours,
        Ok(now) if now == change.before => RevertState::Back,
        Ok(now) => RevertState::Foreign(now),
        Err(Absence::Missing) => RevertState::Gone,
        Err(Absence::Denied) => RevertState::Failed("only root may read it".into()),
        Err(Absence::Unreadable(why)) => RevertState::Failed(why),
    }
}

/// Returns the state of each setting of a snapshot. Changes nothing. Err if all belong to another network namespace.
pub fn states(host: &dyn Host, snapshot: &Snapshot) -> Result<Vec<(Change, RevertState)>, Problem> {
    let bond = bond(host, snapshot)?;
    let of = |change: &Change| (change.clone(), bond.out_of_reach(change).unwrap_or_else(|| state(host, change)));
    Ok(snapshot.changes.iter().map(of).collect())
}

/// The part of a snapshot that can be reached from here.
enum Bond {
    /// All settings.
    Here,
    /// None: the host has rebooted since.
    Rebooted,
    /// Settings of the whole host; the others belong to this network namespace.
    Elsewhere(String),
}

impl Bond {
    /// Returns the state of a setting that cannot be reached; `None` if it can.
    fn out_of_reach(&self, change: &Change) -> Option<RevertState> {
        match self {
            Self::Here => None,
            Self::Rebooted => Some(RevertState::Rebooted),
            Self::Elsewhere(_) if change.location.reach() == Reach::Host => None,
            Self::Elsewhere(there) => Some(RevertState::Elsewhere(there.clone())),
        }
    }
}

/// Returns the reachable part. Err if there is none, because this is another network namespace of the same boot.
fn bond(host: &dyn Host, snapshot: &Snapshot) -> Result<Bond, Problem> {
    let (here, there) = (host.identity(), &snapshot.identity);
    if here.boot != there.boot {
        return Ok(Bond::Rebooted);
    }
    if here.network == there.network {
        return Ok(Bond::Here);
    }
    if snapshot.changes.iter().any(|change| change.location.reach() == Reach::Host) {
        return Ok(Bond::Elsewhere(there.network.clone()));
    }
    Err(Problem::failed(
        format!("cannot put back snapshot {}", snapshot.number),
        format!("it was made in the network namespace {}, this is {}", there.network, here.network),
    )
    .next("run it there (ip netns exec NAME, nsenter --net); if the namespace is gone: sidestep tune revert --forget"))
}

/// Reverts the settings of a snapshot, last first, and removes the snapshot when nothing is left to revert.
pub fn revert(
    host: &dyn Host,
    store: &Store,
    snapshot: &Snapshot,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<(Change, RevertState)>, Problem> {
    let _lock = store.lock()?;
    let bond = bond(host, snapshot)?;
    let (mut states, mut within_reach) = (Vec::new(), Vec::new());
    for change in &snapshot.changes {
        match bond.out_of_reach(change) {
            Some(state) => states.push((change.clone(), state)),
            None => within_reach.push(change),
        }
    }
    states.extend(put_back(host, &within_reach, observe));
    if !states.iter().any(|(_, state)| state.is_left_to_do()) {
        store.remove(snapshot)?;
    }
    Ok(states)
}

/// Reverts settings, last first. Failures are tried once more at the end: one setting may forbid another (the governor
/// `performance` forbids every energy preference but its own).
pub(crate) fn put_back(
    host: &dyn Host,
    changes: &[&Change],
    observe: &mut dyn FnMut(Event<'_>),
) -> Vec<(Change, RevertState)> {
    let one = |change: &&Change| ((*change).clone(), put_back_one(host, change, observe));
    let mut states: Vec<(Change, RevertState)> = changes.iter().rev().map(one).collect();
    for (change, state) in states.iter_mut().filter(|(_, state)| matches!(state, RevertState::Failed(_))) {
        *state = put_back_one(host, change, observe);
    }
    states.iter().for_each(|(change, state)| observe(Event::Reverted(change, state)));
    states
}

fn put_back_one(host: &dyn Host, change: &Change, observe: &mut dyn FnMut(Event<'_>)) -> RevertState {
    match state(host, change) {
        RevertState::Ours => {}
        other => return other,
    }
    observe(Event::Writing(change));
    match undo_attempt(host, change) {
        Ok(()) => RevertState::Back,
        Err(why) => RevertState::Failed(why),
    }
}

/// Writes the old value and reads it again.
pub(crate) fn undo_attempt(host: &dyn Host, change: &Change) -> Result<(), String> {
    if present(host, change)? == change.before {
        return Ok(());
    }
    host.write(&change.location, &change.form.spell(&change.before)).map_err(|error| error.to_string())?;
    match present(host, change)? {
        now if now == change.before => Ok(()),
        now => Err(format!("the kernel made it {now:?}")),
    }
}
