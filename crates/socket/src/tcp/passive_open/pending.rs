//! The state of listeners that wait for a steering rule.

use crate::control_agent::Answer;
use crate::reason::Reason;
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::ListenerId;

/// A rule that control was asked for.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) id: ListenerId,
    pub(crate) entry: Entry,
    pub(crate) answer: Answer,
}

/// True if listeners wait for something, and until when.
#[derive(Debug, Default)]
pub(crate) struct Reacceleration {
    /// Control has been asked for so many rules.
    pub(crate) asked: usize,
    /// Listeners wait for the end of the kernel's connections.
    pub(crate) are_waiting: bool,
    /// The time of the next attempt: CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) pause_ns: u64,
    /// Listeners drop SYNs until rules of their connections stand.
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

    /// Control was asked for a rule, and its answer is still to come.
    pub(crate) fn await_answer(&mut self) {
        self.asked += 1;
    }

    /// The stack that was asked for is no more.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
