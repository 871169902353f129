//! Closed connections whose data is not all acknowledged: nobody holds them, so they are bounded in number and memory (Linux
//! tcp_max_orphans, tcp_mem), and what is lost with them is counted.

use super::Tcp;
use crate::tcp::counters::Counter;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::demux::slots::Slots;
use crate::tcp::error::Error;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use std::collections::VecDeque;

/// The least length of the list at which those that are over are removed.
const PLACES_MIN: usize = 64;

/// All of them.
#[derive(Default)]
pub(crate) struct Orphans {
    /// In the order in which they were closed; those that are over go when they are come upon.
    order: VecDeque<ConnectionId>,
    count: u32,
    bytes: u64,
}

impl Orphans {
    fn add(&mut self, id: ConnectionId, bytes: u32, slots: &Slots) {
        if self.order.len() >= PLACES_MIN.max(2 * self.count as usize) {
            self.order.retain(|&id| is_orphan(slots, id));
        }
        self.order.push_back(id);
        self.count += 1;
        self.bytes += u64::from(bytes);
    }

    fn remove(&mut self, bytes: u32) {
        self.count -= 1;
        self.bytes -= u64::from(bytes);
    }

    fn oldest(&mut self, slots: &Slots) -> Option<ConnectionId> {
        while self.order.front().is_some_and(|&id| !is_orphan(slots, id)) {
            self.order.pop_front();
        }
        self.order.front().copied()
    }
}

fn is_orphan(slots: &Slots, id: ConnectionId) -> bool {
    slots.any(id).is_some_and(|connection| connection.owner.orphan_bytes() != 0)
}

impl Tcp {
    /// Closed connections whose data is not all acknowledged, and the memory that they hold, bytes.
    pub fn orphans(&self) -> (u32, u64) {
        (self.orphans.count, self.orphans.bytes)
    }

    /// Takes up what was closed, if it is not over with that; then the oldest go, as long as there are too many. The one that
    /// was closed last stays.
    pub(crate) fn add_orphan(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) {
        let Some(connection) = self.slots.connection_at(id.index).filter(|own| own.id == id && own.owner.is_orphan())
        else {
            return;
        };
        connection.rcv.shrink();
        connection.snd.shrink();
        if connection.snd.is_fin_acknowledged() {
            return;
        }
        let held = connection.snd.buffer().memory_bytes() + connection.rcv.buffer().memory_bytes();
        let bytes = u32::try_from(held + size_of_val(connection)).unwrap_or(u32::MAX);
        connection.owner.set_orphan_bytes(bytes);
        self.orphans.add(id, bytes, &self.slots);
        while self.orphans.count > 1 && self.has_too_many_orphans() {
            let Some(oldest) = self.orphans.oldest(&self.slots) else { break };
            self.counters.count(Counter::OrphansDropped);
            self.drop_orphan(now, oldest, output);
        }
    }

    /// The same connections, by their handles, the oldest first.
    pub fn orphan_ids(&self) -> Vec<ConnectionId> {
        self.orphans.order.iter().copied().filter(|&id| is_orphan(&self.slots, id)).collect()
    }

    fn has_too_many_orphans(&self) -> bool {
        let Orphans { count, bytes, .. } = self.orphans;
        count > self.config.orphans_max || bytes > u64::from(self.config.orphan_bytes_max)
    }

    /// The peer is told (Linux tcp_out_of_resources).
    fn drop_orphan(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) {
        self.step(now, id.index, output, |connection, cx| {
            connection.send_reset(cx);
            connection.fail(Error::Aborted);
        });
    }

    /// Resets all of them: there is no time to wait for their peers. What is lost with that is counted
    /// ([`Counter::LostStreams`], [`Counter::LostBytes`]).
    pub fn drop_orphans(&mut self, now: Instant, output: &mut dyn Output) {
        while let Some(oldest) = self.orphans.oldest(&self.slots) {
            self.drop_orphan(now, oldest, output);
        }
    }

    /// The connection at `index` has ended, or the peer has acknowledged all of it, so that nothing can be lost any more.
    #[cold]
    pub(crate) fn release_orphan(&mut self, index: u32) {
        let Some(connection) = self.slots.connection_at(index) else { return };
        self.orphans.remove(connection.owner.take_orphan_bytes());
        connection.snd.shrink();
        let lost = connection.owner.take_lost_bytes();
        if lost > 0 {
            self.counters.count(Counter::LostStreams);
            self.counters.count_many(Counter::LostBytes, u64::from(lost));
        }
    }

    /// A closed connection leaves that another TCP goes on with.
    pub(crate) fn release_orphan_bytes(&mut self, bytes: u32) {
        self.orphans.remove(bytes);
    }

    /// The sums are those of the connections.
    #[cfg(feature = "audit")]
    pub(crate) fn audit_orphans(&self) -> Result<(), String> {
        let each = (0..self.slots.len()).filter_map(|index| match self.slots.slot(index) {
            crate::tcp::demux::slots::Slot::Open(connection) | crate::tcp::demux::slots::Slot::Frozen(connection) => {
                Some(u64::from(connection.owner.orphan_bytes()))
            }
            _ => None,
        });
        let found = each.filter(|bytes| *bytes > 0).fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        let listed = self.orphans.order.iter().filter(|&&id| is_orphan(&self.slots, id)).count();
        crate::tcp::tcb::audit::rule!(found == self.orphans(), "{found:?} {:?}", self.orphans());
        crate::tcp::tcb::audit::rule!(listed == found.0 as usize, "{listed} of {found:?} are listed");
        Ok(())
    }
}
