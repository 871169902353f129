//! One ring shared with the kernel: single producer, single consumer, free-running indices.
//!
//! ```text
//!  producer  u32, written by the one that puts in, release
//!  consumer  u32, written by the one that takes out, release
//!  flags     u32, XDP_RING_NEED_WAKEUP, written by the kernel
//!  entries   size times u64 (FILL, COMPLETION) or Descriptor (RX, TX); size is a power of two
//! ```
//!
//! The kernel pairs its loads and stores of the indices with acquire and release (net/xdp/xsk_queue.h), and so do we.
//! Values written by the other side are not trusted: indices are masked, and a count larger than the ring is ignored.

use super::abi::Descriptor;
use crate::memory::Mapping;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The type of a ring's entries.
pub trait Entry: Copy + sealed::Sealed {}
impl Entry for u64 {}
impl Entry for Descriptor {}

mod sealed {
    /// Any bits are a value of these types, which is what makes a ring of them safe to read.
    #[expect(unnameable_types, reason = "nobody else may implement it")]
    /// Types of which any bits are a value, so that a ring of them is safe to read.
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// The words of a ring that both sides read. The mapping lives as long as they are used.
#[derive(Clone, Debug)]
struct Words {
    _memory: Arc<Mapping>,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
}

impl Words {
    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `Layout::words` placed it, aligned, inside of the mapping that `self` keeps.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for the producer.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The offsets of a ring's parts in its mapping, and its number of entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
    pub(super) size: u32,
}

impl Layout {
    /// The bytes that a ring of these entries takes; `None` if its parts overlap or are misaligned.
    pub(super) fn bytes<T: Entry>(self) -> Option<usize> {
        let words = [self.producer, self.consumer, self.flags];
        let aligned = words.iter().all(|word| word.is_multiple_of(4)) && self.entries.is_multiple_of(align_of::<T>());
        let last_word = words.into_iter().max()?.checked_add(4)?;
        let end = self.entries.checked_add((self.size as usize).checked_mul(size_of::<T>())?)?;
        (aligned && self.size.is_power_of_two()).then_some(end.max(last_word))
    }

    fn words<T: Entry>(self, memory: Arc<Mapping>) -> Option<(Words, NonNull<T>)> {
        if self.bytes::<T>()? > memory.len() {
            return None;
        }
        // SAFETY: `bytes` has checked that each part lies inside of the mapping.
        let at = |offset: usize| unsafe { memory.base().add(offset) };
        let (producer, consumer) = (at(self.producer).cast(), at(self.consumer).cast());
        let (flags, entries) = (at(self.flags).cast(), at(self.entries).cast());
        Some((Words { _memory: memory, producer, consumer, flags }, entries))
    }
}

/// The producer's side of a ring: FILL and TX.
#[derive(Debug)]
pub struct Producer<T> {
    words: Words,
    entries: NonNull<T>,
    size: u32,
    /// The index of the next entry.
    next: u32,
    /// The consumer index as last read.
    taken: u32,
}

// SAFETY: the pointers lead into a mapping that belongs to the process; one owner at a time puts entries in.
unsafe impl<T: Send> Send for Producer<T> {}

impl<T: Entry> Producer<T> {
    pub(super) fn new(memory: Arc<Mapping>, layout: Layout) -> Option<Self> {
        let (words, entries) = layout.words(memory)?;
        let next = words.producer().load(Ordering::Relaxed);
        let taken = words.consumer().load(Ordering::Acquire);
        Some(Self { words, entries, size: layout.size, next, taken })
    }

    /// The number of entries that can be pushed. The other side's index is read only if fewer than `wanted` are known
    /// to be free.
    #[inline]
    pub fn free(&mut self, wanted: u32) -> u32 {
        let free = self.known_free();
        if free >= wanted {
            return free;
        }
        self.taken = self.words.consumer().load(Ordering::Acquire);
        self.known_free()
    }

    /// The number of entries known to be free. A consumer index beyond the producer, or behind it by more than the
    /// ring, is not trusted: the ring counts as full.
    #[inline]
    fn known_free(&self) -> u32 {
        self.size.saturating_sub(self.next.wrapping_sub(self.taken))
    }

    /// Pushes an entry; false if the ring is full. The kernel sees it after [`Producer::publish`].
    #[inline]
    pub fn push(&mut self, entry: T) -> bool {
        if self.free(1) == 0 {
            return false;
        }
        let slot = (self.next & (self.size - 1)) as usize;
        // SAFETY: `slot` is below the ring's size, whose entries lie inside of the mapping; the entry is ours to write
        // until the producer index says otherwise.
        unsafe { self.entries.add(slot).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes the pushed entries visible to the kernel.
    #[inline]
    pub fn publish(&mut self) {
        self.words.producer().store(self.next, Ordering::Release);
    }

    /// The number of published entries that the kernel has not taken yet.
    #[inline]
    pub fn pending(&self) -> u32 {
        pending(&self.words)
    }

    /// Returns whether nothing has ever been published: only its first user knows the frames of a used ring.
    pub fn is_fresh(&self) -> bool {
        self.words.producer().load(Ordering::Relaxed) == 0
    }

    /// Returns whether the kernel needs a system call before it looks at the ring.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.words.needs_wakeup()
    }

    /// Returns a read-only view of the ring for another thread.
    pub fn probe(&self) -> Probe {
        Probe(self.words.clone())
    }
}

/// A read-only view of a ring for another thread.
#[derive(Debug)]
pub struct Probe(Words);

// SAFETY: a probe only loads the atomics of a mapping that it keeps.
unsafe impl Send for Probe {}

impl Probe {
    /// As [`Producer::pending`].
    #[inline]
    pub fn pending(&self) -> u32 {
        pending(&self.0)
    }

