//! The descriptors that an engine sleeps on: its link and its control agent, in one epoll set that stays when the stack is opened again.

use crate::engine::Engine;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use sidestep_sys::own_descriptors::keep;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Polls of the program after which the link leaves the set: some 50 us of a thread that spins.
const POLLS: u64 = 512;

/// What a leader sleeps on.
#[derive(Debug)]
pub(super) struct Sources {
    set: OwnedFd,
    /// Written by the control agent.
    agent: Arc<OwnedFd>,
}

/// The engine's link: of which of its stacks, and a duplicate, by which it is removed from the set when the link is closed already.
///
/// It is in the set while a thread sleeps there. A link that is in a set costs each frame of either direction a call of epoll's in the
/// kernel, so a program that goes on polling takes it out.
#[derive(Debug, Default)]
pub(super) struct Watched {
    link: Option<(u32, OwnedFd)>,
    is_in_set: bool,
    /// The program's polls when a thread last slept on the set.
    polls: u64,
}

impl Watched {
    /// Returns whether the program has polled so often since a thread slept on the set that it may go on.
    #[inline]
    pub(super) fn is_idle(&self, polls: u64) -> bool {
        self.is_in_set && polls.saturating_sub(self.polls) > POLLS
    }
}

impl Sources {
    pub(super) fn new() -> Result<Self, Errno> {
        let agent = Arc::new(keep(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let set = keep(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&set, &*agent, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { set, agent })
    }

    /// The descriptor that the control agent writes.
    pub(super) fn agent(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.agent)
    }

    /// The descriptor to sleep on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Takes note of what the agent has written, before the engine looks at it.
    pub(super) fn take_agent_events(&self) {
        let _ = rustix::io::read(&self.agent, &mut [0; 8]);
    }

    /// Puts the engine's present link in the place of an earlier one.
    #[inline]
    pub(super) fn follow(&self, watched: &mut Watched, engine: &Engine) {
        let present = engine.link_number();
        if watched.link.as_ref().map(|(number, _)| *number) != present {
            self.replace(watched, engine, present);
        }
    }

    #[cold]
    fn replace(&self, watched: &mut Watched, engine: &Engine, present: Option<u32>) {
        let was_in_set = watched.is_in_set;
        // Control may hold the socket of a lost stack for a while: without this the set would stay readable.
        self.leave(watched);
        // Without a descriptor for it the engine is polled by its timer alone, and this is tried again.
        let link = engine.socket().and_then(|socket| rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()).map(keep);
        watched.link = present.zip(link);
        if was_in_set {
            self.enter(watched);
        }
    }

    /// Puts the link into the set, for a thread that is going to sleep there; `polls`: those of the program so far.
    pub(super) fn arm(&self, watched: &mut Watched, polls: u64) {
        watched.polls = polls;
        self.enter(watched);
    }

    /// Takes the link out of the set, unless a thread of the program sleeps there (`is_led`); returns whether it did.
    #[cold]
    pub(super) fn disarm(&self, watched: &mut Watched, polls: u64, is_led: bool) -> bool {
        watched.polls = polls;
        if !is_led {
            self.leave(watched);
        }
        !is_led
    }

    fn enter(&self, watched: &mut Watched) {
        if watched.is_in_set {
            return;
        }
        let Some((_, link)) = &watched.link else { return };
        let data = epoll::EventData::new_u64(1);
        watched.is_in_set = epoll::add(&self.set, link, data, epoll::EventFlags::IN).is_ok();
    }

    fn leave(&self, watched: &mut Watched) {
        if let (true, Some((_, link))) = (std::mem::take(&mut watched.is_in_set), &watched.link) {
            // A link that is closed is in no set.
            let _ = epoll::delete(&self.set, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(sources: &Sources) -> bool {
        let mut set = [PollFd::from_borrowed_fd(sources.descriptor(), PollFlags::IN)];
        poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn the_link_is_in_the_set_until_the_program_has_polled_often_and_no_thread_of_it_sleeps() {
        let sources = Sources::new().unwrap();
        // One that is readable.
        let link = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let mut watched = Watched { link: Some((1, link)), ..Watched::default() };
        assert!(!is_readable(&sources) && !watched.is_idle(1_000_000));
        sources.arm(&mut watched, 10);
        sources.arm(&mut watched, 20);
        assert!(is_readable(&sources) && !watched.is_idle(20 + POLLS) && watched.is_idle(21 + POLLS));
        assert!(!sources.disarm(&mut watched, 600, true), "a thread of the program sleeps there");
        assert!(is_readable(&sources) && !watched.is_idle(600 + POLLS) && watched.is_idle(601 + POLLS));
        assert!(sources.disarm(&mut watched, 1_200, false));
        assert!(!is_readable(&sources) && !watched.is_idle(1_000_000));
        sources.arm(&mut watched, 1_300);
        assert!(is_readable(&sources), "what came meanwhile wakes who sleeps now");
    }
}
