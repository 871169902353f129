//! The sleep of a flow, until a packet is there: on its doorbell, its kernel sockets and its agent.

use super::Flow;
use super::rings::Rings;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use sidestep_ring::{Deadline, WaitError};
use sidestep_sys::Problem;
use sidestep_sys::idle::{Idle, IdleStrategy, Pause};
use sidestep_sys::own_descriptors::keep;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Turns of spinning between two readings of the clock for the deadline, 35 ns each: 1 to 3 us.
const SPINS_PER_CLOCK: u32 = 64;

/// An epoll of everything that wakes a flow.
pub(super) struct Sleep {
    epoll: OwnedFd,
}

impl Sleep {
    fn over(descriptors: &[BorrowedFd<'_>]) -> Result<Self, Errno> {
        let epoll = keep(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        for (number, descriptor) in (0..).zip(descriptors) {
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        Ok(Self { epoll })
    }

    /// Stops watching a kernel socket.
    pub(super) fn forget(&self, twin: &impl AsFd) {
        // One that is not watched stays so.
        let _ = epoll::delete(&self.epoll, twin);
    }
}

impl Flow {
    /// Waits until [`Flow::receive`] has a packet, or until the deadline. A strategy that parks sleeps by the doorbell; without one
    /// ([`super::FlowOptions::doorbell`]) a flow with rings yields instead.
    pub fn wait(&mut self, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        let mut idle = Idle::new(idle);
        let mut turns = 0_u32;
        loop {
            if self.is_ready() {
                return Ok(());
            }
            turns = turns.wrapping_add(1);
            match idle.next_pause() {
                Pause::Spin => {
                    std::hint::spin_loop();
                    if !turns.is_multiple_of(SPINS_PER_CLOCK) {
                        continue;
                    }
                }
                Pause::Yield => std::thread::yield_now(),
                Pause::Park(limit) => self.park(limit, deadline),
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return if self.is_ready() { Ok(()) } else { Err(WaitError::TimedOut) };
            }
        }
    }

    /// A descriptor that is readable when [`Flow::receive`] may have something, for epoll(7) and poll(2): after [`Flow::request_wakeup`] has
    /// returned true. It changes with the feed: ask for it before each sleep, or use [`Flow::wait`]. Without a doorbell it tells of
    /// kernel sockets and of changes only.
    pub fn wakeup_fd(&mut self) -> Result<BorrowedFd<'_>, Problem> {
        let failed = |error: Errno| Problem::failed("cannot watch the flow's descriptors", error);
        if self.sleep.is_none() {
            let doorbell = self.rings.as_ref().and_then(|rings| rings.doorbell());
            let twins = self.twins.iter().filter(|twin| !twin.is_carried).map(AsFd::as_fd);
            let all: Vec<_> = [self.link.bell()].into_iter().chain(doorbell).chain(twins).collect();
            let sleep = Sleep::over(&all).map_err(failed)?;
            self.sleep = Some(sleep);
        }
        self.sleep.as_ref().map(|sleep| sleep.epoll.as_fd()).ok_or_else(|| failed(Errno::BADF))
    }

    /// Asks for a wake-up by [`Flow::wakeup_fd`] with the next packet. Returns false if there is something to receive already, and in the
    /// two seconds in which the rings of a dead control are still read: nothing tells of these. Do not sleep then.
    pub fn request_wakeup(&mut self) -> bool {
        if self.retired.is_some() {
            return false;
        }
        if self.is_ready() {
            return false;
        }
        // Looked at after the flag was set: a packet before that is found, one after that rings. The flag of rings that were replaced
        // meanwhile is nobody's.
        let changes = self.changes;
        let is_asked = self.rings.as_ref().is_none_or(Rings::request_doorbell);
        !self.is_ready() && is_asked && self.changes == changes
    }

    /// Looks for a packet and keeps it for the next call.
    fn is_ready(&mut self) -> bool {
        if self.stashed.is_none() {
            self.stashed = self.find();
        }
        self.stashed.is_some()
    }

    fn park(&mut self, limit: Duration, deadline: Deadline) {
        if self.retired.is_some() || self.rings.as_ref().is_some_and(|rings| rings.doorbell().is_none()) {
            return std::thread::yield_now();
        }
        if !self.request_wakeup() {
            return;
        }
        let left = deadline.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()).min(limit));
        // Without the descriptor a pause is as good.
        let Ok(descriptor) = self.wakeup_fd() else { return std::thread::yield_now() };
        let left = Timespec::try_from(left).ok();
        // A signal ends the sleep, and the next turn looks again.
        let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], left.as_ref());
        // Kernel sockets are looked at after a sleep, whatever the turn.
        self.empty_looks = u32::MAX;
    }
}
