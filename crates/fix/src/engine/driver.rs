//! The event loop of an engine, and how its thread waits.

use super::core::Engine;
use crate::clock::Now;
use crate::session::Application;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::Problem;
use sidestep_sys::idle::{Idle, IdleStrategy, Pause};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep: how late a stop, or a request of the operator, may be seen.
const PARK_MAX: Duration = Duration::from_millis(50);
/// The sleep while the engine waits for something without a wake-up: the disk, a connection in progress, acceptors in shared memory.
const PARK_UNSEEN_MAX: Duration = Duration::from_micros(200);
/// The longest wait of a shutdown for the counterparties' Logouts.
const LOGOUT_MAX: Duration = Duration::from_secs(2);

impl<A: Application> Engine<A> {
    /// Polls until `stop` is set, then logs all sessions out. The engine parks in poll(2), for at most 50 ms at a time.
    ///
    /// # Errors
    /// Sleeping failed.
    pub fn run(&mut self, stop: &AtomicBool, idle: IdleStrategy) -> Result<(), Problem> {
        let mut idle = Idle::new(idle);
        while !stop.load(Ordering::Relaxed) {
            match self.poll() {
                0 => self.pause(idle.next_pause())?,
                _ => idle.reset(),
            }
        }
        self.shut_down("", LOGOUT_MAX);
        Ok(())
    }

    fn pause(&mut self, pause: Pause) -> Result<(), Problem> {
        match pause {
            Pause::Park(limit) => {
                self.sleep(limit.min(PARK_MAX))?;
                // A connection request may have ended the sleep.
                self.chores(Now::system_mono_ns());
            }
            // The thread that waits for the disk may have only this CPU. If it is not let run, its answer comes when the
            // scheduler interrupts this one, milliseconds later.
            Pause::Spin if self.slots.iter().any(super::slot::Slot::waits_for_disk) => std::thread::yield_now(),
            Pause::Spin => std::hint::spin_loop(),
            Pause::Yield => std::thread::yield_now(),
        }
        Ok(())
    }

    /// Sleeps until there is something to do, for at most `limit`.
    ///
    /// # Errors
    /// The kernel refused to.
    pub fn sleep(&mut self, limit: Duration) -> Result<(), Problem> {
        let now_ns = Now::system_mono_ns();
        let due =
            self.slots.iter().map(|slot| slot.deadline()).chain(self.dialers.iter().map(|dialer| dialer.deadline()));
        let left_ns = due.min().unwrap_or(u64::MAX).saturating_sub(now_ns);
        let nap = if self.waits_unseen() { limit.min(PARK_UNSEEN_MAX) } else { limit };
        let nap = nap.min(Duration::from_nanos(left_ns).max(PARK_UNSEEN_MAX));
        let mut fds = self.descriptors();
        let timeout = Timespec::try_from(nap).ok();
        let slept = poll(&mut fds, timeout.as_ref());
        drop(fds);
        self.has_slept();
        match slept {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Problem::failed("cannot wait for connections", error)),
        }
    }

    /// Returns whether the engine waits for something that makes no descriptor ready.
    fn waits_unseen(&self) -> bool {
        let unseen = |slot: &super::slot::Slot| {
            slot.waits_for_disk() || slot.channel().is_some_and(|channel| !channel.signals_room() && slot.wants_write())
        };
        self.io.has_engine()
            || self.slots.iter().any(unseen)
            || self.crowd.has_unseen()
            || self.acceptors.iter().any(|acceptor| acceptor.listener.descriptor().is_none())
    }

    fn descriptors(&self) -> Vec<PollFd<'_>> {
        let acceptors = self.acceptors.iter().filter_map(|acceptor| acceptor.listener.descriptor());
        let pending = self.crowd.descriptor();
        let mut fds: Vec<PollFd<'_>> =
            acceptors.chain(pending).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        for slot in &self.slots {
            if let Some(fd) = slot.channel().and_then(|channel| channel.descriptor()) {
                let signals_room = slot.channel().is_some_and(|channel| channel.signals_room());
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, slot.wants_read());
                flags.set(PollFlags::OUT, signals_room && slot.wants_write());
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        fds
    }
}
