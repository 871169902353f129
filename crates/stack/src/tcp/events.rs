//! Events: each change of readiness is told once.

use super::demux::ids::{ConnectionId, ListenerId};
use std::collections::VecDeque;
use std::fmt;
use std::ops::BitOr;

/// Operations that are possible without waiting, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness(pub u8);

impl Readiness {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Data, the end of the stream, an error; at a listener, a connection to accept. `EPOLLIN`
    pub const READABLE: Self = Self(1);
    /// There is room to send, or a send would fail at once. `EPOLLOUT`
    pub const WRITABLE: Self = Self(2);
    /// The peer has finished sending, or reading was shut down, or the connection has ended. `EPOLLRDHUP`
    pub const PEER_CLOSED: Self = Self(4);
    /// Both sides have finished, or the connection has ended. `EPOLLHUP`
    pub const HANGUP: Self = Self(8);
    /// The connection has failed. `EPOLLERR`
    pub const ERROR: Self = Self(16);

    /// Urgent data has come, and is not taken ([`super::Options::urgent_held`]).
    pub const URGENT: Self = Self(32);

    /// Returns whether all of `bits` are set.
    #[inline]
    pub fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// The bits of `self` that `before` has not.
    #[inline]
    pub(crate) fn new_since(self, before: Self) -> bool {
        self.0 & !before.0 != 0
    }
}

impl BitOr for Readiness {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["readable", "writable", "peer-closed", "hangup", "error", "urgent"];
        f.debug_set()
            .entries(names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| name))
            .finish()
    }
}

/// A change. [`super::Tcp::readiness`] gives the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection can do more than when it was last told of, or more data has come.
    Connection(ConnectionId),
    /// A listener has a connection to accept.
    Listener(ListenerId),
}

/// Each connection and listener stands in it at most once, so it is no longer than there are of both. Places are kept, not
/// handles: an event may reach the next user of a place, for which it is spurious.
#[derive(Default)]
pub(crate) struct Events {
    queue: VecDeque<Place>,
    queued: [Vec<bool>; 2],
}

/// The index of a connection or of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Connection(u32),
    Listener(u32),
}

impl Place {
    fn parts(self) -> (usize, usize) {
        match self {
            Self::Connection(index) => (0, index as usize),
            Self::Listener(index) => (1, index as usize),
        }
    }
}

impl Events {
    #[inline]
    pub(crate) fn push(&mut self, place: Place) {
        let (kind, index) = place.parts();
        if self.queued[kind].len() <= index {
            self.queued[kind].resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.queued[kind][index], true) {
            self.queue.push_back(place);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Place> {
        let place = self.queue.pop_front()?;
        let (kind, index) = place.parts();
        self.queued[kind][index] = false;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_in_it_once() {
        let mut events = Events::default();
        for place in [Place::Connection(1), Place::Listener(1), Place::Connection(1)] {
            events.push(place);
        }
        assert_eq!(events.pop(), Some(Place::Connection(1)));
        events.push(Place::Connection(1));
        assert_eq!(events.pop(), Some(Place::Listener(1)));
        assert_eq!(events.pop(), Some(Place::Connection(1)));
        assert_eq!(events.pop(), None);
    }
}
