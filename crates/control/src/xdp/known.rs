//! Queues without a stack that may still be taken: the time for which each is tried.

use sidestep_control_api::message::{Code, Refusal};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time for which a queue is tried whose stack was just closed. The kernel releases a closed socket's queue a
/// little later (RCU).
const PATIENCE: Duration = Duration::from_secs(1);
/// The time for one of many queues, and for a queue that a program without a stack may just have closed. Together with
/// [`BUSY_REST`] it bounds the delay that a holder of a socket's copy can cause to all others: a tenth of the time.
const PATIENCE_ANY: Duration = Duration::from_millis(200);
/// The time for which a queue counts as just closed.
const CLOSED_LATELY: Duration = Duration::from_secs(2);
/// The time for which a queue held by a stranger is not tried again: finding the holder takes a search of /proc.
const BUSY_REST: Duration = Duration::from_secs(2);
/// Facts about queues without a stack, by interface and number. Bounded by their number.
#[derive(Default)]
pub(super) struct Known(BTreeMap<(u32, u32), (Instant, State)>);

enum State {
    /// Its stack was closed at that time.
    Closed,
    /// It was held by a stranger.
    Busy(Refusal),
}

impl Known {
    /// Records that the stack of a queue was closed.
    pub(super) fn close(&mut self, interface: u32, queue: u32) {
        self.0.insert((interface, queue), (Instant::now(), State::Closed));
    }

    /// Removes an interface.
    pub(super) fn forget(&mut self, interface: u32) {
        self.0.retain(|(index, _), _| *index != interface);
    }

    /// The time for which to try a queue, or the reason not to.
    pub(super) fn patience(
        &self,
        interface: u32,
        queue: u32,
        is_one_of_many: bool,
        now: Instant,
    ) -> Result<Duration, Refusal> {
        match self.0.get(&(interface, queue)) {
            Some((at, State::Busy(refusal))) if now.duration_since(*at) < BUSY_REST => Err(refusal.clone()),
            Some((at, State::Closed)) if now.duration_since(*at) < CLOSED_LATELY => {
                Ok(if is_one_of_many { PATIENCE_ANY } else { PATIENCE })
            }
            _ => Ok(PATIENCE_ANY),
        }
    }

    pub(super) fn note(&mut self, interface: u32, queue: u32, result: Option<&Refusal>) {
        match result {
            Some(refusal) if refusal.code == Code::QueueBusy => {
                self.0.insert((interface, queue), (Instant::now(), State::Busy(refusal.clone())));
            }
            _ => _ = self.0.remove(&(interface, queue)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_waited_for_longer_after_its_stack_was_closed() {
        let mut queues = Known::default();
        let now = Instant::now();
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE_ANY));
        queues.close(2, 0);
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE));
        assert_eq!(queues.patience(2, 0, true, now), Ok(PATIENCE_ANY));
        assert_eq!(queues.patience(2, 1, false, now), Ok(PATIENCE_ANY), "another queue");
        // A copy of the socket is still open: from now on the queue is refused without a try, for a while.
        let busy = Refusal::plain(Code::QueueBusy, "cannot open a stack on eth1");
        queues.note(2, 0, Some(&busy));
        assert_eq!(queues.patience(2, 0, false, now), Err(busy));
        assert_eq!(queues.patience(2, 0, false, now + 2 * BUSY_REST), Ok(PATIENCE_ANY));
        queues.note(2, 0, None);
        assert_eq!(queues.patience(2, 0, false, now), Ok(PATIENCE_ANY));
    }
}
