//! Datagrams that reached this host and were dropped before the program saw them.

use sidestep_socket::{Engine, Handle};
use sidestep_sys::socket;

/// Datagrams of a line that this host has dropped since the line was joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// By the kernel, as the buffer of the line's socket was full ([`LineOptions::receive_buffer`](crate::LineOptions::receive_buffer)).
    pub socket: u64,
    /// By the engine, as the line's queue was full: past the kernel, too.
    pub queue: u64,
    /// By the kernel, as the rings of the line's interface were full or without frames ([`LineOptions::frames`](crate::LineOptions::frames)):
    /// frames of all lines of this interface, whose own nobody can tell.
    pub interface: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.socket + self.queue + self.interface
    }

    /// Those that are known to be the line's own.
    pub fn own(&self) -> u64 {
        self.socket + self.queue
    }
}

/// A counter that may begin again, as that of a link that is opened anew, or wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    total: u64,
    last: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, now: u64) -> u64 {
        self.total += now.checked_sub(self.last).unwrap_or(now);
        self.last = now;
        self.total
    }
}

/// What is dropped of a socket by the kernel, and of its engine's interface; 0 if it cannot be known.
pub(crate) fn read(engine: &Engine, handle: Handle) -> [u64; 2] {
    let twin = engine.twin(handle).ok().and_then(|twin| socket::drops(twin).ok());
    [u64::from(twin.unwrap_or(0)), engine.dropped_by_kernel()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_begins_again_is_added_to_what_was_before() {
        let mut tally = Tally::default();
        assert_eq!([5, 5, 9, 2, 3].map(|now| tally.add(now)), [5, 5, 9, 11, 12]);
    }
}
