//! Sleeping on a flag of a ring, and waking who sleeps there.

#[cfg(not(loom))]
use crate::memory::Memory;
use crate::ring::{Kind, Ring};
#[cfg(loom)]
use crate::sync::fence;
use crate::sync::{Acquire, Relaxed, SeqCst};
use crate::waking::Waking;
#[cfg(not(loom))]
use crate::waking::scope;
use std::time::Duration;

/// Bit of a flag: a side sleeps on the flag itself.
const ASLEEP: u32 = 1;
/// Bit of a flag: the reader sleeps elsewhere and has requested the writer's doorbell.
const DOORBELL_REQUESTED: u32 = 2;
/// The bits above count wake-ups. A side that is about to sleep during a wake-up finds another number and does not
/// sleep, even if another reader of the same ring has set the bit again meanwhile.
const WAKE_UP: u32 = 4;

/// The longest sleep if it is not certain that the other side sees the flag.
#[cfg(not(loom))]
const UNCERTAIN_NAP: Duration = Duration::from_millis(5);

/// Far longer than a CPU delays a store: after this time, stores that the other side made without seeing the flag are
/// visible. A reader that requests the doorbell waits this long if there is no barrier, as its sleep is unbounded.
#[cfg(not(loom))]
const STORES_SEEN_AFTER: Duration = Duration::from_micros(100);

/// Wakes those who sleep on the flag at `at`, if any; returns true when the caller has to ring its doorbell for them. To be called
/// after what they wait for is stored. One side alone wakes on a flag.
#[inline(always)]
pub(crate) fn wake(ring: &Ring, at: usize) -> bool {
    is_asleep(ring, at) && wake_sleepers(ring, at)
}

/// Returns whether somebody sleeps on the flag at `at`. To be called after what it waits for is stored.
#[inline(always)]
pub(crate) fn is_asleep(ring: &Ring, at: usize) -> bool {
    if ring.waking == Waking::Never {
        return false;
    }
    ring.waking.after_publish();
    ring.memory.flag(at).load(Relaxed) & (ASLEEP | DOORBELL_REQUESTED) != 0
}

#[cold]
fn wake_sleepers(ring: &Ring, at: usize) -> bool {
    let flag = ring.memory.flag(at);
    // Sleepers only set bits: a bit set between load and swap is in the result of the swap.
    let given = (flag.load(Relaxed) & !(ASLEEP | DOORBELL_REQUESTED)).wrapping_add(WAKE_UP);
    let sleepers = flag.swap(given, SeqCst);
    #[cfg(not(loom))]
    if sleepers & ASLEEP != 0 {
        sidestep_sys::futex::wake_all(futex(&ring.memory, at), scope(ring.is_shared));
    }
    #[cfg(loom)]
    fence(SeqCst);
    sleepers & DOORBELL_REQUESTED != 0
}

/// The sleeps of one side.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    /// The flag as this side left it when it last announced a sleep. While it is unchanged, no message was published
    /// since, a later one will see it, and another sleep needs no further barrier.
    announced: Option<u32>,
    /// The number of announcements, each with a barrier.
    announcements: u64,
}

impl Sleeper {
    pub(crate) fn announcements(&self) -> u64 {
        self.announcements
    }

    /// Asks the other side to call its doorbell once when `is_ready` holds; returns false if it holds already.
    pub(crate) fn request_doorbell(&mut self, ring: &Ring, at: usize, is_ready: impl FnOnce() -> bool) -> bool {
        self.announce(ring, at, DOORBELL_REQUESTED, is_ready).is_some()
    }

    /// Sleeps on the flag at `at` for at most `nap`, unless `is_ready` after the flag is set.
    pub(crate) fn sleep(&mut self, ring: &Ring, at: usize, nap: Duration, is_ready: impl FnOnce() -> bool) {
        let Some(word) = self.announce(ring, at, ASLEEP, is_ready) else { return };
        #[cfg(not(loom))]
        {
            let nap = if self.announced.is_some() { nap } else { nap.min(UNCERTAIN_NAP) };
            sidestep_sys::futex::wait(futex(&ring.memory, at), word, nap, scope(ring.is_shared));
        }
        // futex(2) implies a full barrier on either side. loom has no clock: a model in which the flag never changes
        // runs out of steps, and that is the failure.
        #[cfg(loom)]
        while {
            fence(SeqCst);
            ring.memory.flag(at).load(Relaxed) == word
        } {
            let _ = nap;
            crate::sync::pause();
        }
    }

    /// Acts as another reader about to sleep, for tests and models.
    #[cfg(any(test, loom))]
    pub(crate) fn announce_sleep(&mut self, ring: &Ring, at: usize) {
        assert!(self.announce(ring, at, ASLEEP, || false).is_some());
    }

    /// Sets the flag at `at` in the form `how` and returns it; `None` if `is_ready` after that.
    fn announce(&mut self, ring: &Ring, at: usize, how: u32, is_ready: impl FnOnce() -> bool) -> Option<u32> {
        let flag = ring.memory.flag(at);
        let stands = |word: &u32| word & how != 0 && flag.load(Acquire) == *word;
        if let Some(word) = self.announced.filter(stands) {
            return Some(word);
        }
        let word = flag.fetch_or(how, Relaxed) | how;
        self.announcements += 1;
        self.announced = ring.waking.before_sleep(ring.is_shared).then_some(word);
        #[cfg(not(loom))]
        if self.announced.is_none() && how == DOORBELL_REQUESTED {
            std::thread::sleep(STORES_SEEN_AFTER);
        }
        if !is_ready() {
            return Some(word);
        }
        // Readers of a broadcast ring share the bit, so it stays set: one needless wake-up at most. In an SPSC ring it
        // is cleared, unless the other side was faster: it then wakes this side, or calls the doorbell, and that is
        // waited for.
        if ring.kind == Kind::Broadcast {
            return None;
        }
        self.announced = None;
        (flag.fetch_and(!how, SeqCst) & how == 0).then_some(word)
    }
}

