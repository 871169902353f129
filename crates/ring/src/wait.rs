//! The wait of a side, by an idle strategy: with a deadline, and with a look at the peer now and then.

use crate::fault::{FORKED, Fault};
use crate::ring::Ring;
use crate::role::{Peer, Side};
use crate::sync::pause;
use crate::waking::Waking;
use sidestep_sys::idle::{Idle, IdleStrategy, Pause};
use std::fmt;
use std::time::{Duration, Instant};

/// Turns of spinning between two readings of the clock for the deadline, 35 ns each: 1 to 3 us.
const SPINS_PER_CLOCK: u32 = 64;
/// Turns of spinning between two looks at the peer's pidfd, a system call: 1 to 3 ms.
const SPINS_PER_PEER: u32 = 1 << 16;
/// Turns of giving the CPU away between two looks at the peer's pidfd: half a millisecond if nobody wants the CPU.
const YIELDS_PER_PEER: u32 = 2000;
/// The end of a wait; `None`: it has none.
pub type Deadline = Option<Instant>;

/// The reason why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The deadline has passed.
    TimedOut,
    /// The other side has closed.
    Closed,
    /// The process of the other side has ended without closing. Another one may take its place: wait again for that.
    PeerGone,
    /// The message is longer than this ring's longest.
    TooLong,
    /// The handle belongs to the process that this one was forked from.
    Forked,
    /// The peer wrote what no peer writes.
    Faulty(Fault),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the deadline has passed"),
            Self::Closed => f.write_str("the other side has closed the ring"),
            Self::PeerGone => f.write_str("the process of the other side has ended"),
            Self::TooLong => f.write_str("the message is longer than the ring's longest"),
            Self::Forked => f.write_str(FORKED),
            Self::Faulty(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for WaitError {}

/// One wait in progress.
pub(crate) struct Waiter {
    idle: Idle,
    deadline: Deadline,
    turns: u32,
}

impl Waiter {
    /// Begins a wait.
    pub(crate) fn new(strategy: IdleStrategy, deadline: Deadline) -> Self {
        Self { idle: Idle::new(strategy), deadline, turns: 0 }
    }

    /// Begins a wait on `ring`. In a ring that wakes nobody a side yields instead of parking.
    pub(crate) fn on(ring: &Ring, strategy: IdleStrategy, deadline: Deadline) -> Self {
        Self::new(if ring.waking == Waking::Never { strategy.without_park() } else { strategy }, deadline)
    }

    /// Passes some time, or returns why waiting makes no more sense. `is_ready` is asked before a sleep on the flag at `at`.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        ring: &Ring,
        side: &mut Side,
        at: usize,
        is_ready: impl FnOnce() -> bool,
    ) -> Result<(), WaitError> {
        self.turn_or(ring, side, |side, limit| side.sleeper().sleep(ring, at, limit, is_ready))
    }

    /// Passes some time as [`Waiter::turn`] does; `park` sleeps.
    #[inline]
    pub(crate) fn turn_or(
        &mut self,
        ring: &Ring,
        side: &mut Side,
        park: impl FnOnce(&mut Side, Duration),
    ) -> Result<(), WaitError> {
        self.turns = self.turns.wrapping_add(1);
        match self.idle.next_pause() {
            Pause::Spin => self.spin(ring, side),
            Pause::Yield => self.let_others_run(ring, side),
            Pause::Park(limit) => {
                park(side, self.until_deadline(limit));
                check_peer(ring, side)?;
                self.check_deadline()
            }
        }
    }

    #[inline]
    fn spin(&self, ring: &Ring, side: &mut Side) -> Result<(), WaitError> {
        pause();
        if self.turns.is_multiple_of(SPINS_PER_CLOCK) {
            self.check_deadline()?;
        }
        if self.turns.is_multiple_of(SPINS_PER_PEER) { check_peer(ring, side) } else { Ok(()) }
    }

    fn let_others_run(&self, ring: &Ring, side: &mut Side) -> Result<(), WaitError> {
        std::thread::yield_now();
        if self.turns.is_multiple_of(YIELDS_PER_PEER) {
            check_peer(ring, side)?;
        }
        self.check_deadline()
    }

    fn until_deadline(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()).min(limit))
    }

    fn check_deadline(&self) -> Result<(), WaitError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(WaitError::TimedOut),
            _ => Ok(()),
        }
    }
}

/// Publishes a sign of life of this side, and looks for one of the other.
#[cold]
fn check_peer(ring: &Ring, side: &mut Side) -> Result<(), WaitError> {
    side.beat();
    match side.peer(ring) {
        Peer::Gone(_) => Err(WaitError::PeerGone),
        _ => Ok(()),
    }
}
