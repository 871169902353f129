//! The labs of this machine, for people and scripts.

use serde::Serialize;
use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::directory::Directory;
use super::host::Host;
use super::options::Checksums;
use super::state::State;
use super::sweep;
use crate::wire::{Directions, Impairment};

/// A lab that has a record.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// Its condition.
    pub condition: Condition,
    /// Its hosts, `a` first; none if the record is damaged.
    pub hosts: Vec<Host>,
    /// The state of checksums in the frames between the hosts.
    pub checksums: Option<Checksums>,
    /// The impairment of its wire; `None` for a perfect one.
    pub impairment: Option<Directions<Impairment>>,
    /// The process that runs the wire of a persistent lab; `None` without one, and if it has ended before the lab.
    pub wire_pid: Option<u32>,
}

/// The condition of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Up until it is taken down.
    Persistent,
    /// Up until the process with this pid ends.
    Owned(u32),
    /// Dead, for this reason; the next lab removes it.
    Stale(String),
    /// Its record cannot be read, for this reason.
    Damaged(String),
}

pub(super) fn list(directory: &Directory) -> Result<Vec<Listing>, Problem> {
    let mut labs = Vec::new();
    for name in directory.names()? {
        labs.extend(match directory.load(&name)? {
            None => None,
            Some(Ok(state)) => Some(Listing {
                name: name.to_string(),
                condition: condition(&state),
                hosts: state.hosts.to_vec(),
                checksums: Some(state.checksums),
                wire_pid: state.wire.map(Process::from).filter(Process::is_alive).map(|process| process.pid),
                impairment: state.impairment,
            }),
            Some(Err(damage)) => Some(Listing {
                name: name.to_string(),
                condition: Condition::Damaged(damage),
                hosts: Vec::new(),
                checksums: None,
                impairment: None,
                wire_pid: None,
            }),
        });
    }
    Ok(labs)
}

fn condition(state: &State) -> Condition {
    match (sweep::death(state), state.owner) {
        (Some(reason), _) => Condition::Stale(reason),
        (None, Some(owner)) => Condition::Owned(owner.pid),
        (None, None) => Condition::Persistent,
    }
}
