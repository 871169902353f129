//! The table of live orders: slots that are used again, in queues by links.

use crate::units::Side;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// An order as its owner names it: where it stands, and the reference that proves that it is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    slot: u32,
    /// The order reference, as ITCH publishes it.
    pub reference: u64,
}

impl Handle {
    pub(super) fn new(slot: u32, reference: u64) -> Self {
        Self { slot, reference }
    }

    pub(super) fn slot(self) -> u32 {
        self.slot
    }
}

/// An order that rests.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// The order reference of ITCH; 0 in a slot that is free.
    pub reference: u64,
    /// Whoever entered it, as [`super::Enter::owner`] had it.
    pub owner: u64,
    /// Shares that are left.
    pub shares: u32,
    /// The limit, four decimals.
    pub price: u32,
    /// The next order of its queue, or of the free slots.
    pub(super) next: u32,
    pub(super) previous: u32,
    /// The market participant that is published with it.
    pub attribution: [u8; 4],
    /// Its instrument.
    pub locate: u16,
    /// Its side.
    pub side: Side,
    /// True if the feed shows it.
    pub is_displayed: bool,
}

/// Orders of one price in the order of their priority.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    pub(super) head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// All live orders. Its memory is reserved once.
#[derive(Debug)]
pub(super) struct Orders {
    slots: Vec<Order>,
    free: u32,
    live: usize,
    limit: usize,
}

impl Orders {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.min(NONE as usize);
        Self { slots: Vec::with_capacity(limit), free: NONE, live: 0, limit }
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn is_full(&self) -> bool {
        self.live == self.limit
    }

    /// Puts an order in a free slot. The caller has checked that one is free.
    pub(super) fn insert(&mut self, order: Order) -> u32 {
        self.live += 1;
        if self.free == NONE {
            self.slots.push(order);
            return (self.slots.len() - 1) as u32;
        }
        let slot = self.free;
        self.free = self.slots[slot as usize].next;
        self.slots[slot as usize] = order;
        slot
    }

    /// Frees the slot of an order that is in no queue.
    pub(super) fn remove(&mut self, slot: u32) {
        let order = &mut self.slots[slot as usize];
        order.reference = 0;
        order.next = self.free;
        self.free = slot;
        self.live -= 1;
    }

    /// The order of a handle, unless it is gone.
    pub(super) fn find(&self, handle: Handle) -> Option<&Order> {
        self.slots
            .get(handle.slot as usize)
            .filter(|order| order.reference == handle.reference && handle.reference != 0)
    }

    pub(super) fn at(&self, slot: u32) -> &Order {
        &self.slots[slot as usize]
    }

    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Order {
        &mut self.slots[slot as usize]
    }

    pub(super) fn push_back(&mut self, queue: &mut Queue, slot: u32) {
        let order = self.at_mut(slot);
        (order.next, order.previous) = (NONE, queue.tail);
        match queue.tail {
            NONE => queue.head = slot,
            tail => self.at_mut(tail).next = slot,
        }
        queue.tail = slot;
    }

    pub(super) fn unlink(&mut self, queue: &mut Queue, slot: u32) {
        let Order { next, previous, .. } = *self.at(slot);
        match previous {
            NONE => queue.head = next,
            previous => self.at_mut(previous).next = next,
        }
        match next {
            NONE => queue.tail = previous,
            next => self.at_mut(next).previous = previous,
        }
    }

    /// The orders of a queue, by priority.
    pub(super) fn queue(&self, queue: Queue) -> impl Iterator<Item = (u32, &Order)> {
        let mut slot = queue.head;
        std::iter::from_fn(move || {
            let found = (slot != NONE).then(|| (slot, self.at(slot)))?;
            slot = found.1.next;
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(reference: u64) -> Order {
        Order {
            reference,
            owner: 0,
            shares: 1,
            price: 1,
            next: NONE,
            previous: NONE,
            attribution: [0; 4],
            locate: 1,
            side: Side::Buy,
            is_displayed: true,
        }
    }

    #[test]
    fn a_slot_that_is_used_again_does_not_answer_to_the_old_handle() {
        let mut orders = Orders::new(1);
        let first = Handle::new(orders.insert(order(1)), 1);
        assert!(orders.is_full() && orders.find(first).is_some());
        orders.remove(first.slot());
        assert!(orders.find(first).is_none() && orders.find(Handle::new(first.slot(), 0)).is_none());
        let second = Handle::new(orders.insert(order(2)), 2);
        assert_eq!(second.slot(), first.slot());
        assert!(orders.find(first).is_none() && orders.find(second).is_some());
    }

    #[test]
    fn a_queue_keeps_its_order_whoever_leaves() {
        for leaves in 0..3 {
            let mut orders = Orders::new(3);
            let mut queue = Queue::EMPTY;
            for reference in 1..=3 {
                let slot = orders.insert(order(reference));
                orders.push_back(&mut queue, slot);
            }
            orders.unlink(&mut queue, leaves);
            let left: Vec<u64> = orders.queue(queue).map(|(_, order)| order.reference).collect();
            let expected: Vec<u64> = (1..=3).filter(|reference| *reference != u64::from(leaves) + 1).collect();
            assert_eq!(left, expected);
        }
    }
}
