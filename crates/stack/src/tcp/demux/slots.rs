//! The slots of connections.

use super::ids::ConnectionId;
use crate::tcp::flow::Flow;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::time_wait::TimeWait;

pub(crate) enum Slot {
    Free,
    Open(Box<Connection>),
    /// Nobody holds it: what is left of a connection in TIME-WAIT. Apart, so that a place takes 24 bytes.
    TimeWait(Box<TimeWait>),
    /// Out of service while it is handed over to another TCP.
    Frozen(Box<Connection>),
    /// Another TCP has the connection: its tuple is occupied here.
    HandedOver(Box<Flow>),
}

impl Slot {
    #[inline]
    pub(crate) fn flow(&self) -> Option<&Flow> {
        match self {
            Self::Free => None,
            Self::Open(connection) => Some(&connection.flow),
            Self::TimeWait(waiting) => Some(&waiting.flow),
            Self::Frozen(connection) => Some(&connection.flow),
            Self::HandedOver(flow) => Some(flow),
        }
    }
}

/// The slots. They are reused; the generation distinguishes their users.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<(u32, Slot)>,
    free: Vec<u32>,
    pub(crate) open: u32,
    pub(crate) waiting: u32,
    /// Connections that another TCP has.
    pub(crate) handed_over: u32,
}

impl Slots {
    /// Reserves a place; it is free until [`Slots::open`].
    pub(crate) fn reserve(&mut self) -> ConnectionId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, Slot::Free));
            self.slots.len() as u32 - 1
        });
        ConnectionId { index, generation: self.slots[index as usize].0 }
    }

    pub(crate) fn open(&mut self, connection: Box<Connection>) {
        self.open += 1;
        let index = connection.id.index();
        self.slots[index].1 = Slot::Open(connection);
    }

    /// Puts what is left in the connection's place. Its handle is wrong from now on.
    pub(crate) fn wait(&mut self, index: u32, waiting: TimeWait) {
        self.open -= 1;
        self.waiting += 1;
        let slot = &mut self.slots[index as usize];
        slot.0 = slot.0.wrapping_add(1);
        slot.1 = Slot::TimeWait(Box::new(waiting));
    }

    /// Gives the place back.
    pub(crate) fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        match std::mem::replace(&mut slot.1, Slot::Free) {
            Slot::Open(_) | Slot::Frozen(_) => self.open -= 1,
            Slot::TimeWait(_) => self.waiting -= 1,
            Slot::HandedOver(_) => self.handed_over -= 1,
            Slot::Free => {}
        }
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(index);
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        self.slots.get(index as usize).map_or(&Slot::Free, |slot| &slot.1)
    }

    /// Loads the place's line.
    #[inline]
    pub(crate) fn touch(&self, index: u32) -> u32 {
        self.slots.get(index as usize).map_or(0, |slot| slot.0)
    }

    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<&Connection> {
        match self.slots.get(index as usize) {
            Some((_, Slot::Open(connection))) => Some(connection),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn connection_at(&mut self, index: u32) -> Option<&mut Connection> {
        match self.slots.get_mut(index as usize) {
            Some((_, Slot::Open(connection))) => Some(connection),
            _ => None,
        }
    }

    pub(crate) fn time_wait_at(&mut self, index: u32) -> Option<&mut TimeWait> {
        match self.slots.get_mut(index as usize) {
            Some((_, Slot::TimeWait(waiting))) => Some(waiting),
            _ => None,
        }
    }

    /// The connection of a handle, whether the application holds it or not.
    #[inline]
    pub(crate) fn any(&self, id: ConnectionId) -> Option<&Connection> {
        match self.slots.get(id.index()) {
            Some((generation, Slot::Open(connection))) if *generation == id.generation => Some(connection),
            _ => None,
        }
    }

    /// Returns whether a connection is there in any form: what waits in TIME-WAIT has the generation behind its handle's.
    pub(crate) fn is_there(&self, id: ConnectionId) -> bool {
        match self.slots.get(id.index()) {
            Some((generation, Slot::Open(_) | Slot::Frozen(_) | Slot::HandedOver(_))) => *generation == id.generation,
            Some((generation, Slot::TimeWait(_))) => *generation == id.generation.wrapping_add(1),
            _ => false,
        }
    }

    /// The connection of a handle that the application holds.
    #[inline]
    pub(crate) fn held(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        match self.slots.get_mut(id.index()) {
            Some((generation, Slot::Open(connection)))
                if *generation == id.generation && connection.owner.is_held() =>
            {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Takes an open connection out of service.
    pub(crate) fn freeze(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize].1;
        *slot = match std::mem::replace(slot, Slot::Free) {
            Slot::Open(connection) => Slot::Frozen(connection),
            other => other,
        };
    }

    /// Puts a frozen connection back into service.
    pub(crate) fn thaw(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.frozen(id)?;
        let slot = &mut self.slots[id.index()].1;
        *slot = match std::mem::replace(slot, Slot::Free) {
            Slot::Frozen(connection) => Slot::Open(connection),
            other => other,
        };
        self.connection_at(id.index)
    }

    pub(crate) fn frozen(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        match self.slots.get_mut(id.index()) {
            Some((generation, Slot::Frozen(connection))) if *generation == id.generation => Some(connection),
            _ => None,
        }
    }

    /// Frees a frozen connection; its flow stays.
    pub(crate) fn leave_flow(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize].1;
        if let Slot::Frozen(connection) = slot {
            *slot = Slot::HandedOver(Box::new(connection.flow));
            self.open -= 1;
            self.handed_over += 1;
        }
    }

    /// The flow of a connection that another TCP has.
    pub(crate) fn handed_over(&self, id: ConnectionId) -> Option<Flow> {
        match self.slots.get(id.index()) {
            Some((generation, Slot::HandedOver(flow))) if *generation == id.generation => Some(**flow),
            _ => None,
        }
    }

    /// Places there are, used or not.
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }
}
