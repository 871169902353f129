//! Waiting in a call: whether it may, until when, and what ends it.

use crate::description::Description;
use crate::engine::{Shared, Woken};
use rustix::event::PollFlags;
use rustix::net::sockopt::Timeout;
use sidestep_socket::Engine;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The waiting of one call on one descriptor.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    is_nonblocking: bool,
    /// The option whose time begins when the call first waits.
    timeout: Timeout,
    deadline: Option<Option<Instant>>,
    description: &'a Description,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(description: &'a Description, is_nonblocking: bool, timeout: Timeout) -> Self {
        Self { is_nonblocking, timeout, deadline: None, description }
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking
    }

    /// Returns whether the call has a timeout of its own: then no signal restarts it (signal(7)).
    pub(crate) fn has_timeout(&self) -> bool {
        self.deadline.flatten().is_some()
    }

    /// Waits until `ready`, the deadline, a descriptor of `also`, or a signal.
    pub(crate) fn wait<T>(
        &mut self,
        engine: &Shared,
        also: &[(BorrowedFd<'_>, PollFlags)],
        ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Woken<T> {
        let timeout = self.description.timeouts.of(self.timeout);
        let deadline =
            *self.deadline.get_or_insert_with(|| timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
        engine.wait(&[&self.description.watchers], also, deadline, ready)
    }
}
