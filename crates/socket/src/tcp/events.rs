//! Events that wait until the program takes them.

use crate::tcp::table::TcpEvent;
use std::collections::{HashSet, VecDeque};

/// Places of forgotten events that are kept before the queue is cleared of them.
const SLACK: usize = 64;

/// A queue that holds each event once. A program that takes none must not make it grow: it holds events of open handles alone.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    queue: VecDeque<TcpEvent>,
    queued: HashSet<TcpEvent>,
}

impl EventQueue {
    pub(crate) fn push(&mut self, event: TcpEvent) {
        if self.queued.insert(event) {
            self.queue.push_back(event);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<TcpEvent> {
        loop {
            let event = self.queue.pop_front()?;
            if self.queued.remove(&event) {
                return Some(event);
            }
        }
    }

    /// Removes the event of a handle that is closed. Its place goes with others, so that closing many handles is linear.
    pub(crate) fn forget(&mut self, event: TcpEvent) {
        if self.queued.remove(&event) && self.queue.len() > 2 * self.queued.len() + SLACK {
            self.queue.retain(|other| self.queued.contains(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::table::{Table, TcpStream};

    #[test]
    fn an_event_waits_once_and_goes_with_its_handle() {
        let (mut table, mut events) = (Table::default(), EventQueue::default());
        let [one, two] = [1, 2].map(|value| TcpEvent::Stream(TcpStream(table.insert(value).unwrap())));
        for _ in 0..100 {
            events.push(one);
            events.push(two);
        }
        events.forget(one);
        events.forget(one);
        assert_eq!([events.pop(), events.pop()], [Some(two), None]);
        events.push(two);
        assert_eq!(events.pop(), Some(two), "it can wait again");
    }

    #[test]
    fn closed_handles_leave_nothing_behind() {
        let (mut table, mut events) = (Table::default(), EventQueue::default());
        for value in 0..10_000 {
            let event = TcpEvent::Stream(TcpStream(table.insert(value).unwrap()));
            events.push(event);
            events.forget(event);
        }
        assert!(events.queued.is_empty() && events.queue.len() <= SLACK + 1, "{}", events.queue.len());
        assert_eq!(events.pop(), None);
    }
}
