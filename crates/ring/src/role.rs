//! Who holds a side of a shared ring, whether it still lives, and how a successor takes its place.
//!
//! ```text
//!  63                                             22 21                  0
//! |  start time of the process, ticks since boot    |  pid                |   0: nobody
//! ```
//!
//! One compare-and-swap takes a side, from nobody or from a process that has ended; pid and start time together name a
//! process for ever. So two can never hold a side at once, and nothing has to be cleaned up after a crash.

use crate::layout::{BEAT, PID_BITS, READER_ROLE_AT, WRITER_ROLE_AT};
use crate::ring::Ring;
use crate::sleeper::Sleeper;
use crate::sync::{Acquire, Arc, Relaxed, SeqCst};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::process::{Process, Watch};
use std::os::fd::{AsFd, BorrowedFd};

/// A side changes hands at most this often while somebody tries to take it.
const ATTEMPTS_MAX: usize = 16;

/// What is known of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Nobody has taken it yet, or its holder has left in good order.
    Absent,
    /// Its holder lives.
    Present,
    /// It has closed.
    Closed,
    /// Its process has ended without leaving. Another one may take its place.
    Gone(Process),
}

/// Why a side could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    /// This process lives and holds it.
    Held(Process),
    /// It changes hands all the time.
    Contended,
    /// /proc does not tell when this process started.
    Unnamed,
    /// There is no page for the guard against forked copies.
    Unguarded,
}

/// A side of a shared ring that this process holds.
struct Held {
    ring: Arc<Ring>,
    /// The owner word that says so.
    owner: u64,
    /// Whom it replaced.
    replaced: Option<Process>,
    /// A forked child has a copy of the handle, and holds nothing.
    guard: ForkGuard,
}

/// One side of a ring, as the handle that holds it sees it.
pub struct Side {
    at: usize,
    peer_at: usize,
    /// Nothing in a ring that is not shared and for who only looks.
    held: Option<Held>,
    /// The owner word that was last seen on the other side, and the watch over that process.
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

    /// Takes this side of a shared ring for this process, from nobody or from a process that has ended.
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
            // Partner: the same exchange of a rival; one of the two fails and looks again.
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

    /// False in a child that was forked from the process that holds this side: what it has is a copy of a handle.
    #[inline(always)]
    pub(crate) fn is_ours(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.guard.is_same_process())
    }

    /// Tells observers that this side is alive; waiting does it as well.
    pub fn beat(&self) {
        if let Some(Held { ring, .. }) = self.held.as_ref().filter(|held| held.guard.is_same_process()) {
            ring.memory.word(self.at + BEAT).store(now_ns(), Relaxed);
        }
    }

    /// How often this side has announced a sleep so far: once per idle period, each time with a memory barrier that interrupts
    /// the CPUs on which programs with such rings run ([`crate::Waking::Barrier`]).
    pub fn announced_sleeps(&self) -> u64 {
        self.sleeper.announcements()
    }

    pub(crate) fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.sleeper
    }

    /// Looks who holds the other side and whether it lives: one system call once it is known.
    pub(crate) fn peer(&mut self, ring: &Ring) -> Peer {
        if !ring.is_shared {
            return Peer::Present;
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
    /// process that the last look at the peer has found: `None` before that and in a ring that is not shared.
    pub fn peer_pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.peer.as_ref()?.1.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Side {
    /// Leaves in good order; a forked child has nothing to leave.
    fn drop(&mut self) {
        if let Some(Held { ring, owner, .. }) = self.held.as_ref().filter(|held| held.guard.is_same_process()) {
            // If somebody scribbled over the word it is not ours to clear.
            let _ = ring.memory.word(self.at).compare_exchange(*owner, 0, SeqCst, Relaxed);
        }
    }
}

/// The process that an owner word names.
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
