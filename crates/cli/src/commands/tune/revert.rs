//! `sidestep tune revert`.

use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::host::Live;
use sidestep_tune::isolate;
use sidestep_tune::revert::revert;
use sidestep_tune::show::text;
use sidestep_tune::snapshot::{Snapshot, Store};

pub(super) fn run(all: bool, forget: bool) -> Result<u8, Problem> {
    for folder in isolate::sweep() {
        output::print(&format!("{folder} was left behind and is removed\n"))?;
    }
    let store = Store::usual();
    let mut snapshots = store.list()?;
    if snapshots.is_empty() {
        output::print("nothing is changed\n")?;
        return Ok(exit::GOOD);
    }
    // Newest first: a newer snapshot holds the values that an older one had set.
    snapshots.reverse();
    snapshots.truncate(if all { snapshots.len() } else { 1 });
    let mut code = exit::GOOD;
    for snapshot in &snapshots {
        match forget {
            true => store.remove(snapshot)?,
            false => match put_back(&store, snapshot) {
                Ok(one) => code = code.max(one),
                // Older snapshots may be reachable.
                Err(problem) if all => {
                    say(&problem);
                    code = exit::PARTLY_APPLIED;
                }
                Err(problem) => return Err(problem),
            },
        }
    }
    Ok(code)
}

fn put_back(store: &Store, snapshot: &Snapshot) -> Result<u8, Problem> {
    let states = revert(&Live::new(), store, snapshot, &mut |_| ())?;
    let is_stuck = states.iter().any(|(_, state)| state.is_left_to_do());
    output::print(&text::snapshot(snapshot, &Ok(states), super::page()))?;
    Ok(if is_stuck { exit::PARTLY_APPLIED } else { exit::GOOD })
}
