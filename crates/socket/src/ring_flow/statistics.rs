//! The counters of a flow.

/// The reason why a message of a ring was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A checksum is wrong.
    Checksum,
    /// It is no datagram or segment.
    Malformed,
}

/// The counters of one receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Packets delivered.
    pub packets: u64,
    /// Packets that were overwritten before this reader came to them: exact.
    pub lost: u64,
    /// Bytes of their messages.
    pub lost_bytes: u64,
}

/// The counters of a flow, from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Those of each receive queue, in their order.
    pub queues: Vec<QueueStatistics>,
    /// Packets delivered by kernel sockets.
    pub by_kernel: u64,
    /// Packets that were skipped because a checksum was wrong.
    pub bad_checksums: u64,
    /// Messages that were skipped because they were no datagram or segment.
    pub malformed: u64,
    /// Changes from the rings to kernel sockets. At each of them packets may have come twice or not at all.
    pub fallbacks: u64,
}

/// The most queues that are counted: more than any device has.
const QUEUES_MAX: usize = 4096;

impl Statistics {
    /// Packets delivered, by rings and by kernel sockets.
    pub fn packets(&self) -> u64 {
        self.queues.iter().map(|queue| queue.packets).sum::<u64>() + self.by_kernel
    }

    /// Packets of all queues that were overwritten before this reader came to them.
    pub fn lost(&self) -> u64 {
        self.queues.iter().map(|queue| queue.lost).sum()
    }

    /// The counters of a queue.
    pub(super) fn queue(&mut self, queue: u32) -> &mut QueueStatistics {
        let at = (queue as usize).min(QUEUES_MAX - 1);
        if at >= self.queues.len() {
            self.queues.resize(at + 1, QueueStatistics::default());
        }
        &mut self.queues[at]
    }

    pub(super) fn count(&mut self, refused: Refused) {
        match refused {
            Refused::Checksum => self.bad_checksums += 1,
            Refused::Malformed => self.malformed += 1,
        }
    }
}
