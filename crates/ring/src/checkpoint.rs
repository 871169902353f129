//! Three counters that belong together, stored so that neither a crash nor a concurrent load tears them.
//!
//! Two copies exist. The writer of a checkpoint fills the older one and stores its sequence number last, so the copy
//! with the greater sequence number is always complete. Three stores per message, to a line that no other CPU reads in
//! normal operation, make the counts of `stat` and of a repair exact.

use crate::memory::Memory;
use crate::sync::{Acquire, Release};

/// Repeats of a load while the other side writes; it must write two copies to disturb one load. Where the line goes to the other
/// CPU between two loads, a side that writes a message in 20 ns does so often.
const ATTEMPTS: usize = 64;
/// The most repeats where there is no other try: at the begin, and before a message is dropped.
const ATTEMPTS_MAX: usize = 1 << 12;
/// Greater positions are rejected: sums of two stay far from overflow.
const POSITION_MAX: u64 = 1 << 62;

/// Messages, cells and bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Messages.
    pub(crate) sequence: u64,
    /// Cells, including padding.
    pub(crate) position: u64,
    /// Bytes of messages.
    pub(crate) bytes: u64,
}

/// The side that stores a checkpoint: it knows which copy is the older one.
pub(crate) struct Recorder {
    at: usize,
    older: usize,
    position: u64,
}

impl Recorder {
    /// Resumes where the last recorder, perhaps of a dead process, stopped.
    pub(crate) fn resume(memory: &Memory, at: usize) -> Self {
        let newer = newer_copy(memory, at);
        Self { at, older: 24 - newer, position: memory.word(at + newer + 8).load(Acquire) }
    }

    /// Stores a checkpoint whose sequence number is above the last one's. Each Release pairs with an Acquire of [`load`].
    #[inline(always)]
    pub(crate) fn store(&mut self, memory: &Memory, checkpoint: Checkpoint) {
        let copy = self.at + self.older;
        self.position = checkpoint.position;
        memory.word(copy + 8).store(checkpoint.position, Release);
        memory.word(copy + 16).store(checkpoint.bytes, Release);
        memory.word(copy).store(checkpoint.sequence, Release);
        self.older ^= 24;
    }

    /// The position of the last checkpoint that this recorder stored or found.
    #[inline(always)]
    pub(crate) fn last(&self) -> u64 {
        self.position
    }
}

/// Offset of the copy with the greater sequence number; of the first one before anything was stored.
fn newer_copy(memory: &Memory, at: usize) -> usize {
    let [first, second] = [at, at + 24].map(|copy| memory.word(copy).load(Acquire));
    if second > first { 24 } else { 0 }
}

/// Why a checkpoint was not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unloaded {
    /// It was stored anew meanwhile: the other side is at work, or this one was interrupted. Another load may succeed.
    Torn,
    /// It is beyond what a ring can reach: the other side is hostile.
    Implausible,
}

/// The newest complete checkpoint. `None` if none can be loaded completely in many attempts or if it is implausible.
pub(crate) fn load(memory: &Memory, at: usize) -> Option<Checkpoint> {
    load_patiently(memory, at).ok()
}

/// The same with the reason why there is none.
pub(crate) fn load_patiently(memory: &Memory, at: usize) -> Result<Checkpoint, Unloaded> {
    load_within(memory, at, ATTEMPTS_MAX)
}

/// The newest checkpoint, where the caller can try again later.
pub(crate) fn try_load(memory: &Memory, at: usize) -> Result<Checkpoint, Unloaded> {
    load_within(memory, at, ATTEMPTS)
}

fn load_within(memory: &Memory, at: usize, attempts: usize) -> Result<Checkpoint, Unloaded> {
    let found = (0..attempts).find_map(|_| attempt(memory, at)).ok_or(Unloaded::Torn)?;
    let is_plausible = [found.sequence, found.position, found.bytes].iter().all(|value| *value < POSITION_MAX);
    is_plausible.then_some(found).ok_or(Unloaded::Implausible)
}

/// Loads one copy. It is overwritten only after the other one got the next sequence number: if that is still the lesser
/// one, this copy is complete. The loads stay in order because each is an Acquire, the stores because each is a
/// Release.
fn attempt(memory: &Memory, at: usize) -> Option<Checkpoint> {
    let newer = newer_copy(memory, at);
    let [copy, other] = [at + newer, at + 24 - newer];
    let sequence = memory.word(copy).load(Acquire);
    let position = memory.word(copy + 8).load(Acquire);
    let bytes = memory.word(copy + 16).load(Acquire);
    let is_whole = memory.word(other).load(Acquire) <= sequence && memory.word(copy).load(Acquire) == sequence;
    is_whole.then_some(Checkpoint { sequence, position, bytes })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::{HEADER_BYTES, READ_AT};
    use sidestep_sys::memory::{Access, Mapping};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn memory() -> Memory {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HEADER_BYTES as u64).unwrap();
        Memory::new(Mapping::shared(file.as_fd(), HEADER_BYTES, Access::ReadWrite).unwrap())
    }

    #[test]
    fn a_side_that_writes_without_pause_is_read_and_never_hostile() {
        let (memory, is_over) = (memory(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut recorder = Recorder::resume(&memory, READ_AT);
                for value in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    recorder.store(&memory, Checkpoint { sequence: value, position: value, bytes: value });
                }
            });
            let is_whole = |found: Checkpoint| [found.position, found.bytes] == [found.sequence; 2];
            let wrong = (0..2000).find(|_| {
                !load(&memory, READ_AT).is_some_and(is_whole)
                    || try_load(&memory, READ_AT) == Err(Unloaded::Implausible)
            });
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(wrong, None);
        });
    }

    #[test]
    fn what_no_ring_reaches_is_hostile() {
        let memory = memory();
        let beyond = Checkpoint { sequence: 1, position: POSITION_MAX, bytes: 0 };
        Recorder::resume(&memory, READ_AT).store(&memory, beyond);
        assert_eq!((try_load(&memory, READ_AT), load(&memory, READ_AT)), (Err(Unloaded::Implausible), None));
    }
}
