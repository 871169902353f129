//! The holder of a side of a shared ring, its liveness, and the takeover by a successor.
//!
//! ```text
//!  63                                             22 21                  0
//! |  start time of the process, ticks since boot    |  pid                |   0: nobody
//! ```
//!
//! One compare-and-swap takes a side that is free or whose process has ended; pid and start time together identify a
//! process for ever. So two processes never hold a side at once, and nothing needs to be cleaned up after a crash.

use crate::layout::{BEAT, PID_BITS, READER_ROLE_AT, WRITER_ROLE_AT};
use crate::ring::Ring;
use crate::sleeper::Sleeper;
use crate::sync::{Acquire, Arc, Relaxed, SeqCst};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::process::{Process, Watch};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

/// The most changes of holder during one attempt to take a side.
const ATTEMPTS_MAX: usize = 16;

/// The state of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The side is free: not taken yet, or closed by its holder's orderly exit. Also where the kernel writes.
    Absent,
    /// Its holder lives.
    Present,
    /// It has closed.
    Closed,
    /// Its process has ended without leaving. Another process may take its place.
    Gone(Process),
}

/// The reason why a side could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    /// This living process holds it.
    Held(Process),
    /// Its holder changes all the time.
    Contended,
    /// /proc does not show when this process started.
    Unnamed,
    /// No page is available for the guard against forked copies.
    Unguarded,
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(holder) => write!(f, "process {} holds this side and lives", holder.pid),
            Self::Contended => f.write_str("others are taking this side at this moment"),
            Self::Unnamed => f.write_str("/proc does not show when this process started"),
            Self::Unguarded => f.write_str("no memory is left for the guard against forked copies"),
        }
    }
}

/// A side of a shared ring that this process holds.
struct Held {
    ring: Arc<Ring>,
    /// The owner word of this process.
    owner: u64,
    /// The process that it replaced.
    replaced: Option<Process>,
    /// The fork guard: a forked child has a copy of the handle and holds nothing.
    guard: ForkGuard,
}

/// One side of a ring, from the view of the handle that holds it.
pub struct Side {
    at: usize,
    peer_at: usize,
    /// `None` in a ring that is not shared, and for an observer.
    held: Option<Held>,
    /// The owner word last seen on the other side, and the watch on that process.
    peer: Option<(u64, Option<Watch>)>,
    sleeper: Sleeper,
}

impl Side {
    /// The writer of a ring inside this process.
    pub(crate) fn writer() -> Self {
        Self { at: WRITER_ROLE_AT, peer_at: READER_ROLE_AT, held: None, peer: None, sleeper: Sleeper::default() }
    }

    /// The reader of a ring inside this process.
    pub(crate) fn reader() -> Self {
        Self { at: READER_ROLE_AT, peer_at: WRITER_ROLE_AT, held: None, peer: None, sleeper: Sleeper::default() }
    }

    /// Takes this side of a shared ring for this process, if it is free or its process has ended.
    pub(crate) fn take(mut self, ring: &Arc<Ring>) -> Result<Self, TakeError> {
        let this = owner_word(Process::this().map_err(|_| TakeError::Unnamed)?);
        let guard = ForkGuard::new().map_err(|_| TakeError::Unguarded)?;
        let word = ring.memory.word(self.at);
        for _ in 0..ATTEMPTS_MAX {
            let current = word.load(Acquire);
            let holder = process_of(current);
            if let Some(holder) = holder.filter(Process::is_alive) {
                return Err(TakeError::Held(holder));
            }
            // Partner: the same exchange of a rival; one of the two fails and retries.
            if word.compare_exchange(current, this, SeqCst, Relaxed).is_ok() {
                self.held = Some(Held { ring: Arc::clone(ring), owner: this, replaced: holder, guard });
                self.beat();
                return Ok(self);
            }
        }
        Err(TakeError::Contended)
    }

    /// The process that held this side before, if it ended without leaving.
    pub fn replaced(&self) -> Option<Process> {
        self.held.as_ref()?.replaced
    }

    /// Returns false in a child that was forked from the process that holds this side: it has a copy of a handle.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.guard.is_same_process())
    }

    /// Stores a heartbeat for observers; waiting does so as well.
    pub fn beat(&self) {
        if let Some(Held { ring, .. }) = self.held.as_ref().filter(|held| held.guard.is_same_process()) {
            ring.memory.word(self.at + BEAT).store(now_ns(), Relaxed);
        }
    }

    /// The number of sleeps that this side has announced: one per idle period, each with a memory barrier that
    /// interrupts the CPUs on which programs with such rings run ([`crate::Waking::Barrier`]).
    pub fn announced_sleeps(&self) -> u64 {
        self.sleeper.announcements()
    }

    pub(crate) fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }

    /// Checks the holder of the other side and its liveness: one system call if the holder is unchanged.
    pub(crate) fn peer(&mut self, ring: &Ring) -> Peer {
        if !ring.is_shared {
            return Peer::Present;
        }
        if ring.is_foreign {
            return Peer::Absent;
        }
        let word = ring.memory.word(self.peer_at).load(Acquire);
        let Some(process) = process_of(word) else { return Peer::Absent };
        if self.peer.as_ref().is_none_or(|(known, _)| *known != word) {
            // Without a pidfd (none left, or none allowed) /proc tells as well, only later.
            self.peer = Some((word, Watch::new(process).ok().flatten()));
        }
        let lives = match &self.peer {
            Some((_, Some(watch))) => !watch.has_ended(),
            _ => process.is_alive(),
        };
        if lives { Peer::Present } else { Peer::Gone(process) }
    }

    /// A descriptor that becomes readable when the peer's process ends, for poll(2) and epoll(7). It belongs to the
    /// process found by the last check of the peer: `None` before that and in a ring that is not shared.
    pub fn peer_pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.peer.as_ref()?.1.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Side {
    /// Leaves the side; a forked child has nothing to leave.
    fn drop(&mut self) {
        if let Some(Held { ring, owner, .. }) = self.held.as_ref().filter(|held| held.guard.is_same_process()) {
            // If a peer has overwritten the word, it must not be cleared.
            let _ = ring.memory.word(self.at).compare_exchange(*owner, 0, SeqCst, Relaxed);
        }
    }
}

/// The process of an owner word.
pub(crate) fn process_of(word: u64) -> Option<Process> {
    let pid = (word & ((1 << PID_BITS) - 1)) as u32;
    (pid != 0).then_some(Process { pid, start_ticks: word >> PID_BITS })
}

fn owner_word(process: Process) -> u64 {
    process.start_ticks << PID_BITS | u64::from(process.pid)
}

/// CLOCK_MONOTONIC_RAW, ns: the same for all processes of a host.
pub(crate) fn now_ns() -> u64 {
    sidestep_sys::clock::monotonic_raw_ns()
}

#[cfg(all(test, not(loom)))]
mod tests;
