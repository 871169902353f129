//! Handles of connections and listeners.

/// A handle of a connection. It stays wrong for ever once the connection is closed, also when its place is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// A small number that no other open connection has: an index for the caller's own table.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// A handle of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ListenerId {
    /// A small number that no other open listener has.
    pub fn index(self) -> usize {
        self.index as usize
    }
}
