//! How a side waits: spin, spin then yield, or spin then sleep; with a deadline, and with an eye on the peer.

use crate::fault::{FORKED, Fault};
use crate::ring::Ring;
use crate::role::{Peer, Side};
use crate::sync::pause;
use crate::waking::Waking;
use std::fmt;
use std::time::{Duration, Instant};

/// The longest that a side spins before it gives the CPU away: what a sleep and a wake-up cost (7 us between two vCPUs of a
/// Xeon), so that waiting costs at most twice what the better of the two would. A time and not a count, because one turn
/// takes 10 to 50 ns, by processor (16 to 20 ns here).
const SPIN_MAX: Duration = Duration::from_micros(10);
/// Turns of spinning between two looks at the clock, 35 ns each: 1 to 3 us.
const SPINS_PER_CLOCK: u32 = 64;
/// Turns of spinning between two looks at the peer's pidfd, a system call: 1 to 3 ms.
const SPINS_PER_PEER: u32 = 1 << 16;
/// Turns of giving the CPU away between two looks at the peer's pidfd: half a millisecond if nobody wants the CPU.
const YIELDS_PER_PEER: u32 = 2000;
/// The first sleep of a wait before the peer is looked at, twice as long each time. A message ends a sleep at once; only a
/// death waits for this.
const NAP_FIRST: Duration = Duration::from_millis(5);
/// The longest sleep: an idle reader disturbs its own CPU ten times a second, and no other.
const NAP_MAX: Duration = Duration::from_millis(100);

/// How to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Keep the CPU: the lowest latency.
    #[default]
    Spin,
    /// Spin for ten microseconds, then let other threads run between two looks.
    Yield,
    /// Spin for ten microseconds, then sleep until woken. In a ring that wakes nobody ([`Waking::Never`]): as `Yield`.
    Park,
}

/// For how long.
pub type Limit = Option<Instant>;

/// Why a wait ended without what was waited for.
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
    waiting: Waiting,
    limit: Limit,
    turns: u32,
    /// When spinning gives way to what `waiting` says; known from the first look at the clock on.
    spin_end: Option<Instant>,
    spins: bool,
    nap: Duration,
}

impl Waiter {
    pub(crate) fn new(waiting: Waiting, limit: Limit) -> Self {
        // loom has no clock: in a model the CPU is given away at once.
        Self {
            waiting,
            limit,
            turns: 0,
            spin_end: None,
            spins: waiting == Waiting::Spin || !cfg!(loom),
            nap: NAP_FIRST,
        }
    }

    /// Passes some time, or says why waiting makes no more sense. `is_ready` is asked before a sleep on the flag at `at`.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        ring: &Ring,
        side: &mut Side,
        at: usize,
        is_ready: impl FnOnce() -> bool,
    ) -> Result<(), WaitError> {
        self.turns = self.turns.wrapping_add(1);
        if self.spins {
            pause();
            if self.turns.is_multiple_of(SPINS_PER_CLOCK) {
                self.check_clock()?;
                self.check_spin();
            }
            return if self.turns.is_multiple_of(SPINS_PER_PEER) { check_peer(ring, side) } else { Ok(()) };
        }
        if self.waiting == Waiting::Park && ring.waking != Waking::Never {
            side.sleeper().sleep(ring, at, self.next_nap(), is_ready);
            check_peer(ring, side)?;
        } else {
            std::thread::yield_now();
            if self.turns.is_multiple_of(YIELDS_PER_PEER) {
                check_peer(ring, side)?;
            }
        }
        self.check_clock()
    }

    fn next_nap(&mut self) -> Duration {
        let nap = self.nap;
        self.nap = (nap * 2).min(NAP_MAX);
        self.limit.map_or(nap, |limit| limit.saturating_duration_since(Instant::now()).min(nap))
    }

    /// Ends the spinning when it has lasted [`SPIN_MAX`], counted from the first call: a wait that ends before that has
    /// read no clock.
    fn check_spin(&mut self) {
        if self.waiting != Waiting::Spin {
            let now = Instant::now();
            self.spins = now < *self.spin_end.get_or_insert(now + SPIN_MAX);
        }
    }

    fn check_clock(&self) -> Result<(), WaitError> {
        match self.limit {
            Some(limit) if Instant::now() >= limit => Err(WaitError::TimedOut),
            _ => Ok(()),
        }
    }
}

/// A sign of life of this side, and a look for one of the other.
#[cold]
fn check_peer(ring: &Ring, side: &mut Side) -> Result<(), WaitError> {
    side.beat();
    match side.peer(ring) {
        Peer::Gone(_) => Err(WaitError::PeerGone),
        _ => Ok(()),
    }
}
