//! The tables that the program looks up: settings, and the owners of flows, listeners and groups.

use std::fmt;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use sidestep_sys::Problem;

use crate::entry::{Group, Key, Listener, MapEntry, Table, VlanMatch, entry_of};
use crate::layout::{
    FLOWS_MAX, GROUPS_MAX, LISTENERS_MAX, MAGIC, NONE_IN_RING_FLOWS, NONE_IN_RING_GROUPS, NONE_IN_RING_LISTENERS,
    NONE_OF_ANY_VLAN, NONE_WITH_SOURCE, OWNER_BYTES, VERSION, config, put, take,
};
use crate::maps::Maps;
use crate::stack_id::StackId;

/// The default age of a stack's heartbeat beyond which its frames go to the kernel.
///
/// A dead stack needs no deadline: its sockets are closed and its frames pass at once. The deadline is for one that is
/// stopped or hung. Too short is worse than too long: the kernel resets TCP connections that it does not know, whereas
/// the frames of a stack that was only late wait in its ring. A second is far above the delays of a healthy polling
/// thread (a time slice, a page fault, a hypervisor), and below what an operator notices.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(1);

/// The shortest deadline. Below it, one timer tick of the kernel (10 ms at 100 Hz), the program's clock resolution,
/// could look like death.
pub(crate) const DEADLINE_MIN: Duration = Duration::from_millis(50);

/// The longest deadline. Above it the switch would not serve its purpose.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// The attempts of an insertion whose rival has just been removed.
const ADD_TRIES_MAX: usize = 3;

/// The program's maps. One thread of one process (control) writes them: nothing here is atomic across calls.
#[derive(Debug)]
pub struct Tables {
    pub(crate) maps: Maps,
}

