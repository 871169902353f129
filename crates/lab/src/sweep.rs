//! Removal of labs whose owner was killed, found by their record or by the marks of their namespaces.

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

/// Removes every dead lab that sidestep certainly made; returns a line for each, and for each failure.
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

/// Removes a lab. A failure is reported, and does not prevent the next lab.
fn remove(ip: &Ip, directory: &Directory, name: &LabName, wire: Option<Process>, reason: &str) -> Vec<String> {
    match teardown::remove(ip, directory, name, wire, &existing_namespaces(name)) {
        Ok(remark) => [format!("removed lab {name}: {reason}")].into_iter().chain(remark).collect(),
        Err(problem) => vec![format!("cannot remove lab {name} ({reason}): {problem}")],
    }
}

/// The reason why this lab is no longer in use; `None` if it may be.
pub(crate) fn death(state: &State) -> Option<String> {
    match state.owner.map(Process::from) {
        Some(owner) if !owner.is_alive() => Some(format!("its owner (process {}) has ended", owner.pid)),
        None if state.existing_namespaces().is_empty() => Some("its namespaces are gone".to_owned()),
        _ => None,
    }
}

/// The reason for a damaged record, which hides the owner: the lab is dead only if no namespace names a living one and
/// no process is inside.
fn death_of_damaged(ip: &Ip, name: &LabName, damage: &str) -> Option<String> {
    let namespaces = existing_namespaces(name);
    let is_owned = |namespace: &String| matches!(Mark::of(ip, namespace), Some(Mark::Owner(owner)) if owner.is_alive());
    if namespaces.iter().any(is_owned) || !holders(&namespaces, &[]).is_empty() {
        return None;
    }
    Some(format!("its record is damaged ({damage}) and no process uses it"))
}

/// Labs that have a namespace by name, but no record in this directory.
fn orphans(directory: &Directory) -> Vec<LabName> {
    let entries = fs::read_dir(NAMESPACE_DIRECTORY).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<_> = entries.filter_map(|entry| LabName::of_namespace(entry.file_name().to_str()?)).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !directory.has(name));
    names
}
