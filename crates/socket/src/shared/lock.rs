//! A lock that serves waiting threads in the order of their coming.
//!
//! [`Mutex`] lets a running thread overtake one that sleeps: a thread that spins on the engine would keep the lock from all others.
//! So whoever finds it taken draws a ticket, and until the last ticket is served nobody gets the lock without one. The mutex alone
//! decides who has the lock; tickets only order those who ask for it.

use sidestep_sys::futex::{self, Scope};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Looks at the tickets before a thread sleeps: the lock is held for a microsecond or so.
const LOOKS: u32 = 200;

/// Between two looks of a thread that sleeps. It is woken for its ticket.
const NAP: Duration = Duration::from_secs(1);

/// Words to sleep on. With one word for all, each of a thousand threads is woken for each ticket of the others.
const WAIT_WORDS: usize = 256;

#[derive(Debug)]
pub(super) struct Lock<T> {
    inner: Mutex<T>,
    /// The next ticket.
    next: AtomicU32,
    /// The ticket that is served.
    serving: AtomicU32,
    /// Threads that sleep until their ticket is served.
    asleep: AtomicU32,
    /// What they sleep on: the word of their ticket's number, changed when it is served.
    wait_words: Box<[AtomicU32; WAIT_WORDS]>,
}

/// A ticket that is served. Dropped, the next one is.
struct Served<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            inner: Mutex::new(value),
            next: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            wait_words: Box::new([const { AtomicU32::new(0) }; WAIT_WORDS]),
        }
    }

    /// Locks, behind everybody who waits already. A thread that panicked with the lock does not keep others from it: the engine goes on
    /// with the state that its last call has left, as any of its callers would after an error.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        if let Some(locked) = self.try_lock() {
            return locked;
        }
        let _served = self.queue();
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks, if nobody has the lock or waits for it.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.has_waiting() {
            return None;
        }
        match self.inner.try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns whether threads wait for the lock.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }

    /// Draws a ticket, and waits until it is served.
    fn queue(&self) -> Served<'_, T> {
        let ticket = self.next.fetch_add(1, Ordering::SeqCst);
        for _ in 0..LOOKS {
            if self.serving.load(Ordering::SeqCst) == ticket {
                return Served(self);
            }
            std::hint::spin_loop();
        }
        // Before the look at `serving`: whoever serves looks at it afterwards.
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let word = self.wait_word(ticket);
        loop {
            // Before the look at `serving`: the word is changed after that.
            let seen = word.load(Ordering::SeqCst);
            if self.serving.load(Ordering::SeqCst) == ticket {
                break;
            }
            futex::wait(word, seen, NAP, Scope::Private);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        Served(self)
    }

    fn wait_word(&self, ticket: u32) -> &AtomicU32 {
        &self.wait_words[ticket as usize % WAIT_WORDS]
    }
}

impl<T> Drop for Served<'_, T> {
    fn drop(&mut self) {
        let next = self.0.serving.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        if self.0.asleep.load(Ordering::SeqCst) != 0 {
            let word = self.0.wait_word(next);
            word.fetch_add(1, Ordering::SeqCst);
            futex::wake_all(word, Scope::Private);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::thread::{scope, yield_now};

    #[test]
    fn threads_that_wait_are_served_while_others_spin() {
        let (lock, is_over) = (Lock::new(0_u64), AtomicBool::new(false));
        let turns: [AtomicU64; 8] = Default::default();
        scope(|scope| {
            for number in 0..2 {
                let (lock, is_over, turns) = (&lock, &is_over, &turns);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        if let Some(mut value) = lock.try_lock() {
                            *value += 1;
                            turns[number].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let waiting: Vec<_> = (2..8)
                .map(|number| {
                    let (lock, turns) = (&lock, &turns);
                    scope.spawn(move || {
                        for _ in 0..1_000 {
                            *lock.lock() += 1;
                            turns[number].fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            waiting.into_iter().for_each(|thread| thread.join().unwrap());
            while turns[..2].iter().any(|turns| turns.load(Ordering::Relaxed) == 0) {
                yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let all: u64 = turns.iter().map(|turns| turns.load(Ordering::Relaxed)).sum();
        assert_eq!(*lock.lock(), all);
    }

    #[test]
    fn tickets_are_served_in_order() {
        let (lock, order) = (Lock::new(()), Mutex::new(Vec::new()));
        let held = lock.lock();
        scope(|scope| {
            for number in 0..6_u32 {
                let (lock, order) = (&lock, &order);
                scope.spawn(move || {
                    let _locked = lock.lock();
                    order.lock().unwrap().push(number);
                });
                while lock.next.load(Ordering::SeqCst) != number + 1 {
                    yield_now();
                }
            }
            assert!(lock.try_lock().is_none());
            drop(held);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert!(lock.try_lock().is_some());
    }

    /// The times that this thread has slept.
    fn sleeps() -> u64 {
        let status = sidestep_sys::file::read_text(std::path::Path::new("/proc/thread-self/status"), 1 << 16).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn who_waits_is_not_woken_for_the_tickets_of_others() {
        const THREADS: u32 = 500;
        let (lock, slept) = (Lock::new(()), AtomicU64::new(0));
        let held = lock.lock();
        scope(|scope| {
            for number in 0..THREADS {
                let (lock, slept) = (&lock, &slept);
                scope.spawn(move || {
                    let before = sleeps();
                    drop(lock.lock());
                    slept.fetch_add(sleeps() - before, Ordering::Relaxed);
                });
                // The first has its ticket served, and waits for the lock.
                while lock.asleep.load(Ordering::SeqCst) != number {
                    yield_now();
                }
            }
            drop(held);
        });
        // Some wait for the lock itself, too; with one word it was half of the square.
        assert!(slept.into_inner() < u64::from(THREADS) * 20);
    }

    #[test]
    fn a_panic_does_not_keep_others_from_the_lock() {
        let lock = Lock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _locked = lock.lock();
            panic!("with the lock held");
        }));
        assert!(panicked.is_err());
        assert_eq!((lock.try_lock().map(|value| *value), *lock.lock()), (Some(1), 1));
    }
}