impl Tables {
    /// Assigns a flow, listener or group to a stack. Assigning it again changes nothing; an entry of another stack is
    /// refused with that stack's name.
    pub fn add(&self, stack: StackId, entry: &MapEntry) -> Result<(), Problem> {
        entry.check()?;
        self.stack(stack)?;
        self.look_for(entry)?;
        let key = Key::from(entry);
        let map = self.maps.of(key.table());
        for _ in 0..ADD_TRIES_MAX {
            let owner = stack.number().to_ne_bytes();
            match map.update(key.bytes(), &owner, MapFlags::NO_EXIST) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(insertion_problem(entry, key.table(), &error)),
            }
            if self.is_kernels(entry)? {
                // Its connection has ended: who asks has looked.
                let changed = map.update(key.bytes(), &owner, MapFlags::EXIST);
                return changed.map_err(|error| insertion_problem(entry, key.table(), &error));
            }
            match self.owner(entry)? {
                Some(owner) if owner == stack => return Ok(()),
                Some(owner) => return Err(self.taken(entry, owner)),
                None => {}
            }
        }
        Err(Problem::failed(format!("cannot steer {entry}"), "another process writes the tables at the same time")
            .next("let one control plane serve an interface"))
    }

    /// Makes the program look up entries of this kind, before the first is inserted. The lookup is never switched off
    /// again: further entries of the kind are likely.
    fn look_for(&self, entry: &MapEntry) -> Result<(), Problem> {
        self.look_for_kinds(kinds_of(entry))
    }

    /// Clears these bits of `none`, if they are set.
    pub(crate) fn look_for_kinds(&self, kinds: u8) -> Result<(), Problem> {
        let [none] = take(&self.read_config()?, config::NONE);
        if none & kinds == 0 {
            return Ok(());
        }
        self.change_config(|bytes| put(bytes, config::NONE, &[none & !kinds]))
    }

    /// Removes an entry of a stack; `false` if it does not exist. An entry of another stack is refused.
    pub fn remove(&self, stack: StackId, entry: &MapEntry) -> Result<bool, Problem> {
        match self.owner(entry)? {
            None => Ok(false),
            Some(owner) if owner != stack => Err(self.taken(entry, owner)),
            Some(_) => {
                let key = Key::from(entry);
                self.delete(key.table(), key.bytes())
            }
        }
    }

    /// The stack that has exactly this entry.
    pub fn owner(&self, entry: &MapEntry) -> Result<Option<StackId>, Problem> {
        let key = Key::from(entry);
        Ok(self.owner_of(key.table(), key.bytes())?.and_then(StackId::from_number))
    }

    /// Every entry with its owner, in no order.
    pub fn entries(&self) -> Result<Vec<(MapEntry, StackId)>, Problem> {
        let mut entries = Vec::new();
        self.for_each_key(|table, key, owner| {
            entries.extend(entry_of(table, key).zip(StackId::from_number(owner)));
            Ok(())
        })?;
        Ok(entries)
    }

    /// Switches steering of the whole interface; if off, every frame goes to the kernel.
    pub fn set_enabled(&self, on: bool) -> Result<(), Problem> {
        self.change_config(|bytes| put(bytes, config::ENABLED, &u32::from(on).to_ne_bytes()))
    }

    /// Sets the allowed age of a heartbeat: `DEADLINE_MIN` to [`DEADLINE_MAX`].
    pub fn set_deadline(&self, deadline: Duration) -> Result<(), Problem> {
        if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&deadline) {
            return Err(Problem::usage(
                format!("cannot set the heartbeat's deadline to {deadline:?}"),
                format!("it must be from {DEADLINE_MIN:?} to {DEADLINE_MAX:?}"),
            ));
        }
        let nanoseconds = deadline.as_nanos() as u64;
        self.change_config(|bytes| put(bytes, config::DEADLINE_NS, &nanoseconds.to_ne_bytes()))
    }

    /// Sets the interface's own address after a change. Frames to any other unicast address pass.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), Problem> {
        self.change_config(|bytes| put(bytes, config::MAC, &mac))
    }

    pub(crate) fn read_config(&self) -> Result<Vec<u8>, Problem> {
        let found = self.maps.config.lookup(&[0; 4], MapFlags::ANY).map_err(|error| settings_problem(&error))?;
        found.ok_or_else(|| settings_problem(&"the map is empty"))
    }

    pub(crate) fn change_config(&self, change: impl FnOnce(&mut [u8])) -> Result<(), Problem> {
        let mut bytes = self.read_config()?;
        change(&mut bytes);
        self.maps.config.update(&[0; 4], &bytes, MapFlags::ANY).map_err(|error| settings_problem(&error))
    }

    /// Writes the settings of a newly loaded program.
    pub(crate) fn initialise(&self, ifindex: u32, mac: [u8; 6]) -> Result<(), Problem> {
        self.change_config(|bytes| {
            put(bytes, config::MAGIC, &MAGIC.to_ne_bytes());
            put(bytes, config::LAYOUT, &VERSION.to_ne_bytes());
            put(bytes, config::ENABLED, &1_u32.to_ne_bytes());
            put(bytes, config::IFINDEX, &ifindex.to_ne_bytes());
            put(bytes, config::GENERATION, &1_u64.to_ne_bytes());
            put(bytes, config::MAC, &mac);
            let none_in_rings = NONE_IN_RING_FLOWS | NONE_IN_RING_LISTENERS | NONE_IN_RING_GROUPS;
            put(bytes, config::NONE, &[NONE_OF_ANY_VLAN | NONE_WITH_SOURCE | none_in_rings]);
        })?;
        self.set_deadline(DEADLINE_DEFAULT)
    }

    /// Calls `visit` with the table, the key and the owner of every entry. Keys are collected first, so that `visit`
    /// may delete them; the loop is bounded by the size of the table, even if it grows meanwhile.
    pub(crate) fn for_each_key(
        &self,
        mut visit: impl FnMut(Table, &[u8], u32) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for table in [Table::Flows, Table::Listeners, Table::Groups] {
            let map = self.maps.of(table);
            let keys: Vec<_> = map.keys().take(map.max_entries() as usize).collect();
            for key in keys {
                if let Some(owner) = self.owner_of(table, &key)? {
                    visit(table, &key, owner)?;
                }
            }
        }
        Ok(())
    }

    fn owner_of(&self, table: Table, key: &[u8]) -> Result<Option<u32>, Problem> {
        let found = self.maps.of(table).lookup(key, MapFlags::ANY);
        let found = found.map_err(|error| Problem::failed(format!("cannot look an entry up in {table:?}"), error))?;
        Ok(found.map(|owner| u32::from_ne_bytes(take::<OWNER_BYTES>(&owner, 0))))
    }

    /// Deletes a key; `false` if it was absent.
    pub(crate) fn delete(&self, table: Table, key: &[u8]) -> Result<bool, Problem> {
        match self.maps.of(table).delete(key) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Problem::failed(format!("cannot remove an entry from {table:?}"), error)),
        }
    }

    fn taken(&self, entry: &MapEntry, owner: StackId) -> Problem {
        let name = self.stack(owner).map_or_else(|_| owner.to_string(), |facts| facts.to_string());
        Problem::failed(format!("cannot steer {entry}"), format!("{name} owns it"))
            .next("end that program or let it close the socket; sidestep ps shows who has what")
    }
}

/// The bits of `none` that must not be set for an entry to be found.
pub(crate) fn kinds_of(entry: &MapEntry) -> u8 {
    match entry {
        MapEntry::Flow(_) => 0,
        MapEntry::Listener(Listener { vlan, .. }) => any_vlan(*vlan),
        MapEntry::Group(Group { vlan, source, .. }) => {
            any_vlan(*vlan) | if source.is_some() { NONE_WITH_SOURCE } else { 0 }
        }
    }
}

fn any_vlan(vlan: VlanMatch) -> u8 {
    if vlan == VlanMatch::Any { NONE_OF_ANY_VLAN } else { 0 }
}

fn insertion_problem(entry: &MapEntry, table: Table, error: &libbpf_rs::Error) -> Problem {
    let what = format!("cannot steer {entry}");
    if error.kind() != ErrorKind::TooBig {
        return Problem::failed(what, error);
    }
    let (most, kind) = match table {
        Table::Flows => (FLOWS_MAX, "flows"),
        Table::Listeners => (LISTENERS_MAX, "listeners"),
        Table::Groups => (GROUPS_MAX, "groups"),
    };
    Problem::failed(what, format!("all {most} {kind} of the interface are taken"))
        .next("leave this one to the kernel, or close others")
}

fn settings_problem(error: &dyn fmt::Display) -> Problem {
    Problem::failed("cannot change the settings of the steering program", error)
        .next("run as root: the maps need CAP_BPF")
}
