//! Labs whose owner was killed: found by their record, or by what their namespaces say, and removed.

use std::fs;

use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::directory::{Directory, Lock};
use super::holders::holders;
use super::ip::Ip;
use super::mark::Mark;
use super::name::{LabName, NAMESPACE_DIRECTORY};
use super::state::{State, existing_namespaces};
use super::teardown;

/// Removes every lab that is provably ours and dead; returns a line for each, and for what was in the way.
pub(crate) fn sweep(ip: &Ip, directory: &Directory, lock: &Lock) -> Result<Vec<String>, Problem> {
    directory.remove_torn(lock);
    let mut removed = Vec::new();
    for name in directory.names()? {
        let (reason, wire) = match directory.load(&name)? {
            None => continue,
            Some(Ok(state)) => (death(&state), state.wire.map(Process::from)),
            Some(Err(damage)) => (death_of_damaged(ip, &name, &damage), None),
        };
        if let Some(reason) = reason {
            removed.extend(remove(ip, directory, &name, wire, &reason));
        }
    }
    for name in orphans(directory) {
        let is_dead = existing_namespaces(&name).iter().any(|space| Mark::of(ip, space).is_some_and(Mark::is_dead));
        if is_dead {
            removed.extend(remove(ip, directory, &name, None, "its owner has ended, and its record is lost"));
        }
    }
    Ok(removed)
}

/// A lab that cannot be removed is reported, and does not keep the next from coming up.
fn remove(ip: &Ip, directory: &Directory, name: &LabName, wire: Option<Process>, reason: &str) -> Vec<String> {
    match teardown::remove(ip, directory, name, wire, &existing_namespaces(name)) {
        Ok(remark) => [format!("removed lab {name}: {reason}")].into_iter().chain(remark).collect(),
        Err(problem) => vec![format!("cannot remove lab {name} ({reason}): {problem}")],
    }
}

/// Why nobody can want this lab any more; `None` when somebody may.
pub(crate) fn death(state: &State) -> Option<String> {
    match state.owner.map(Process::from) {
        Some(owner) if !owner.is_alive() => Some(format!("its owner (process {}) has ended", owner.pid)),
        None if state.existing_namespaces().is_empty() => Some("its namespaces are gone".to_owned()),
        _ => None,
    }
}

/// A damaged record hides the owner: the lab is dead only if no namespace names a living one and nobody is inside.
fn death_of_damaged(ip: &Ip, name: &LabName, damage: &str) -> Option<String> {
    let namespaces = existing_namespaces(name);
    let is_owned = |namespace: &String| matches!(Mark::of(ip, namespace), Some(Mark::Owner(owner)) if owner.is_alive());
    if namespaces.iter().any(is_owned) || !holders(&namespaces, &[]).is_empty() {
        return None;
    }
    Some(format!("its record is damaged ({damage}) and nobody uses it"))
}

/// Labs that have a namespace of ours by name, but no record in this directory.
fn orphans(directory: &Directory) -> Vec<LabName> {
    let entries = fs::read_dir(NAMESPACE_DIRECTORY).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<_> = entries.filter_map(|entry| LabName::of_namespace(entry.file_name().to_str()?)).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !directory.has(name));
    names
}
