//! A sequence lock over words: the writer never waits, and a reader knows whether its copy is consistent.
//!
//! The sequence word is odd while the writer is at work. A writer that dies there leaves it odd; a reader gives up
//! after a bounded number of attempts. No word is used before the reader knows that the copy is consistent.

use super::memory::{Load, Store, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The most attempts of a reader to copy a section. The writer stores only changed words, within microseconds; after
/// this many disturbed attempts the writer is dead or writes without pause.
const ATTEMPTS_MAX: usize = 64;

/// Locks the words at `at` while `store` changes them.
pub(super) fn write<M: Store>(memory: &M, at: usize, store: impl FnOnce()) {
    let sequence = memory.load(at, Relaxed) | 1;
    memory.store(at, sequence, Relaxed);
    // Partner: the Acquire fence of `read`. A reader that sees a word stored below also sees the odd number.
    fence(Release);
    store();
    memory.store(at, sequence.wrapping_add(1), Release);
}

/// Copies words of the lock at `at` by `copy`, until no writer was at work meanwhile; `None` if that does not happen.
/// `copy` must tolerate any values: its result is discarded unless consistent.
pub(super) fn read<M: Load, T>(memory: &M, at: usize, mut copy: impl FnMut() -> T) -> Option<T> {
    for _ in 0..ATTEMPTS_MAX {
        // Partner: the Release store that ends `write`.
        let before = memory.load(at, Acquire);
        if before & 1 == 0 {
            let copied = copy();
            // The loads above stay above; partner: the Release fence of `write`.
            fence(Acquire);
            if memory.load(at, Relaxed) == before {
                return Some(copied);
            }
        }
        pause();
    }
    None
}

fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// `RUSTFLAGS="--cfg loom" cargo test -p sidestep-control-api --release loom`
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    fn words() -> Arc<Vec<AtomicU64>> {
        Arc::new((0..3).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn loom_a_copy_is_whole() {
        explore(|| {
            let words = words();
            let shared = Arc::clone(&words);
            let writer = thread::spawn(move || {
                for value in 1..=2 {
                    write(&*shared, 0, || (1..3).for_each(|index| shared.store(index, value, Relaxed)));
                }
            });
            if let Some([first, second]) = read(&*words, 0, || [1, 2].map(|index| words.load(index, Relaxed))) {
                assert_eq!(first, second);
            }
            writer.join().unwrap();
            let last = read(&*words, 0, || words.load(2, Relaxed));
            assert_eq!(last, Some(2), "without a writer it is had at once");
        });
    }

    /// The writer dies at any store: a reader then gets a consistent copy or none.
    #[test]
    fn loom_a_dead_writer_leaves_whole_or_nothing() {
        explore(|| {
            let words = words();
            let shared = Arc::clone(&words);
            let writer = thread::spawn(move || {
                write(&*shared, 0, || (1..3).for_each(|index| shared.store(index, 1, Relaxed)));
                // The beginning of a second change, without its end.
                shared.store(0, 3, Relaxed);
                fence(Release);
                shared.store(1, 2, Relaxed);
            });
            if let Some([first, second]) = read(&*words, 0, || [1, 2].map(|index| words.load(index, Relaxed))) {
                assert_eq!(first, second);
            }
            writer.join().unwrap();
            assert_eq!(read(&*words, 0, || ()), None, "an odd number is for ever");
        });
    }
}
