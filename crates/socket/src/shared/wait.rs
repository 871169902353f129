//! Waiting: spin, then sleep.

use super::{Guard, Shared, Waker};
use crate::engine::Engine;
use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Turns of a spinning wait between two looks at the clock, the program's descriptors and signals.
const TURNS_PER_LOOK: u32 = 16;

/// Looks after which a spinning thread lets another one have the CPU, if there is one: some ten microseconds. Without that a thread that
/// it has just started waits for the end of a time slice, some milliseconds, where the program has one CPU.
const LOOKS_PER_YIELD: u32 = 8;

/// Turns in which a spinning thread leaves the lock to others before it waits for it as they do: somebody has to poll.
const MISSES_MAX: u32 = 64;

/// What ends a wait, besides its condition.
pub struct Wait<'a> {
    /// The thread's waker.
    pub waker: &'a Waker,
    /// The time at which it ends.
    pub deadline: Option<Instant>,
    /// The time for which it spins before it sleeps.
    pub spin: Duration,
    /// Descriptors of the kernel that end it, and the events of poll(2) that do. They are looked at again by who wants their events.
    pub also: &'a [(BorrowedFd<'a>, PollFlags)],
    /// Returns whether a signal handler has run that ends the call. Asked while it spins; a sleep ends by EINTR.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// What has ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken<T> {
    /// The condition.
    Ready(T),
    /// A descriptor of [`Wait::also`].
    Kernel,
    /// The deadline.
    Deadline,
    /// A signal.
    Interrupted,
    /// Its waker; or another thread has gone that slept for this one, too. Check what you wait for, and wait again.
    Woken,
}

impl Wait<'_> {
    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// The outcome of a look at everything but the condition.
    fn look<T>(&self, now: Instant) -> Option<Woken<T>> {
        if self.waker.take() {
            return Some(Woken::Woken);
        }
        if (self.interrupted)() {
            return Some(Woken::Interrupted);
        }
        if !self.also.is_empty() && poll_all(&[], self.also, Some(Duration::ZERO)) == Slept::Also {
            return Some(Woken::Kernel);
        }
        self.is_over(now).then_some(Woken::Deadline)
    }
}

pub(super) fn run<T>(
    shared: &Shared,
    wait: &mut Wait<'_>,
    mut is_ready: impl FnMut(&mut Engine) -> Option<T>,
) -> Result<Woken<T>, Error> {
    match spin(shared, wait, &mut is_ready)? {
        Some(woken) => Ok(woken),
        None => sleep(shared, wait, &mut is_ready),
    }
}

fn spin<T>(
    shared: &Shared,
    wait: &Wait<'_>,
    is_ready: &mut impl FnMut(&mut Engine) -> Option<T>,
) -> Result<Option<Woken<T>>, Error> {
    let turns = if wait.spin.is_zero() { 1 } else { TURNS_PER_LOOK };
    // A time that the clock does not reach is never over.
    let until = Instant::now().checked_add(wait.spin);
    let (mut misses, mut looks, mut was_told, mut has_looked) = (0, 0_u32, false, false);
    loop {
        let mut held: Option<Guard<'_>> = None;
        for _ in 0..turns {
            // Who waits for the lock gets it; else it is kept from turn to turn.
            let kept = held.take().filter(|_| !shared.engine.has_waiting());
            let is_kept = kept.is_some();
            let guard = match kept {
                Some(guard) => Some(guard),
                None if misses < MISSES_MAX => shared.try_lock()?,
                None => Some(shared.lock()?),
            };
            let Some(mut guard) = guard else {
                misses += 1;
                std::hint::spin_loop();
                if wait.waker.take() {
                    // Nobody tells it again: it is the next to have the lock.
                    (was_told, misses) = (true, MISSES_MAX);
                }
                continue;
            };
            (misses, has_looked) = (0, true);
            guard.poll()?;
            // Whoever is told of a change wakes this thread: without that its condition is as it was since it has the lock.
            guard.show_events();
            let is_told = wait.waker.take() | std::mem::take(&mut was_told);
            if (is_told || !is_kept)
                && let Some(ready) = is_ready(&mut guard)
            {
                return Ok(Some(Woken::Ready(ready)));
            }
            if is_told {
                return Ok(Some(Woken::Woken));
            }
            held = Some(guard);
            // Another thread of this core may have the work.
            std::hint::spin_loop();
        }
        drop(held);
        if was_told {
            continue;
        }
        let now = Instant::now();
        if let Some(woken) = wait.look(now) {
            // A call with no time to wait has an answer of its own, not the outcome of a race for the lock.
            if matches!(woken, Woken::Deadline) && !has_looked {
                misses = MISSES_MAX;
                continue;
            }
            return Ok(Some(woken));
        }
        if until.is_some_and(|until| now >= until) {
            return Ok(None);
        }
        looks = looks.wrapping_add(1);
        // There may be more threads than CPUs.
        if misses != 0 || looks.is_multiple_of(LOOKS_PER_YIELD) {
            std::thread::yield_now();
        }
    }
}

