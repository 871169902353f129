//! Events that are not fetched yet, and fetched ones that may still be read.

use super::{FIX_CANCEL, FIX_LOGON, FIX_LOGOUT, FIX_MESSAGE, FIX_PROBLEM, FIX_RESET, FIX_ROOM};
use sidestep_fix::decode::Message;
use sidestep_fix::session::{Application, BusinessReason, End, Outbox, Refusal, SessionId};
use sidestep_sys::Problem;
use std::collections::VecDeque;

/// The most bytes of waiting events: beyond, polling is refused until they are fetched.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// The number of bytes at which messages are refused within a poll, so that one poll stays bounded, too.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// One event. Its bytes are its own: they do not move while others come.
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) session: SessionId,
    pub(super) sequence: u64,
    pub(super) bytes: Box<[u8]>,
}

/// The queue of events for the program.
#[derive(Default)]
pub(super) struct Queue {
    events: VecDeque<Event>,
    /// Fetched since the last poll: the program may still read their bytes, also while it sends.
    fetched: Vec<Event>,
    /// The number of bytes of waiting events.
    waiting_bytes: usize,
}

impl Queue {
    /// Begins a poll: fetched events are not read any more. Returns `false` if too much waits to be fetched.
    pub(super) fn begin_poll(&mut self) -> bool {
        self.fetched.clear();
        self.waiting_bytes < WAITING_BYTES_MAX
    }

    /// The next event, which stays until the next poll.
    pub(super) fn fetch(&mut self) -> Option<&Event> {
        let next = self.events.pop_front()?;
        self.waiting_bytes -= next.bytes.len();
        self.fetched.push(next);
        self.fetched.last()
    }

    fn push(&mut self, kind: u32, session: &SessionId, sequence: u64, bytes: &[u8]) {
        self.waiting_bytes += bytes.len();
        self.events.push_back(Event { kind, session: session.clone(), sequence, bytes: bytes.into() });
    }
}

impl Application for Queue {
    fn on_logon(&mut self, out: &mut dyn Outbox) {
        let id = out.id().clone();
        self.push(FIX_LOGON, &id, 0, b"");
    }

    fn on_room(&mut self, out: &mut dyn Outbox) {
        let id = out.id().clone();
        self.push(FIX_ROOM, &id, 0, b"");
    }

    fn on_logout(&mut self, id: &SessionId, why: End) {
        self.push(FIX_LOGOUT, id, 0, why.to_string().as_bytes());
    }

    fn on_reset(&mut self, id: &SessionId) {
        self.push(FIX_RESET, id, 0, b"");
    }

    fn on_cancel(&mut self, id: &SessionId) {
        self.push(FIX_CANCEL, id, 0, b"");
    }

    fn on_problem(&mut self, id: &SessionId, problem: &Problem) {
        self.push(FIX_PROBLEM, id, 0, problem.to_string().as_bytes());
    }

    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        if self.waiting_bytes >= EVENT_BYTES_MAX {
            return Err(Refusal::Business { reason: BusinessReason::ApplicationNotAvailable, text: None });
        }
        let sequence = message.seq_num()?;
        self.push(FIX_MESSAGE, out.id(), sequence, message.raw());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SessionId {
        SessionId::new("FIX.4.4", "A", "B")
    }

    #[test]
    fn what_was_fetched_stays_in_its_place_until_the_next_poll() {
        let mut queue = Queue::default();
        queue.push(FIX_MESSAGE, &id(), 7, b"a message");
        let place = queue.fetch().unwrap().bytes.as_ptr();
        for number in 0..1000 {
            // A possible event of a send: the connection has just ended.
            queue.on_logout(&id(), End::Disconnected);
            if number % 3 == 0 {
                queue.fetch().unwrap();
            }
        }
        let first = &queue.fetched[0];
        assert_eq!((first.bytes.as_ptr(), &first.bytes[..]), (place, &b"a message"[..]));
        assert!(queue.begin_poll());
        assert!(queue.fetched.is_empty());
    }

    #[test]
    fn a_program_that_always_leaves_one_event_behind_may_go_on_polling() {
        let mut queue = Queue::default();
        let message = vec![b'x'; 100 << 10];
        queue.push(FIX_MESSAGE, &id(), 1, &message);
        for sequence in 2..=100 {
            assert!(queue.begin_poll(), "{sequence}: what was fetched does not count");
            queue.push(FIX_MESSAGE, &id(), sequence, &message);
            assert_eq!(queue.fetch().map(|event| event.sequence), Some(sequence - 1));
        }
    }

    #[test]
    fn polling_is_refused_until_what_waits_is_fetched() {
        let mut queue = Queue::default();
        queue.push(FIX_MESSAGE, &id(), 1, &vec![b'x'; WAITING_BYTES_MAX]);
        assert!(!queue.begin_poll());
        assert!(queue.fetch().is_some());
        assert!(queue.begin_poll() && queue.fetch().is_none());
    }

    #[test]
    fn orders_to_be_cancelled_are_told_of() {
        let mut queue = Queue::default();
        queue.on_cancel(&id());
        assert_eq!(queue.fetch().map(|event| event.kind), Some(FIX_CANCEL));
    }
}
