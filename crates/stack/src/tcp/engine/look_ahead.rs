//! Looking ahead: what a burst of segments will need in memory is fetched for all of them together, so that the cache misses
//! of one connection overlap with those of the others. Without it each connection's misses wait for those of the one before.
//!
//! Nothing is changed, and nothing but time depends on it: flows that are not there, or that end meanwhile, do no harm. Each pass
//! loads what the next one needs the address of: entries of the demultiplexer, places, connections. Plain loads serve, as a
//! CPU goes on behind a load that nobody waits for.

use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use sidestep_wire::Addresses;
use std::hint::black_box;

/// The most segments of one call; those behind are not looked at. Their connections fit the second level of a CPU's cache.
pub const LOOK_AHEAD_MAX: usize = 64;

/// Numbers of a burst, in its order.
struct Few {
    numbers: [u32; LOOK_AHEAD_MAX],
    count: usize,
}

impl Few {
    #[inline]
    fn of(numbers: impl Iterator<Item = u32>) -> Self {
        let mut few = Self { numbers: [0; LOOK_AHEAD_MAX], count: 0 };
        for (place, number) in few.numbers.iter_mut().zip(numbers) {
            *place = number;
            few.count += 1;
        }
        few
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = u32> {
        self.numbers[..self.count].iter().copied()
    }
}

impl Tcp {
    /// Fetches into the cache what [`Tcp::receive`] needs for these segments: the addresses of their IP header, our port, the
    /// peer's port. For a burst; a single segment gains nothing.
    #[inline]
    pub fn look_ahead(&self, segments: impl Iterator<Item = (Addresses, u16, u16)>) {
        let hash = |(addresses, local_port, remote_port): (Addresses, u16, u16)| {
            self.demux.hash_and_touch(&addresses, local_port, remote_port)
        };
        let hashes = Few::of(segments.map(hash));
        self.touch(&Few::of(hashes.iter().filter_map(|hash| self.demux.first_with(hash))));
    }

    /// Fetches into the cache what [`Tcp::send`] needs for these connections, before a message is sent on each of them.
    #[inline]
    pub fn look_ahead_to_send(&self, connections: impl Iterator<Item = ConnectionId>) {
        self.touch(&Few::of(connections.map(|id| id.index)));
    }

    #[inline]
    fn touch(&self, places: &Few) {
        places.iter().for_each(|index| _ = black_box(self.slots.touch(index)));
        for index in places.iter() {
            if let Some(connection) = self.slots.peek(index) {
                black_box(connection.touch());
            }
        }
        for index in places.iter() {
            if let Some(connection) = self.slots.peek(index) {
                black_box(connection.touch_behind());
            }
        }
    }
}
