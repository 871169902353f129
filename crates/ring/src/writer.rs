//! The writer that both kinds of ring share: records in order, published by one store, recoverable after a crash.

use crate::checkpoint::{self, Checkpoint, Recorder};
use crate::fault::Fault;
use crate::layout::{ABANDONED_AT, HORIZON_AT, INTENT_AT, MARK_AT, READER_SLEEPS_AT, WRITTEN_AT};
use crate::record::{self, Record};
use crate::ring::{Ring, Step};
use crate::sleeper;
use crate::sync::{Acquire, Arc, Relaxed, Release, fence};
use crate::waking::Waking;

/// The horizon advances by this part of the ring at a time, so that readers keep its line in their cache.
const HORIZON_PART: u64 = 16;

/// The most lines prefetched at once: as many as a CPU core can have in flight.
const FETCHED_MAX: u64 = 16;

/// The state of a writer. Records from `written.position` to `next` are stored but not published: the word of the first
/// is held back in `first`, and no reader looks past it.
pub(crate) struct Writer {
    ring: Arc<Ring>,
    written: Checkpoint,
    next: u64,
    first: u64,
    /// Messages and bytes between `written.position` and `next`.
    open_messages: u64,
    open_bytes: u64,
    horizon: u64,
    recorder: Recorder,
    mark: Recorder,
    doorbell: Option<Doorbell>,
}

/// Wakes a reader that sleeps outside the ring.
pub(crate) type Doorbell = Box<dyn Fn() + Send + Sync>;

impl Writer {
    /// Resumes after the last published record, found by the last writer's checkpoint and the records after it. `limit`
    /// bounds the search: no writer was allowed to pass it.
    pub(crate) fn resume(ring: Arc<Ring>, limit: impl Fn(u64) -> u64) -> Result<Self, Fault> {
        let checkpoint = checkpoint::load(&ring.memory, WRITTEN_AT).ok_or(Fault::WriterPosition)?;
        let written = find_tail(&ring, checkpoint, limit(checkpoint.position))?;
        let horizon = ring.memory.word(HORIZON_AT).load(Relaxed);
        if horizon > written.position + 2 * ring.cells() {
            return Err(Fault::WriterPosition);
        }
        let mut recorder = Recorder::resume(&ring.memory, WRITTEN_AT);
        if written.sequence > checkpoint.sequence {
            recorder.store(&ring.memory, written);
        }
        let mark = Recorder::resume(&ring.memory, MARK_AT);
        let next = written.position;
        Ok(Self {
            ring,
            written,
            next,
            first: 0,
            open_messages: 0,
            open_bytes: 0,
            horizon,
            recorder,
            mark,
            doorbell: None,
        })
    }

    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// The published messages.
    pub(crate) fn written(&self) -> Checkpoint {
        self.written
    }

    /// The position that must be free, exclusive, for a record of this many cells: padding before it, and one cell
    /// after it, which marks the end.
    #[inline(always)]
    pub(crate) fn needs(&self, cells: u64) -> u64 {
        self.next + self.padding(cells) + cells + 1
    }

    #[inline(always)]
    fn padding(&self, cells: u64) -> u64 {
        let to_end = self.ring.cells_to_end(self.next);
        if cells > to_end { to_end } else { 0 }
    }

    /// Announces a record of this many cells, writes padding before it if needed, and returns its position. The caller
    /// has made sure that the cells are free up to [`Writer::needs`]; no horizon passes `limit`.
    #[inline(always)]
    pub(crate) fn begin(&mut self, cells: u64, limit: u64) -> u64 {
        let end = self.needs(cells);
        if end > self.horizon {
            self.advance_horizon(end, limit);
        }
        let padding = self.padding(cells);
        if padding > 0 {
            self.append(Record::Padding, padding);
        }
        let intent = self.written.sequence + self.open_messages + 1;
        self.ring.memory.word(INTENT_AT).store(intent, Relaxed);
        self.next
    }

    /// Revokes the announcement of [`Writer::begin`].
    #[inline]
    pub(crate) fn abort(&mut self) {
        self.ring.memory.word(INTENT_AT).store(self.written.sequence + self.open_messages, Relaxed);
    }

    /// Ends the record that was begun.
    #[inline(always)]
    pub(crate) fn end(&mut self, length: usize) {
        self.append(Record::Message(length), self.ring.cells_of(length));
        self.open_messages += 1;
        self.open_bytes += length as u64;
    }

    #[inline(always)]
    fn append(&mut self, record: Record, cells: u64) {
        let word = record::word(self.next, record);
        if self.next == self.written.position {
            self.first = word;
        } else {
            self.ring.memory.word(self.ring.cell(self.next)).store(word, Relaxed);
        }
        self.next += cells;
    }

