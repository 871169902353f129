//! Wake-ups of a thread that waits.

use rustix::event::{EventfdFlags, eventfd};
use sidestep_sys::Problem;
use sidestep_sys::own_descriptors::keep;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const IDLE: u32 = 0;
/// The thread is about to sleep on the descriptor, or sleeps.
const ASLEEP: u32 = 1;
/// It sleeps, and was got up to lead: its wait does not end.
const PROMOTED: u32 = 2;
const WOKEN: u32 = 3;

/// Ends the [`wait`](super::SharedEngine::wait) of one thread. Cheap while the thread does not sleep: one atomic exchange.
/// A wake-up that comes before the wait ends it at once.
///
/// One word decides: a thread falls asleep by exchanging `IDLE` for `ASLEEP`, which fails where a wake-up was before, and
/// whoever finds `ASLEEP` writes the descriptor, which stays readable until the thread has got up. So no wake-up is lost.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU32,
    eventfd: OwnedFd,
}

impl Waker {
    /// Makes one: an eventfd.
    pub fn new() -> Result<Self, Problem> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Problem::failed("cannot make an eventfd", error))?;
        Ok(Self(Arc::new(Inner { state: AtomicU32::new(IDLE), eventfd: keep(eventfd) })))
    }

    /// Ends the present wait of its thread, or the next.
    pub fn wake(&self) {
        if self.0.state.swap(WOKEN, Ordering::SeqCst) == ASLEEP {
            // Full is awake.
            let _ = rustix::io::write(&self.0.eventfd, &1_u64.to_ne_bytes());
        }
    }

    /// Gets a sleeping thread up, without ending its wait.
    pub(super) fn promote(&self) {
        let state = &self.0.state;
        if state.compare_exchange(ASLEEP, PROMOTED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // Full is awake.
            let _ = rustix::io::write(&self.0.eventfd, &1_u64.to_ne_bytes());
        }
    }

    /// Takes a wake-up, if one has come.
    pub(super) fn take(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == WOKEN
            && self.0.state.compare_exchange(WOKEN, IDLE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// From here on a wake-up makes the descriptor readable; false where one has come already.
    pub(super) fn fall_asleep(&self) -> bool {
        self.0.state.compare_exchange(IDLE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// After the sleep; returns whether it was woken.
    pub(super) fn get_up(&self) -> bool {
        let state = self.0.state.swap(IDLE, Ordering::SeqCst);
        if state != ASLEEP {
            // Where the writer has not come to it yet, the next sleep ends at once, and looks again.
            let _ = rustix::io::read(&self.0.eventfd, &mut [0; 8]);
        }
        state == WOKEN
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
impl Waker {
    pub(super) fn is_readable(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut asked = [PollFd::new(&self.0.eventfd, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_wake_up_is_taken_once_whether_it_comes_before_or_in_the_sleep() {
        let waker = Waker::new().unwrap();
        assert!(!waker.take());
        waker.wake();
        waker.wake();
        assert!(!waker.fall_asleep() && waker.take() && !waker.take());
        assert!(waker.fall_asleep());
        waker.wake();
        assert!(waker.get_up() && !waker.take());
        assert!(waker.fall_asleep() && !waker.get_up());
        assert!(waker.fall_asleep());
        waker.promote();
        waker.wake();
        assert!(waker.is_readable() && waker.get_up() && !waker.is_readable(), "both");
        waker.promote();
        assert!(!waker.is_readable() && waker.fall_asleep(), "who does not sleep needs no getting up");
    }

    #[test]
    fn no_wake_up_is_lost() {
        const COUNT: u64 = 20_000;
        let (waker, made) = (Waker::new().unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=COUNT {
                    made.store(number, Ordering::SeqCst);
                    waker.wake();
                }
            });
            // A lost one would leave this asleep before the last number.
            while made.load(Ordering::SeqCst) < COUNT {
                if waker.fall_asleep() {
                    let slept = super::super::wait::poll_all(&[waker.descriptor()], &[], None);
                    assert_eq!(slept, super::super::wait::Slept::Own);
                    waker.get_up();
                } else {
                    assert!(waker.take());
                }
            }
        });
    }
}
