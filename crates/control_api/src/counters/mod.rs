//! A page of counters that an application writes and others read: `sidestep ps` and `top`, through control.
//!
//! Control makes the page and seals its size; only the application writes it: one plain store per count, no locked
//! instruction. Readers trust nothing but numbers.

mod list;

pub use list::{Counter, Meaning};

use sidestep_sys::Problem;
use sidestep_sys::words::{Words, WordsView, Writers};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const MAGIC: u64 = u64::from_le_bytes(*b"SIDECNTS");

/// The version of the page. Meanings of numbers never change, so a newer list is only longer.
const PAGE_VERSION: u64 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const STACK_AT: usize = 2;
/// The first counter; each has its own word. Counters that change together share cache lines, which only their writer
/// accesses.
const COUNTERS_AT: usize = 8;

/// The size of the page, words.
pub(crate) const PAGE_WORDS: usize = 512;

/// The most counters of a page.
pub const COUNTERS_MAX: usize = PAGE_WORDS - COUNTERS_AT;

const _: () = assert!(Counter::ALL.len() <= COUNTERS_MAX);

/// The application's end, which counts.
#[derive(Debug)]
pub struct Counters(Words);

impl Counters {
    /// Makes a page; returns the view and the descriptor to hand over.
    pub fn create(stack: u32) -> Result<(CountersView, OwnedFd), Problem> {
        let problem = |error| Problem::failed("cannot make a page of counters", error).next("free some memory");
        let (words, file) = Words::create("sidestep-counters", PAGE_WORDS, Writers::Holders).map_err(problem)?;
        words.word(VERSION_AT).store(PAGE_VERSION, Relaxed);
        words.word(STACK_AT).store(u64::from(stack), Relaxed);
        words.word(MAGIC_AT).store(MAGIC, Release);
        let view = CountersView::open(std::os::fd::AsFd::as_fd(&file))?;
        Ok((view, file))
    }

    /// Maps a page received from control.
    pub fn open(file: BorrowedFd<'_>) -> Result<Self, Problem> {
        let words = Words::open(file, PAGE_WORDS)?;
        let header = [words.word(MAGIC_AT).load(Acquire), words.word(VERSION_AT).load(Relaxed)];
        check(header)?;
        Ok(Self(words))
    }

    /// Makes a page of this process alone, for programs that run without control.
    pub fn private() -> Result<Self, Problem> {
        let (_view, file) = Self::create(0)?;
        Self::open(std::os::fd::AsFd::as_fd(&file))
    }

    /// Adds to a counter. Only one thread counts: this is a load and a store.
    #[inline]
    pub fn add(&self, counter: Counter, count: u64) {
        let word = self.0.word(COUNTERS_AT + counter as usize);
        word.store(word.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, counter: Counter, value: u64) {
        self.0.word(COUNTERS_AT + counter as usize).store(value, Relaxed);
    }

    /// The value of a counter.
    #[inline]
    pub fn value(&self, counter: Counter) -> u64 {
        self.0.word(COUNTERS_AT + counter as usize).load(Relaxed)
    }
}

/// The read-only end for others. The bytes are the application's, and may be anything.
#[derive(Debug)]
pub struct CountersView(WordsView);

impl CountersView {
    /// Maps the page of an application.
    pub fn open(file: BorrowedFd<'_>) -> Result<Self, Problem> {
        let words = WordsView::open(file, PAGE_WORDS)?;
        check([words.load(MAGIC_AT, Acquire), words.load(VERSION_AT, Relaxed)])?;
        Ok(Self(words))
    }

    /// Every counter of this version with its value. Each is read by itself; together they are consistent only while
    /// the application is idle.
    pub fn values(&self) -> Vec<(Counter, u64)> {
        Counter::ALL.iter().map(|counter| (*counter, self.value(*counter))).collect()
    }

    /// The value of one counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0.load(COUNTERS_AT + counter as usize, Relaxed)
    }
}

fn check(header: [u64; 2]) -> Result<(), Problem> {
    if header == [MAGIC, PAGE_VERSION] {
        return Ok(());
    }
    Err(Problem::failed("cannot use a page of counters", "it is not one, or of another version")
        .next("restart the control plane and the program from the same version of sidestep"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_counted_is_seen() {
        let (view, file) = Counters::create(3).unwrap();
        let counters = Counters::open(file.as_fd()).unwrap();
        counters.add(Counter::ReceivedFrames, 2);
        counters.add(Counter::ReceivedFrames, 3);
        counters.set(Counter::Sockets, 9);
        assert_eq!((view.value(Counter::ReceivedFrames), view.value(Counter::Sockets)), (5, 9));
        assert_eq!(view.values().iter().map(|(_, value)| value).sum::<u64>(), 14);
        assert_eq!(counters.value(Counter::SentFrames), 0);
    }

    #[test]
    fn a_page_that_its_owner_spoils_still_gives_numbers_and_a_strange_one_is_refused() {
        let (view, file) = Counters::create(0).unwrap();
        let raw = Words::open(file.as_fd(), PAGE_WORDS).unwrap();
        (0..PAGE_WORDS).for_each(|index| raw.word(index).store(u64::MAX, Relaxed));
        assert!(view.values().iter().all(|(_, value)| *value == u64::MAX));
        Counters(raw).add(Counter::SentFrames, 2);
        assert_eq!(view.value(Counter::SentFrames), 1, "it wraps");
        assert!(CountersView::open(file.as_fd()).unwrap_err().to_string().contains("another version"));
        assert!(Counters::open(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn numbers_are_the_order_of_the_list() {
        for (number, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, number);
            assert!(!counter.description().is_empty());
            assert_eq!(Counter::ALL.iter().filter(|other| other.name() == counter.name()).count(), 1);
        }
    }
}
