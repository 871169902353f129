//! How the thread of an engine idles.

use super::core::Engine;
use crate::clock::Now;
use crate::session::Application;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::Problem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest sleep: how late a stop, or a request of the operator, may be seen.
const NAP_MAX: Duration = Duration::from_millis(50);
/// The sleep while something is waited for that wakes nobody: the disk, a connection on its way, acceptors in shared memory.
const NAP_SHORT: Duration = Duration::from_micros(200);
/// How long a shutdown waits for the counterparties' Logouts.
const LOGOUT_MAX: Duration = Duration::from_secs(2);

/// What a thread does when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Sleeps until something comes, or is due.
    #[default]
    Block,
    /// Never sleeps: a CPU of its own for the shortest time.
    Spin,
}

impl<A: Application> Engine<A> {
    /// Polls until `stop` is set, then logs everybody out.
    ///
    /// # Errors
    /// Sleeping failed.
    pub fn run(&mut self, stop: &AtomicBool, idle: Idle) -> Result<(), Problem> {
        while !stop.load(Ordering::Relaxed) {
            match (self.poll(), idle) {
                // The thread that waits for the disk may have only this CPU: it is let run, else its news would come when the
                // scheduler interrupts us, milliseconds later.
                (0, Idle::Spin) if self.slots.iter().any(super::slot::Slot::waits_for_disk) => std::thread::yield_now(),
                (0, Idle::Spin) => std::hint::spin_loop(),
                (0, Idle::Block) => {
                    self.sleep(NAP_MAX)?;
                    // Who knocks at a acceptor has woken us.
                    self.chores(Now::system_mono_ns());
                }
                _ => {}
            }
        }
        self.shut_down("", LOGOUT_MAX);
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
        let nap = if self.waits_unseen() { limit.min(NAP_SHORT) } else { limit };
        let nap = nap.min(Duration::from_nanos(left_ns).max(NAP_SHORT));
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

    /// Whether something is waited for that no descriptor tells of.
    fn waits_unseen(&self) -> bool {
        let unseen = |slot: &super::slot::Slot| {
            slot.waits_for_disk()
                || slot.channel().is_some_and(|channel| !channel.tells_of_room() && slot.wants_write())
        };
        self.io.xdp.is_some()
            || self.slots.iter().any(unseen)
            || self.crowd.has_unseen()
            || self.acceptors.iter().any(|acceptor| acceptor.listening.descriptor().is_none())
    }

    fn descriptors(&self) -> Vec<PollFd<'_>> {
        let acceptors = self.acceptors.iter().filter_map(|acceptor| acceptor.listening.descriptor());
        let pending = self.crowd.descriptor();
        let mut fds: Vec<PollFd<'_>> =
            acceptors.chain(pending).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        for slot in &self.slots {
            if let Some(fd) = slot.channel().and_then(|channel| channel.descriptor()) {
                let tells_of_room = slot.channel().is_some_and(|channel| channel.tells_of_room());
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, slot.wants_read());
                flags.set(PollFlags::OUT, tells_of_room && slot.wants_write());
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        fds
    }
}
