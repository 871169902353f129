//! Removal of a lab at the user's request, and its refusals.

use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::directory::Directory;
use super::holders::{holders, list};
use super::ip::Ip;
use super::mark::Mark;
use super::name::LabName;
use super::state::{State, existing_namespaces};
use super::teardown;

/// The treatment of a lab's users when it is taken down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Refuses while another process owns the lab, or a process is inside.
    Careful,
    /// Removes the lab anyway. Processes inside stay alive, in a namespace without a name and without a wire.
    Forced,
}

/// Takes down a lab of which only the name is known.
pub(super) fn by_name(
    ip: &Ip,
    directory: &Directory,
    name: &LabName,
    removal: Removal,
) -> Result<Option<String>, Problem> {
    let _lock = directory.lock()?;
    let record = directory.load(name)?;
    let namespaces = existing_namespaces(name);
    if record.is_none() && namespaces.is_empty() {
        return Err(Problem::failed(format!("cannot take lab {name} down"), "there is no such lab")
            .next("list the labs with: sidestep lab status"));
    }
    let state = record.and_then(Result::ok);
    if removal == Removal::Careful {
        refuse_if_used(ip, name, state.as_ref())?;
    }
    let wire = state.and_then(|state| state.wire).map(Process::from);
    teardown::remove(ip, directory, name, wire, &namespaces)
}

/// Refuses to remove a lab in use, with the pids of its users.
pub(super) fn refuse_if_used(ip: &Ip, name: &LabName, state: Option<&State>) -> Result<(), Problem> {
    let what = format!("cannot take lab {name} down");
    let forced = format!("sidestep lab down --force {name}");
    let namespaces = existing_namespaces(name);
    let owner = match state {
        Some(state) => state.owner.map(Process::from),
        None => owner_by_mark(ip, &namespaces),
    };
    if let Some(owner) = owner.filter(|owner| owner.pid != std::process::id() && owner.is_alive()) {
        return Err(Problem::failed(what, format!("process {} owns it and still runs", owner.pid))
            .next(format!("wait for its end, or use: {forced}")));
    }
    let relay = state.and_then(|state| state.wire).map(|wire| wire.pid);
    let holders = holders(&namespaces, relay.as_slice());
    if holders.is_empty() {
        return Ok(());
    }
    Err(Problem::failed(what, format!("these processes run inside: {}", list(&holders)))
        .next(format!("end them first, or leave them without a network by: {forced}")))
}

fn owner_by_mark(ip: &Ip, namespaces: &[String]) -> Option<Process> {
    namespaces.iter().find_map(|namespace| match Mark::of(ip, namespace) {
        Some(Mark::Owner(owner)) => Some(owner),
        _ => None,
    })
}
