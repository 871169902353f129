//! The state of listeners that wait for a steering entry.

use crate::control_agent::Answer;
use crate::reason::Reason;
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::ListenerId;

/// A steering entry that control was asked for.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) id: ListenerId,
    pub(crate) entry: Entry,
    pub(crate) answer: Answer,
}

/// True if listeners wait for something, and until when.
#[derive(Debug, Default)]
pub(crate) struct Reacceleration {
    /// The number of requests to control.
    pub(crate) asked: usize,
    /// Listeners wait for the end of the kernel's connections.
    pub(crate) are_waiting: bool,
    /// The time of the next attempt: CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) pause_ns: u64,
    /// Listeners that drop SYNs until the entries of their connections stand.
    pub(crate) drop_syns: bool,
}

impl Reacceleration {
    /// A listener was refused.
    pub(crate) fn note(&mut self, detour: Option<Reason>) {
        self.are_waiting |= detour == Some(Reason::KernelConnections);
    }

    /// A connection of the kernel's has ended: the next attempt is made at once.
    pub(crate) fn hasten(&mut self) {
        if self.at_ns != 0 {
            (self.at_ns, self.pause_ns) = (1, 0);
        }
    }

    /// Records a request that control has not answered.
    pub(crate) fn await_answer(&mut self) {
        self.asked += 1;
    }

    /// The stack that was asked for is no more.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
