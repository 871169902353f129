//! Idle strategies of threads without work: the stages of Agrona's `IdleStrategy`, with their limits.
//!
//! The strategy is the caller's choice. [`Idle`] is the state of one wait: it returns what to do until the next attempt, and
//! the owner does it, because only the owner has something to park on (a futex, poll(2), an eventfd).
//!
//! ```
//! use sidestep_sys::idle::{Idle, IdleStrategy};
//!
//! let mut attempts = 0;
//! let mut idle = Idle::new(IdleStrategy::SPIN_THEN_PARK);
//! while attempts < 3 {
//!     attempts += 1; // No work was found.
//!     idle.next_pause().take(std::thread::park_timeout);
//! }
//! idle.reset(); // Work was found.
//! ```

use std::hint::spin_loop;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// A stage of this length has no end.
pub const FOREVER_NS: u64 = u64::MAX;

/// The time to spin before the CPU is given away: what a sleep and a wake-up cost (7 us between two vCPUs of a Xeon), so that
/// waiting costs at most twice what the better of the two would. A time and not a count, because one turn takes 10 to 50 ns,
/// by processor (16 to 20 ns there).
const SPIN_NS: u64 = 10_000;
/// The first park of a wait, twice as long each time. A wake-up ends it at once; only what wakes nobody (the death of a
/// peer) is noticed this late.
const PARK_MIN_NS: u64 = 5_000_000;
/// The longest park: an idle thread disturbs its CPU ten times a second.
const PARK_MAX_NS: u64 = 100_000_000;
/// Turns of spinning between two readings of the clock, 35 ns each: 1 to 3 us.
const SPINS_PER_CLOCK: u32 = 64;

/// The stages of a wait: spin, then yield, then park. A stage of 0 ns is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleStrategy {
    /// The time to spin: the thread keeps its CPU and makes no system call.
    pub spin_ns: u64,
    /// The time to yield: other threads of this CPU run between two attempts (sched_yield(2)).
    pub yield_ns: u64,
    /// The limit of the first park. A wake-up ends a park before its limit.
    pub park_min_ns: u64,
    /// The limit of every park: each may last twice as long as the one before, up to this.
    pub park_max_ns: u64,
}

impl IdleStrategy {
    /// Spins without end: the lowest latency, for a thread with a CPU of its own.
    pub const SPIN: Self = Self { spin_ns: FOREVER_NS, ..Self::PARK };
    /// Spins for ten microseconds, then yields: for threads that share a CPU and must not sleep.
    pub const SPIN_THEN_YIELD: Self = Self { spin_ns: SPIN_NS, yield_ns: FOREVER_NS, ..Self::PARK };
    /// Spins for ten microseconds, then parks: at first for 5 ms, backing off to 100 ms.
    pub const SPIN_THEN_PARK: Self = Self { spin_ns: SPIN_NS, park_min_ns: PARK_MIN_NS, ..Self::PARK };
    /// Parks at once, for at most 100 ms at a time: the least CPU time.
    pub const PARK: Self = Self { spin_ns: 0, yield_ns: 0, park_min_ns: PARK_MAX_NS, park_max_ns: PARK_MAX_NS };

    /// Returns whether the thread ever sleeps.
    pub fn parks(self) -> bool {
        self.spin_ns != FOREVER_NS && self.yield_ns != FOREVER_NS
    }

    /// Returns this strategy for a thread that has nothing to park on: it yields instead.
    #[must_use]
    pub fn without_park(self) -> Self {
        Self { yield_ns: FOREVER_NS, ..self }
    }

    fn first_stage(self) -> Stage {
        match self {
            Self { spin_ns: 1.., .. } => Stage::Spin,
            Self { yield_ns: 1.., .. } => Stage::Yield,
            _ => Stage::Park,
        }
    }
}

/// The action until the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pause {
    /// One turn of spinning ([`spin_loop`]).
    Spin,
    /// Lets other threads run.
    Yield,
    /// Sleeps until woken, at most for so long.
    Park(Duration),
}

