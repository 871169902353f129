//! The sockets under one key: nearly always one, then without a further step in memory.

use super::SocketId;

/// One socket of a key, with what decides between several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) socket: SocketId,
    /// The interface it is bound to; 0 for any.
    pub(super) interface: u32,
    pub(super) shares_port: bool,
}

impl Entry {
    #[inline]
    fn hears(&self, interface: u32) -> bool {
        self.interface == 0 || self.interface == interface
    }
}

#[derive(Clone, Debug)]
pub(super) enum Chain {
    One(Entry),
    /// In the order in which they were bound.
    Many(Vec<Entry>),
}

impl Chain {
    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(entries) => entries,
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        match self {
            Self::One(first) => *self = Self::Many(vec![*first, entry]),
            Self::Many(entries) => entries.push(entry),
        }
    }

    /// Takes a socket out; true if none is left.
    pub(super) fn remove(&mut self, socket: SocketId) -> bool {
        match self {
            Self::One(entry) => entry.socket == socket,
            Self::Many(entries) => {
                entries.retain(|entry| entry.socket != socket);
                entries.is_empty()
            }
        }
    }

    /// The sockets that hear an interface.
    #[inline]
    pub(super) fn hearing(&self, interface: u32) -> impl Iterator<Item = SocketId> {
        self.entries().iter().filter(move |entry| entry.hears(interface)).map(|entry| entry.socket)
    }

    /// The one that gets a datagram for one: bound to the interface before bound to any; among those the last, or if that
    /// shares its port, one of all that do, by the flow's hash.
    #[inline]
    pub(super) fn choose(&self, interface: u32, flow_hash: impl FnOnce() -> u64) -> Option<SocketId> {
        match self {
            Self::One(entry) => entry.hears(interface).then_some(entry.socket),
            Self::Many(entries) => choose_of_many(entries, interface, flow_hash),
        }
    }
}

fn choose_of_many(entries: &[Entry], interface: u32, flow_hash: impl FnOnce() -> u64) -> Option<SocketId> {
    let best = entries.iter().filter(|entry| entry.hears(interface)).max_by_key(|entry| entry.interface != 0)?;
    if !best.shares_port {
        return Some(best.socket);
    }
    let sharing = || entries.iter().filter(|entry| entry.shares_port && entry.interface == best.interface);
    let place = flow_hash() % sharing().count().max(1) as u64;
    sharing().nth(place as usize).map(|entry| entry.socket)
}
