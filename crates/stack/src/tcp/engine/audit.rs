//! Invariants of the whole between two calls. Only for tests: feature `audit`.

use super::Tcp;
use crate::tcp::Instant;
use crate::tcp::demux::slots::Slot;
use crate::tcp::tcb::audit::rule;

impl Tcp {
    /// Sends every segment through the slow path from now on. The fast path has to send the same.
    pub fn disable_fast_path(&mut self) {
        self.is_fast_path_off = true;
    }

    /// The numbers of segments that took the fast path, of those among them after which something could leave, and of messages.
    pub fn fast_path_counts(&self) -> [u64; 3] {
        self.fast_path_counts
    }

    /// Looks at everything there is and gives the first rule that does not hold. Costs a walk over all connections and all
    /// that they have in flight. `Err`: the rule as it stands in the code, and the values.
    pub fn audit(&self) -> Result<(), String> {
        let (mut open, mut waiting, mut handed_over) = (0, 0, 0);
        for index in 0..self.slots.len() {
            match self.slots.slot(index) {
                Slot::Free => rule!(self.wheel.deadline(index) == Instant::NEVER, "place {index} is free"),
                Slot::TimeWait(left) => {
                    waiting += 1;
                    rule!(self.wheel.deadline(index) != Instant::NEVER, "{}: TIME-WAIT for ever", left.flow);
                    rule!(self.index_of(&left.flow) == Some(index), "{} is not found", left.flow);
                }
                Slot::Frozen(connection) => {
                    open += 1;
                    rule!(self.wheel.deadline(index) == Instant::NEVER, "{connection:?} is out of service");
                    rule!(self.index_of(&connection.flow) == Some(index), "{connection:?} is not found");
                }
                Slot::HandedOver(flow) => {
                    handed_over += 1;
                    rule!(self.wheel.deadline(index) == Instant::NEVER, "{flow} is another TCP's");
                    rule!(self.index_of(flow) == Some(index), "{flow} is not found");
                }
                Slot::Open(connection) => {
                    open += 1;
                    connection.audit()?;
                    rule!(
                        !connection.marks.fast_path() || connection.allows_fast_path(),
                        "{connection:?}: it is not plain"
                    );
                    let earliest = connection.deadlines.earliest();
                    rule!(self.wheel.deadline(index) <= earliest, "{connection:?}: the wheel sleeps");
                    let told = connection.deadlines.told();
                    rule!(self.wheel.deadline(index) == told, "{connection:?}: the wheel was told of {told}");
                    let is_found = self.index_of(&connection.flow) == Some(index);
                    rule!(is_found == connection.marks.in_demux(), "{connection:?} is found: {is_found}");
                    // The list may also have an index of before: a place that has a new user is polled once for nothing.
                    rule!(!connection.marks.is_due() || self.due.has(index), "{connection:?}: due, but not listed");
                    rule!(!connection.is_over(), "{connection:?} is over");
                }
            }
        }
        self.audit_orphans()?;
        let counted = (self.slots.open, self.slots.waiting, self.slots.handed_over);
        rule!((open, waiting, handed_over) == counted, "{open} {waiting} {handed_over}, {counted:?}");
        rule!(waiting <= self.config.time_wait_max, "{waiting} in TIME-WAIT");
        rule!(open <= self.config.connections_max, "{open} connections");
        Ok(())
    }
}
