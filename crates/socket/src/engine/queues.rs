//! Which queues of the device are ours, and what may come by others.

use super::Engine;
use crate::reason::Reason;
use sidestep_plane::message::{Missing, StackFacts};

/// The queues of a stack, as control has told.
#[derive(Clone, Debug)]
pub(crate) struct OurQueues {
    ours: Box<[u32]>,
    missing: Box<[Missing]>,
    has_others: bool,
}

impl OurQueues {
    pub(super) fn new(facts: &StackFacts) -> Self {
        Self {
            ours: facts.queues.iter().map(|queue| queue.queue).collect(),
            missing: facts.missing.clone().into(),
            has_others: !facts.elsewhere.is_empty(),
        }
    }

    /// Whether a queue is ours.
    pub(crate) fn has(&self, queue: u32) -> bool {
        self.ours.contains(&queue)
    }

    /// Whether the device may bring the answers of a connection by a queue that is not ours: they would be lost to it.
    pub(crate) fn may_miss(&self) -> Result<(), Reason> {
        if self.has_others { Err(Reason::QueueElsewhere) } else { Ok(()) }
    }
}

impl Engine {
    /// The receive queues of the interface that are this engine's; none where nothing goes past the kernel.
    pub fn queues(&self) -> &[u32] {
        self.fast.as_ref().map_or(&[], |fast| &fast.queues.ours)
    }

    /// Queues that were asked for and could not be had, with the reasons.
    pub fn queues_missing(&self) -> &[Missing] {
        self.fast.as_ref().map_or(&[], |fast| &fast.queues.missing)
    }

    /// Whether every queue that the interface receives by is this engine's. Else ports and groups stay with the kernel, as
    /// their packets may come by any of them ([`Reason::QueueElsewhere`]).
    pub fn has_every_queue(&self) -> bool {
        self.fast.as_ref().is_some_and(|fast| !fast.queues.has_others)
    }
}
