//! The record of a lab, by which another process finds it, opens it, and removes it after its owner's death.

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::host::{Host, Side};
use super::name::{LabName, namespace_path};
use super::options::{Checksums, Options};
use crate::wire::{Directions, Impairment};

/// The version of the record; another one is refused.
const SCHEMA: u32 = 1;

/// The record of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    schema: u32,
    pub(crate) name: LabName,
    /// The process with which the lab ends; `None` for a persistent lab.
    pub(crate) owner: Option<ProcessRecord>,
    /// The process that moves the frames of a persistent lab with an impaired wire.
    pub(crate) wire: Option<ProcessRecord>,
    pub(crate) hosts: [Host; 2],
    pub(crate) checksums: Checksums,
    pub(crate) impairment: Option<Directions<Impairment>>,
    /// Set if the hosts have a second pair. Records of older versions do not say so: they have none.
    #[serde(default)]
    pub(crate) frames_pair: bool,
    pub(crate) queues: u32,
    pub(crate) mtu: u32,
}

impl State {
    pub(crate) fn new(name: LabName, options: &Options, owner: Process, has_ipv6: bool) -> Self {
        Self {
            schema: SCHEMA,
            hosts: hosts(&name, has_ipv6),
            name,
            owner: Some(owner.into()),
            wire: None,
            checksums: options.effective_checksums(),
            impairment: options.impairment.clone(),
            frames_pair: options.frames_pair,
            queues: options.queues,
            mtu: options.mtu,
        }
    }

    /// Parses a record. It is accepted only if its content matches `name`, because namespaces are removed by it.
    pub(crate) fn parse(name: &LabName, text: &[u8]) -> Result<Self, String> {
        let state: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if state.schema != SCHEMA {
            return Err(format!("its schema is {}, not {SCHEMA}", state.schema));
        }
        let has_ipv6 = state.hosts[0].ipv6.is_some();
        if state.name != *name || state.hosts != hosts(name, has_ipv6) {
            return Err("its names are not those of its file".to_owned());
        }
        Ok(state)
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>, Problem> {
        serde_json::to_vec_pretty(self).map_err(|error| {
            Problem::failed(format!("cannot record lab {}", self.name), error).next("report this as a bug of sidestep")
        })
    }

    /// Both hosts by the second pair, if there is one.
    pub(crate) fn frames_hosts(&self) -> Option<[Host; 2]> {
        self.frames_pair.then(|| self.hosts.each_ref().map(Host::by_frames))
    }

    /// The namespaces of it that exist.
    pub(crate) fn existing_namespaces(&self) -> Vec<String> {
        existing_namespaces(&self.name)
    }
}

/// The possible namespaces of a lab of this name that exist.
pub(crate) fn existing_namespaces(name: &LabName) -> Vec<String> {
    name.namespaces().into_iter().filter(|namespace| namespace_path(namespace).exists()).collect()
}

fn hosts(name: &LabName, has_ipv6: bool) -> [Host; 2] {
    [Side::A, Side::B].map(|side| Host::new(name, side, has_ipv6))
}

/// A [`Process`] as the record stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

impl From<Process> for ProcessRecord {
    fn from(Process { pid, start_ticks }: Process) -> Self {
        Self { pid, start_ticks }
    }
}

impl From<ProcessRecord> for Process {
    fn from(ProcessRecord { pid, start_ticks }: ProcessRecord) -> Self {
        Self { pid, start_ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> State {
        let owner = Process { pid: 1, start_ticks: 2 };
        State::new(LabName::new(name).unwrap(), &Options::default(), owner, true)
    }

    #[test]
    fn a_record_reads_back() {
        let state = state("x");
        let text = state.to_json().unwrap();
        let back = State::parse(&state.name, &text).unwrap();
        assert_eq!(back.owner, state.owner);
        assert_eq!(back.hosts, state.hosts);
    }

    #[test]
    fn a_record_of_something_else_is_not_believed() {
        let x = LabName::new("x").unwrap();
        let text = String::from_utf8(state("x").to_json().unwrap()).unwrap();
        assert!(State::parse(&x, &state("y").to_json().unwrap()).is_err());
        for (from, to) in [("sidestep-x-b", "other"), ("\"schema\": 1", "\"schema\": 2"), ("{", ""), ("198.18", "10.0")]
        {
            assert!(State::parse(&x, text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
        assert!(State::parse(&x, b"\xff\0").is_err());
    }
}
