//! Reserved TCP ports: local ports of outgoing connections, which control holds in the kernel for a stack. All segments
//! to one are the stack's, so that a new connection needs no entry of its own.

use std::sync::atomic::Ordering::Relaxed;

use sidestep_sys::Problem;

use crate::layout::{PORTS, port_owner, put, take};
use crate::stack_id::StackId;
use crate::tables::Tables;

impl Tables {
    /// Assigns ports to a stack that are not used by kernel sockets. Assigning one again only clears its kernel mark. A
    /// port of another stack is refused with that stack's name, and nothing changes.
    pub fn add_ports(&self, stack: StackId, ports: &[u16]) -> Result<(), Problem> {
        self.stack(stack)?;
        for port in ports {
            if let Some(owner) = self.port_owner(*port).filter(|owner| *owner != stack) {
                let name = self.stack(owner).map_or_else(|_| owner.to_string(), |facts| facts.to_string());
                return Err(Problem::failed(format!("cannot steer port {port}"), format!("{name} has it")));
            }
        }
        ports.iter().for_each(|port| self.set_port(*port, Some(stack)));
        Ok(())
    }

    /// Has every segment to a port of a stack looked up among the kernel's sockets: the kernel has a connection of it. It ends
    /// when the port is assigned again.
    pub fn share_port(&self, stack: StackId, port: u16) -> Result<(), Problem> {
        if self.port_owner(port) != Some(stack) {
            return Err(Problem::failed(format!("cannot share port {port}"), format!("{stack} does not have it")));
        }
        let mut row = self.row(port);
        put(&mut row, port_owner::IS_SHARED, &1_u32.to_ne_bytes());
        self.write_row_of_port(port, row);
        Ok(())
    }

    /// Removes ports of a stack. Those of another stack stay.
    pub fn remove_ports(&self, stack: StackId, ports: &[u16]) {
        let own = ports.iter().filter(|port| self.port_owner(**port) == Some(stack));
        own.for_each(|port| self.set_port(*port, None));
    }

    /// The stack for which a port is reserved.
    pub(crate) fn port_owner(&self, port: u16) -> Option<StackId> {
        self.owner_number(port).and_then(StackId::from_number)
    }

    /// All ports that are reserved for a stack, in order.
    pub fn ports_of(&self, stack: StackId) -> Vec<u16> {
        all_ports().filter(|port| self.port_owner(*port) == Some(stack)).collect()
    }

    /// Removes the ports of stacks that no longer exist; returns their number.
    pub(crate) fn sweep_ports(&self, is_doomed: impl Fn(u32) -> bool) -> u32 {
        let doomed = all_ports().filter(|port| self.owner_number(*port).is_some_and(&is_doomed));
        doomed.map(|port| self.set_port(port, None)).count() as u32
    }

    /// Returns whether the kernel has had a socket on the port since it was assigned: the program has seen a segment
    /// for one, or a connection was handed over.
    pub fn is_shared(&self, port: u16) -> bool {
        take::<4>(&self.row(port), port_owner::IS_SHARED) != [0; 4]
    }

    fn owner_number(&self, port: u16) -> Option<u32> {
        u32::from_ne_bytes(take(&self.row(port), port_owner::STACK_PLUS_ONE)).checked_sub(1)
    }

    fn row(&self, port: u16) -> [u8; port_owner::BYTES] {
        self.maps.port_words.word(usize::from(port)).load(Relaxed).to_ne_bytes()
    }

    fn set_port(&self, port: u16, owner: Option<StackId>) {
        let mut row = [0; port_owner::BYTES];
        put(&mut row, port_owner::STACK_PLUS_ONE, &owner.map_or(0, |stack| stack.number() + 1).to_ne_bytes());
        self.write_row_of_port(port, row);
    }

    fn write_row_of_port(&self, port: u16, row: [u8; port_owner::BYTES]) {
        self.maps.port_words.word(usize::from(port)).store(u64::from_ne_bytes(row), Relaxed);
    }
}

fn all_ports() -> impl Iterator<Item = u16> {
    (0..PORTS).map(|port| port as u16)
}