#[cfg(not(any(loom, test)))]
fn futex(memory: &Memory, at: usize) -> &crate::sync::Flag {
    memory.flag(at)
}

#[cfg(all(test, not(loom)))]
fn futex(memory: &Memory, at: usize) -> &std::sync::atomic::AtomicU32 {
    memory.flag(at).inner()
}

/// Returns whether a flag says that its side sleeps.
pub(crate) fn says_asleep(flag: u32) -> bool {
    flag & (ASLEEP | DOORBELL_REQUESTED) != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::READER_SLEEPS_AT;
    use crate::{Cell, Options};
    use std::sync::mpsc::channel;
    use std::time::Instant;

    fn ring(kind: Kind) -> Ring {
        crate::private::private(&Options { kind, cell: Cell::Line, bytes: 4096, waking: Waking::Barrier }).unwrap()
    }

    /// Tests the window between the last check and the futex: the message comes, and another reader, which has received
    /// it, is asleep again. Both share the bit; the number above it has changed.
    #[test]
    fn a_reader_that_is_late_to_sleep_does_not_miss_its_wake_up() {
        let ring = crate::sync::Arc::new(ring(Kind::Broadcast));
        let (done, is_done) = channel();
        let late = crate::sync::Arc::clone(&ring);
        std::thread::spawn(move || {
            let meanwhile = || {
                assert!(!wake(&late, READER_SLEEPS_AT), "nobody has asked for a doorbell");
                Sleeper::default().announce_sleep(&late, READER_SLEEPS_AT);
                false
            };
            Sleeper::default().sleep(&late, READER_SLEEPS_AT, Duration::from_secs(600), meanwhile);
            done.send(())
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("it does not sleep");
    }

    #[test]
    fn one_announcement_lasts_until_the_other_side_wakes() {
        for kind in [Kind::Spsc, Kind::Broadcast] {
            let ring = ring(kind);
            let mut sleeper = Sleeper::default();
            for _ in 0..5 {
                sleeper.sleep(&ring, READER_SLEEPS_AT, Duration::from_millis(1), || false);
            }
            assert_eq!(sleeper.announcements(), 1);
            assert!(is_asleep(&ring, READER_SLEEPS_AT));
            assert!(!wake(&ring, READER_SLEEPS_AT) && !is_asleep(&ring, READER_SLEEPS_AT));
            sleeper.sleep(&ring, READER_SLEEPS_AT, Duration::from_millis(1), || false);
            assert_eq!(sleeper.announcements(), 2);
        }
    }

    /// In a thread whose sandbox refuses membarrier(2), the last check must come after the other side's stores are
    /// visible: a reader that requests the doorbell sleeps without a limit.
    #[test]
    fn without_a_barrier_the_last_look_is_late_enough() {
        std::thread::spawn(|| {
            let ring = ring(Kind::Spsc);
            refuse(libc::SYS_membarrier);
            let begin = Instant::now();
            let mut looked_after = Duration::ZERO;
            let asked = Sleeper::default().request_doorbell(&ring, READER_SLEEPS_AT, || {
                looked_after = begin.elapsed();
                false
            });
            assert!(asked && looked_after >= STORES_SEEN_AFTER, "{looked_after:?}");
        })
        .join()
        .unwrap();
    }

    /// Makes the kernel answer EPERM to this call of this thread.
    fn refuse(call: i64) {
        let code = |code: u32| u16::try_from(code).unwrap();
        let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let end = |verdict| filter(code(libc::BPF_RET | libc::BPF_K), 0, 0, verdict);
        let mut filters = [
            // The number of the call is first in struct seccomp_data.
            filter(code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0, 0),
            filter(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), 0, 1, u32::try_from(call).unwrap()),
            end(libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
            end(libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filters.as_mut_ptr() };
        // SAFETY: prctl reads a program of four instructions, which lives until it returns.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn what_is_there_after_the_announcement_is_not_slept_over() {
        let ring = ring(Kind::Spsc);
        let mut sleeper = Sleeper::default();
        sleeper.sleep(&ring, READER_SLEEPS_AT, Duration::MAX, || true);
        assert!(!is_asleep(&ring, READER_SLEEPS_AT), "the bit is down again");
        assert!(!sleeper.request_doorbell(&ring, READER_SLEEPS_AT, || true));
        assert!(sleeper.request_doorbell(&ring, READER_SLEEPS_AT, || wake(&ring, READER_SLEEPS_AT)), "it has rung");
        assert!(sleeper.request_doorbell(&ring, READER_SLEEPS_AT, || false));
        assert!(sleeper.request_doorbell(&ring, READER_SLEEPS_AT, || unreachable!("it has been asked for")));
        assert!(wake(&ring, READER_SLEEPS_AT), "the doorbell is to be rung");
        assert!(!wake(&ring, READER_SLEEPS_AT), "once");
    }
}
