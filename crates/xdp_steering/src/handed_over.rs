//! Flows whose connection is handed over to the kernel: their segments are the kernel's as soon as it has the connection, and then
//! pass, whoever owns the port.

use libbpf_rs::{MapCore, MapFlags};
use sidestep_sys::Problem;

use crate::entry::{Flow, Key, MapEntry, Table, entry_of};
use crate::layout::{OWNER_BYTES, OWNER_KERNEL, SHARED, take};
use crate::stack_id::StackId;
use crate::tables::Tables;

impl Tables {
    /// Has each segment of a flow looked up among the kernel's sockets: the kernel gets it if it has the connection, else the
    /// stack, whoever had the flow.
    pub fn share(&self, stack: StackId, flow: Flow) -> Result<(), Problem> {
        self.stack(stack)?;
        self.set_flow(flow, stack.number() | SHARED)
    }

    /// Gives a flow to the kernel, whoever has it: from the next segment on.
    pub fn pass(&self, flow: Flow) -> Result<(), Problem> {
        self.set_flow(flow, OWNER_KERNEL)
    }

    /// Ends either of them; `false` if the flow is neither. One that is shared is its stack's, as it may never have become the
    /// kernel's.
    pub fn unpass(&self, flow: Flow) -> Result<bool, Problem> {
        let entry = MapEntry::from(flow);
        let key = Key::from(&entry);
        match self.flow_owner(&entry)? {
            Some(OWNER_KERNEL) => self.delete(key.table(), key.bytes()),
            Some(owner) if owner & SHARED != 0 => self.set_flow(flow, owner & !SHARED).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The flows that the kernel has, or has as soon as it has their connection, in no order.
    pub fn passed(&self) -> Result<Vec<Flow>, Problem> {
        let mut flows = Vec::new();
        self.for_each_key(|table, key, owner| {
            if let (true, Some(MapEntry::Flow(flow))) = (owner & SHARED != 0, entry_of(table, key)) {
                flows.push(flow);
            }
            Ok(())
        })?;
        Ok(flows)
    }

    /// Gives the shared flows of stacks that end to the kernel.
    pub(crate) fn pass_shared(&self, is_doomed: impl Fn(u32) -> bool) -> Result<(), Problem> {
        self.for_each_key(|table, key, owner| match entry_of(table, key) {
            Some(MapEntry::Flow(flow)) if is_shared(owner) && is_doomed(owner & !SHARED) => self.pass(flow),
            _ => Ok(()),
        })
    }

    /// Returns whether a flow is the kernel's, or shared with it.
    pub(crate) fn is_kernels(&self, entry: &MapEntry) -> Result<bool, Problem> {
        Ok(Key::from(entry).table() == Table::Flows && self.flow_owner(entry)?.is_some_and(|owner| owner & SHARED != 0))
    }

    fn flow_owner(&self, entry: &MapEntry) -> Result<Option<u32>, Problem> {
        let key = Key::from(entry);
        let found = self.maps.of(key.table()).lookup(key.bytes(), MapFlags::ANY);
        let found = found.map_err(|error| Problem::failed(format!("cannot look {entry} up"), error))?;
        Ok(found.map(|owner| u32::from_ne_bytes(take::<OWNER_BYTES>(&owner, 0))))
    }

    fn set_flow(&self, flow: Flow, owner: u32) -> Result<(), Problem> {
        let entry = MapEntry::from(flow);
        entry.check()?;
        let key = Key::from(&entry);
        let set = self.maps.of(key.table()).update(key.bytes(), &owner.to_ne_bytes(), MapFlags::ANY);
        set.map_err(|error| {
            Problem::failed(format!("cannot give {entry} to the kernel"), error)
                .next("close connections that are not needed")
        })
    }
}

fn is_shared(owner: u32) -> bool {
    owner != OWNER_KERNEL && owner & SHARED != 0
}