    /// Publishes every record that was ended, by one store.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        let memory = &self.ring.memory;
        // Bytes of an old message may follow the last record: they must not look like a record. Nearly always this is a
        // load of a line that this CPU is about to write anyway, and no store.
        let behind = memory.word(self.ring.cell(self.next));
        if record::is_at(behind.load(Relaxed), self.next) {
            behind.store(0, Relaxed);
        }
        // A reader that sees this store sees everything before it: partner of the Acquire in the readers' check.
        memory.word(self.ring.cell(self.written.position)).store(self.first, Release);
        let begin = self.written.position;
        let crosses_half = (begin ^ self.next) & (self.ring.cells() / 2) != 0;
        self.written.position = self.next;
        self.written.sequence += self.open_messages;
        self.written.bytes += self.open_bytes;
        (self.open_messages, self.open_bytes) = (0, 0);
        self.recorder.store(memory, self.written);
        if crosses_half {
            self.mark.store(memory, self.written);
        }
        self.wake_reader();
        self.fetch_behind(begin);
    }

    /// Prefetches the lines of the message after the next one, if both are as long as what was published from `begin`
    /// on: the reader's CPU has held them since it read them a lap ago, and regaining ownership takes as long as a
    /// message. The lines of the next message are left out: the reader polls the first of them. This halves the time
    /// per message at 256 bytes, and saves a fifth at 64 (SPEC.md).
    #[inline(always)]
    fn fetch_behind(&self, begin: u64) {
        let shift = self.ring.line_shift();
        let line = self.next >> shift;
        let lines = line - (begin >> shift);
        for ahead in 1..=lines.min(FETCHED_MAX) {
            self.ring.memory.fetch_to_write(self.ring.cell((line + lines + ahead) << shift));
        }
    }

    /// Returns whether an ended record is unpublished.
    pub(crate) fn is_open(&self) -> bool {
        self.open_messages > 0
    }

    /// Discards every record that was ended and not published.
    pub(crate) fn discard(&mut self) {
        self.next = self.written.position;
        (self.open_messages, self.open_bytes) = (0, 0);
        self.abort();
    }

    /// Writes the close record. The cell after the last record is always free for it.
    pub(crate) fn close(&mut self) {
        self.discard();
        self.mark_tail(record::word(self.next, Record::Close));
        self.wake_reader();
    }

    /// Counts what the last writer had begun and not published; once, for its successor.
    pub(crate) fn count_abandoned(&mut self) -> Result<u64, Fault> {
        let memory = &self.ring.memory;
        let begun = memory.word(INTENT_AT).load(Relaxed).saturating_sub(self.written.sequence);
        // A batch holds fewer messages than the ring has cells.
        if begun > self.ring.cells() {
            return Err(Fault::WriterPosition);
        }
        let total = memory.word(ABANDONED_AT);
        total.store(total.load(Relaxed).saturating_add(begun), Relaxed);
        Ok(begun)
    }

    /// Removes the close record of an earlier writer. Wakes no reader: nothing is there to be read, and a doorbell
    /// request must wait until there is.
    pub(crate) fn reopen(&mut self) {
        self.mark_tail(0);
        self.abort();
    }

    fn mark_tail(&mut self, word: u64) {
        if self.next + 1 > self.horizon {
            self.advance_horizon(self.next + 1, self.next + 1);
        }
        // Partner: the Acquire in the readers' check.
        self.ring.memory.word(self.ring.cell(self.next)).store(word, Release);
    }

    /// Wakes the reader. Must be called after the store that it waits for.
    #[inline(always)]
    pub(crate) fn wake_reader(&self) {
        if sleeper::wake(&self.ring, READER_SLEEPS_AT) {
            self.doorbell.iter().for_each(|doorbell| doorbell());
        }
    }

    /// Calls the doorbell, whether a request is visible or not.
    pub(crate) fn call_doorbell(&self) {
        if self.ring.waking != Waking::Never {
            sleeper::wake(&self.ring, READER_SLEEPS_AT);
            self.doorbell.iter().for_each(|doorbell| doorbell());
        }
    }

    /// Sets the doorbell for readers that request it, called once per request.
    pub(crate) fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = Some(doorbell);
    }

    /// Stores in advance how far the writer may write, in large steps. A reader that sees a byte stored after the fence
    /// sees this horizon after its own fence (`Subscriber`).
    #[cold]
    fn advance_horizon(&mut self, end: u64, limit: u64) {
        self.horizon = (end + self.ring.cells() / HORIZON_PART).min(limit).max(end);
        self.ring.memory.word(HORIZON_AT).store(self.horizon, Relaxed);
        fence(Release);
    }
}

/// Walks over the records that were published after the checkpoint was stored; at most one lap.
pub(crate) fn find_tail(ring: &Ring, checkpoint: Checkpoint, limit: u64) -> Result<Checkpoint, Fault> {
    let mut tail = checkpoint;
    while tail.position < limit {
        // Partner: the Release in `publish` of the writer that died.
        let word = ring.memory.word(ring.cell(tail.position)).load(Acquire);
        if !record::is_at(word, tail.position) {
            break;
        }
        match ring.step(word, tail.position)? {
            Step::Message { length, cells } => {
                tail.position += cells;
                tail.sequence += 1;
                tail.bytes += length as u64;
            }
            Step::Skip { cells } => tail.position += cells,
            Step::Close => break,
        }
    }
    if tail.position > limit { Err(Fault::WriterPosition) } else { Ok(tail) }
}