/// A thread among the sleepers, with the engine locked or not. Dropped, it is one no more, also after a panic of its condition.
struct Place<'a> {
    shared: &'a Shared,
    waker: &'a Waker,
    guard: Option<Guard<'a>>,
}

impl<'a> Place<'a> {
    /// The engine, locked.
    fn guard(&mut self) -> Result<&mut Guard<'a>, Error> {
        let guard = match self.guard.take() {
            Some(guard) => guard,
            None => self.shared.lock()?,
        };
        Ok(self.guard.insert(guard))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (shared, waker) = (self.shared, self.waker);
        // A forked child has no sleeping threads.
        if let Ok(guard) = self.guard() {
            guard.sleepers().leave(waker, &shared.helper);
        }
    }
}

fn sleep<T>(
    shared: &Shared,
    wait: &Wait<'_>,
    is_ready: &mut impl FnMut(&mut Engine) -> Option<T>,
) -> Result<Woken<T>, Error> {
    let mut place = Place { shared, waker: wait.waker, guard: None };
    let mut slept = Slept::Own;
    let mut was_woken = false;
    let mut wake_ups = 0;
    loop {
        let guard = place.guard()?;
        guard.turns().wake_ups += std::mem::take(&mut wake_ups);
        guard.wake();
        guard.poll()?;
        if let Some(ready) = is_ready(guard) {
            return Ok(Woken::Ready(ready));
        }
        match slept {
            _ if was_woken => return Ok(Woken::Woken),
            Slept::Interrupted => return Ok(Woken::Interrupted),
            _ if (wait.interrupted)() => return Ok(Woken::Interrupted),
            Slept::Also => return Ok(Woken::Kernel),
            Slept::Own | Slept::Timeout if wait.is_over(Instant::now()) => return Ok(Woken::Deadline),
            Slept::Own | Slept::Timeout => {}
        }
        // Under the lock: what changes from here on is shown to an observer, who finds this thread asleep.
        if !wait.waker.fall_asleep() {
            wait.waker.take();
            return Ok(Woken::Woken);
        }
        let is_leader = guard.sleepers().enter(wait.waker, &shared.helper);
        if is_leader {
            guard.watch();
        }
        let idle = is_leader.then(|| guard.idle_time());
        guard.turns().sleeps += 1;
        place.guard = None;
        slept = rest(shared, wait, idle);
        wake_ups = u64::from(slept != Slept::Timeout);
        was_woken = wait.waker.get_up();
    }
}

/// Sleeps: who leads on the engine's descriptors, too, for at most so long.
fn rest(shared: &Shared, wait: &Wait<'_>, idle: Option<Duration>) -> Slept {
    let left = wait.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let Some(idle) = idle else { return poll_all(&[wait.waker.descriptor()], wait.also, left) };
    let own = [wait.waker.descriptor(), shared.sources.descriptor()];
    let slept = poll_all(&own, wait.also, Some(left.map_or(idle, |left| left.min(idle))));
    shared.sources.take_agent_events();
    slept
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slept {
    Own,
    Also,
    Timeout,
    Interrupted,
}

/// Sleeps on descriptors. rustix makes the system call itself: this is no cancellation point of the C library.
pub(super) fn poll_all(
    own: &[BorrowedFd<'_>],
    also: &[(BorrowedFd<'_>, PollFlags)],
    timeout: Option<Duration>,
) -> Slept {
    let mut all: Vec<PollFd<'_>> = own.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    all.extend(also.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut all, timeout.as_ref()) {
        Err(_) => Slept::Interrupted,
        Ok(0) => Slept::Timeout,
        Ok(_) if all[own.len()..].iter().any(|fd| !fd.revents().is_empty()) => Slept::Also,
        Ok(_) => Slept::Own,
    }
}