impl Pause {
    /// Takes the pause; `park` sleeps on what the owner is woken by.
    #[inline]
    pub fn take(self, park: impl FnOnce(Duration)) {
        match self {
            Self::Spin => spin_loop(),
            Self::Yield => yield_now(),
            Self::Park(limit) => park(limit),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Spin,
    Yield,
    Park,
}

/// One wait of a thread.
#[derive(Debug)]
pub struct Idle {
    strategy: IdleStrategy,
    stage: Stage,
    /// Counted from the first reading of the clock in a stage: a wait that ends before has read none.
    stage_end: Option<Instant>,
    spins: u32,
    park_ns: u64,
}

impl Idle {
    /// Begins a wait.
    #[inline]
    pub fn new(strategy: IdleStrategy) -> Self {
        let park_ns = strategy.park_min_ns.clamp(1, strategy.park_max_ns.max(1));
        Self { strategy, stage: strategy.first_stage(), stage_end: None, spins: 0, park_ns }
    }

    /// Begins anew, after work was found.
    #[inline]
    pub fn reset(&mut self) {
        *self = Self::new(self.strategy);
    }

    /// Returns what to do until the next attempt.
    #[inline]
    pub fn next_pause(&mut self) -> Pause {
        match self.stage {
            Stage::Spin => {
                self.spins = self.spins.wrapping_add(1);
                if self.strategy.spin_ns != FOREVER_NS && self.spins.is_multiple_of(SPINS_PER_CLOCK) {
                    self.check_spin();
                }
                Pause::Spin
            }
            Stage::Yield => {
                self.check_yield();
                Pause::Yield
            }
            Stage::Park => Pause::Park(self.next_park()),
        }
    }

    #[cold]
    fn check_spin(&mut self) {
        if self.is_over(self.strategy.spin_ns) {
            self.stage = if self.strategy.yield_ns == 0 { Stage::Park } else { Stage::Yield };
            self.stage_end = None;
        }
    }

    fn check_yield(&mut self) {
        if self.strategy.yield_ns != FOREVER_NS && self.is_over(self.strategy.yield_ns) {
            self.stage = Stage::Park;
        }
    }

    /// Returns whether the stage has lasted `length_ns`. One too long for the clock never has.
    fn is_over(&mut self, length_ns: u64) -> bool {
        let now = Instant::now();
        let end = self.stage_end.or_else(|| now.checked_add(Duration::from_nanos(length_ns)));
        self.stage_end = end;
        end.is_some_and(|end| end <= now)
    }

    fn next_park(&mut self) -> Duration {
        let park = Duration::from_nanos(self.park_ns);
        self.park_ns = self.park_ns.saturating_mul(2).min(self.strategy.park_max_ns);
        park
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: IdleStrategy = IdleStrategy { spin_ns: 1, yield_ns: 1, park_min_ns: 3, park_max_ns: 8 };

    /// The next pause that is not `pause`.
    fn after(idle: &mut Idle, pause: Pause) -> Pause {
        std::iter::repeat_with(|| idle.next_pause()).find(|next| *next != pause).unwrap()
    }

    #[test]
    fn stages_follow_each_other_and_parks_back_off() {
        let mut idle = Idle::new(SHORT);
        for _ in 0..2 {
            assert_eq!(idle.next_pause(), Pause::Spin);
            assert_eq!(after(&mut idle, Pause::Spin), Pause::Yield);
            let first = after(&mut idle, Pause::Yield);
            let parks = [first, idle.next_pause(), idle.next_pause(), idle.next_pause()];
            assert_eq!(parks, [3, 6, 8, 8].map(|ns| Pause::Park(Duration::from_nanos(ns))));
            idle.reset();
        }
    }

    #[test]
    fn stages_of_no_length_are_left_out_and_endless_ones_do_not_end() {
        let limit = Pause::Park(Duration::from_nanos(PARK_MAX_NS));
        assert_eq!(Idle::new(IdleStrategy::PARK).next_pause(), limit);
        let first = Pause::Park(Duration::from_nanos(PARK_MIN_NS));
        assert_eq!(after(&mut Idle::new(IdleStrategy::SPIN_THEN_PARK), Pause::Spin), first);
        let mut spin = Idle::new(IdleStrategy::SPIN);
        assert!((0..1000).all(|_| spin.next_pause() == Pause::Spin));
        let mut yields = Idle::new(IdleStrategy::PARK.without_park());
        assert!((0..1000).all(|_| yields.next_pause() == Pause::Yield));
    }

    #[test]
    fn strategies_that_park_say_so() {
        assert!(IdleStrategy::PARK.parks() && IdleStrategy::SPIN_THEN_PARK.parks() && SHORT.parks());
        assert!(!IdleStrategy::SPIN.parks() && !IdleStrategy::SPIN_THEN_YIELD.parks() && !SHORT.without_park().parks());
    }
}
