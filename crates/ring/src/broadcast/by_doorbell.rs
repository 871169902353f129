//! Readers of rings that the kernel fills, asleep.

use super::Subscriber;
use super::subscriber::is_ready;
use crate::doorbell::Doorbell;
use crate::wait::{Deadline, WaitError, Waiter};
use sidestep_sys::idle::IdleStrategy;
use std::os::fd::BorrowedFd;
use std::thread::yield_now;

impl Subscriber {
    /// Sets the doorbell by which [`Subscriber::wait`] sleeps when its strategy parks, in place of the ring's own flag. A clone
    /// has none: each sleeper needs its own.
    pub fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = Some(doorbell);
    }

    /// The descriptor of the doorbell, for poll(2) and epoll(7): readable from a wake-up until the next request.
    pub fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.doorbell.as_ref().map(Doorbell::fd)
    }

    /// Asks the doorbell to ring when there is something to read; to be called before each sleep on its descriptor. Returns
    /// false if there is something already, or no doorbell: do not sleep then.
    pub fn request_doorbell(&mut self) -> bool {
        self.doorbell.as_ref().is_some_and(|doorbell| doorbell.request(self.next.sequence, || self.is_ready()))
    }

    /// The wait of a reader with a doorbell.
    pub(super) fn wait_by_doorbell(&mut self, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        let mut waiter = Waiter::new(idle, deadline);
        while !self.has_answer()? {
            let Self { ring, next, doorbell, side, .. } = self;
            let position = next.position;
            let turn = waiter.turn_or(ring, side, |_, limit| {
                let Some(doorbell) = doorbell else { return yield_now() };
                let asked = doorbell.request(next.sequence, || is_ready(ring, position));
                // Without poll(2), which no limit or sandbox should take away, the wait yields.
                if asked && doorbell.sleep(limit).is_err() {
                    yield_now();
                }
            });
            if turn.is_err() && !self.is_ready() {
                return turn;
            }
        }
        Ok(())
    }
}