    /// As [`Producer::needs_wakeup`].
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}

#[inline]
fn pending(words: &Words) -> u32 {
    // The consumer is loaded first: in the other order it could have overtaken a stale producer.
    let consumer = words.consumer().load(Ordering::Acquire);
    words.producer().load(Ordering::Acquire).wrapping_sub(consumer)
}

/// The consumer's side of a ring: RX and COMPLETION.
#[derive(Debug)]
pub struct Consumer<T> {
    words: Words,
    entries: NonNull<T>,
    size: u32,
    /// The index of the next entry to take.
    next: u32,
    /// The producer index as last read.
    filled: u32,
    /// The number of times the producer index contradicted the ring's size.
    faults: u64,
}

// SAFETY: as for the producer's side.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(memory: Arc<Mapping>, layout: Layout) -> Option<Self> {
        let (words, entries) = layout.words(memory)?;
        let next = words.consumer().load(Ordering::Relaxed);
        Some(Self { words, entries, size: layout.size, next, filled: next, faults: 0 })
    }

    /// Takes the next entry. The kernel may reuse its slot after [`Consumer::release`].
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.next == self.filled && !self.look() {
            return None;
        }
        let slot = (self.next & (self.size - 1)) as usize;
        // SAFETY: `slot` is below the ring's size, whose entries lie inside of the mapping; any bits are a value of T.
        let entry = unsafe { self.entries.add(slot).read_volatile() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// The entries that can be taken without another look at the other side's index.
    #[inline]
    pub fn ready(&self) -> u32 {
        self.filled.wrapping_sub(self.next)
    }

    /// Reads the other side's index; false if nothing new can be taken.
    #[inline]
    fn look(&mut self) -> bool {
        let filled = self.words.producer().load(Ordering::Acquire);
        if filled.wrapping_sub(self.next) > self.size {
            self.faults += 1;
            return false;
        }
        self.filled = filled;
        filled != self.next
    }

    /// Releases the slots of taken entries.
    #[inline]
    pub fn release(&mut self) {
        self.words.consumer().store(self.next, Ordering::Release);
    }

    /// The number of times the other side's index claimed more entries than the ring has; each was ignored.
    pub fn faults(&self) -> u64 {
        self.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192, size: 4 };

    fn pair() -> (Producer<u64>, Consumer<u64>) {
        let memory = Arc::new(Mapping::private(4096).unwrap());
        (Producer::new(memory.clone(), LAYOUT).unwrap(), Consumer::new(memory, LAYOUT).unwrap())
    }

    #[test]
    fn entries_come_out_in_order_and_a_full_ring_takes_none() {
        let (mut producer, mut consumer) = pair();
        assert!(producer.is_fresh());
        for round in 0..1000_u64 {
            for entry in 0..4 {
                assert!(producer.push(round * 4 + entry));
            }
            assert!(!producer.push(0) && consumer.pop().is_none());
            producer.publish();
            assert_eq!(producer.pending(), 4);
            for entry in 0..4 {
                assert_eq!(consumer.pop(), Some(round * 4 + entry));
            }
            assert!(consumer.pop().is_none() && producer.free(1) == 0);
            consumer.release();
            assert_eq!((producer.free(4), producer.probe().pending()), (4, 0));
        }
    }

    #[test]
    fn indices_run_through_the_end_of_u32() {
        let (producer, _) = pair();
        producer.words.producer().store(u32::MAX - 1, Ordering::Relaxed);
        producer.words.consumer().store(u32::MAX - 1, Ordering::Relaxed);
        let memory = producer.words._memory.clone();
        let (mut producer, mut consumer) =
            (Producer::<u64>::new(memory.clone(), LAYOUT).unwrap(), Consumer::<u64>::new(memory, LAYOUT).unwrap());
        for entry in 0..4 {
            assert!(producer.push(entry));
        }
        producer.publish();
        assert_eq!((0..4).map(|_| consumer.pop().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn indices_that_lie_are_not_believed() {
        let (mut producer, mut consumer) = pair();
        producer.words.producer().store(5, Ordering::Relaxed);
        assert_eq!((consumer.pop(), consumer.faults()), (None, 1));
        producer.words.consumer().store(77, Ordering::Relaxed);
        producer.taken = 77;
        assert_eq!(producer.free(1), 0);
        assert!(!producer.push(1));
    }

    #[test]
    fn a_ring_that_does_not_fit_its_mapping_is_refused() {
        let memory = Arc::new(Mapping::private(4096).unwrap());
        for bad in [
            Layout { size: 1024, ..LAYOUT },
            Layout { size: 3, ..LAYOUT },
            Layout { flags: 4094, ..LAYOUT },
            Layout { entries: usize::MAX - 7, ..LAYOUT },
            Layout { entries: 196, ..LAYOUT },
        ] {
            assert!(Producer::<u64>::new(memory.clone(), bad).is_none(), "{bad:?}");
        }
    }
}
