//! L3: the orders of a level in time order, as a doubly linked list of slots beside the table of orders.

use super::level::Level;
use super::table::{self, Slot};
use sidestep_sys::memory;
use std::collections::TryReserveError;

/// The neighbours of an order in time.
#[derive(Clone, Copy)]
struct Links {
    before: Slot,
    behind: Slot,
}

/// The links of all slots; empty if only levels are kept.
pub(super) struct Queues {
    links: Vec<Links>,
}

/// The memory for the links of so many orders.
pub(super) fn bytes(orders: u32) -> usize {
    table::slots(orders) * size_of::<Links>()
}

impl Queues {
    /// For a table of so many orders; for 0 nothing is kept.
    pub(super) fn new(orders: u32) -> Result<Self, TryReserveError> {
        let slots = if orders == 0 { 0 } else { table::slots(orders) };
        Ok(Self { links: memory::filled(Links { before: Slot::NONE, behind: Slot::NONE }, slots)? })
    }

    pub(super) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Links>()
    }

    #[inline(always)]
    pub(super) fn are_kept(&self) -> bool {
        !self.links.is_empty()
    }

    /// Puts an order last.
    #[inline]
    pub(super) fn push(&mut self, level: &mut Level, slot: Slot) {
        self.links[slot.0 as usize] = Links { before: level.last, behind: Slot::NONE };
        if level.last == Slot::NONE {
            level.first = slot;
        } else {
            self.links[level.last.0 as usize].behind = slot;
        }
        level.last = slot;
    }

    /// Takes an order out.
    #[inline]
    pub(super) fn unlink(&mut self, level: &mut Level, slot: Slot) {
        let Links { before, behind } = self.links[slot.0 as usize];
        if before == Slot::NONE {
            level.first = behind;
        } else {
            self.links[before.0 as usize].behind = behind;
        }
        if behind == Slot::NONE {
            level.last = before;
        } else {
            self.links[behind.0 as usize].before = before;
        }
    }

    /// The order behind one.
    pub(super) fn behind(&self, slot: Slot) -> Slot {
        self.links.get(slot.0 as usize).map_or(Slot::NONE, |links| links.behind)
    }

    /// The order before one.
    pub(super) fn before(&self, slot: Slot) -> Slot {
        self.links.get(slot.0 as usize).map_or(Slot::NONE, |links| links.before)
    }
}
