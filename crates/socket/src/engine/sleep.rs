//! The sleep of a thread that has an engine of its own, until there is something to do.

use crate::engine::Engine;
use crate::error::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use sidestep_sys::own_descriptors::keep;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The longest sleep where the process has no descriptor left for control's word.
const WITHOUT_DESCRIPTOR: Duration = Duration::from_millis(1);

impl Engine {
    /// Sleeps until a frame has come, control or a kernel twin has something, a timer is due, or `longest` is over. Call it when
    /// a poll has found nothing, and poll again: what comes in between ends the sleep at once. A signal ends it, too.
    ///
    /// # Errors
    /// The process is not the one that opened the engine.
    pub fn sleep(&mut self, longest: Duration) -> Result<(), Error> {
        if !self.guard.is_same_process() {
            return Err(Error::Forked);
        }
        let told = self.told_by_agent();
        // Events from before it was told of them.
        let has_events = self.agent.as_ref().is_some_and(crate::control_agent::ControlAgent::has_events);
        let length = self.idle_time().min(longest);
        if !has_events && !length.is_zero() {
            match told {
                Some(told) => sleep_on(&told, self.socket(), length),
                None => std::thread::sleep(length.min(WITHOUT_DESCRIPTOR)),
            }
        }
        self.wake();
        Ok(())
    }

    /// The descriptor that the control agent writes, from the first sleep on; none where there is none to be had.
    fn told_by_agent(&mut self) -> Option<Arc<OwnedFd>> {
        if self.told.is_none() {
            let told = Arc::new(keep(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?));
            self.agent.iter().for_each(|agent| agent.wake_owner_by(Arc::clone(&told)));
            self.told = Some(told);
        }
        self.told.clone()
    }
}

fn sleep_on(agent: &OwnedFd, link: Option<BorrowedFd<'_>>, length: Duration) {
    let length = Timespec::try_from(length).ok();
    let watched = |socket| PollFd::from_borrowed_fd(socket, PollFlags::IN);
    let mut both = [watched(agent.as_fd()), watched(link.unwrap_or(agent.as_fd()))];
    // EINTR is a wake-up like any other.
    if poll(&mut both, length.as_ref()).is_ok() && !both[0].revents().is_empty() {
        let _ = rustix::io::read(agent, &mut [0; 8]);
    }
}
