//! The reading side of the SPSC ring.

use crate::checkpoint::{self, Checkpoint, Recorder};
use crate::fault::{Fault, ReadError};
use crate::layout::{
    LOST_AT, PUBLISHED_AT, READ_AT, READER_CLOSED_AT, READER_SLEEPS_AT, WORD_BYTES, WRITER_SLEEPS_AT, WRITTEN_AT,
};
use crate::record;
use crate::ring::{Ring, Step};
use crate::role::{Peer, Side};
use crate::sleeper;
use crate::sync::{Acquire, Arc, Relaxed, Release};
use crate::wait::{Deadline, WaitError, Waiter};
use crate::writer::find_tail;
use sidestep_sys::idle::IdleStrategy;

/// The start position of a reader that succeeds another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// The first message that was not released: a message on loan when the last reader died is delivered again.
    #[default]
    Unread,
    /// After all messages; skipped ones are counted as lost.
    Latest,
}

/// The reading side. There is one at a time: `&mut` ensures that inside a process, the owner word between processes.
pub struct Consumer {
    ring: Arc<Ring>,
    read: Checkpoint,
    /// The position last published to the writer.
    published: u64,
    /// Cells and bytes of the message on loan; no cells if there is none.
    lent: (u64, usize),
    /// Cells of the last message, the prediction for the next one.
    expected: u64,
    fault: Option<Fault>,
    recorder: Recorder,
    side: Side,
}

impl Consumer {
    /// Resumes where the last reader stopped.
    pub(crate) fn resume(ring: Arc<Ring>, side: Side, from: Resume) -> Result<Self, Fault> {
        let memory = &ring.memory;
        let mut read = checkpoint::load(memory, READ_AT).ok_or(Fault::ReaderPosition)?;
        let published = memory.word(PUBLISHED_AT).load(Acquire);
        if published > read.position || read.position - published > ring.cells() {
            return Err(Fault::ReaderPosition);
        }
        let mut recorder = Recorder::resume(memory, READ_AT);
        if from == Resume::Latest {
            let written = checkpoint::load(memory, WRITTEN_AT).ok_or(Fault::WriterPosition)?;
            if written.position < read.position || written.sequence < read.sequence {
                return Err(Fault::WriterPosition);
            }
            let tail = find_tail(&ring, written, read.position.saturating_add(ring.cells()))?;
            let skipped = tail.sequence - read.sequence;
            if skipped > 0 {
                memory.word(LOST_AT).store(memory.word(LOST_AT).load(Relaxed).saturating_add(skipped), Relaxed);
                recorder.store(memory, tail);
                read = tail;
            }
        }
        memory.word(READER_CLOSED_AT).store(0, Release);
        Ok(Self { ring, read, published, lent: (0, 0), expected: 1, fault: None, recorder, side })
    }

    /// The next message, on loan until the returned guard is dropped, which releases it.
    #[inline(always)]
    pub fn try_read(&mut self) -> Result<Message<'_>, ReadError> {
        self.look()?;
        Ok(Message { consumer: self })
    }

    /// The next message, on loan until [`Consumer::release`]; without that, the same message is returned again.
    #[cfg(not(loom))]
    #[inline]
    pub fn front(&mut self) -> Result<&[u8], ReadError> {
        self.look()?;
        Ok(self.bytes())
    }

    /// Returns the message on loan to the writer; does nothing if there is none. [`Consumer::wait`] lends nothing.
    #[inline]
    pub fn release(&mut self) {
        if self.lent.0 > 0 && self.side.is_ours() {
            self.advance();
            self.store_released();
        }
    }

    /// Passes up to `limit` messages to `each` and releases them together. Returns their number; an error only if there
    /// was none. A reader killed meanwhile leaves them all to its successor.
    #[cfg(not(loom))]
    #[inline]
    pub fn drain(&mut self, limit: usize, mut each: impl FnMut(&[u8])) -> Result<usize, ReadError> {
        let mut count = 0;
        while count < limit {
            match self.look() {
                Ok(()) => {}
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            }
            each(self.bytes());
            self.advance();
            count += 1;
        }
        if count > 0 {
            self.store_released();
        }
        Ok(count)
    }

    /// Waits until a message is there, without taking it on loan.
    pub fn wait(&mut self, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        let mut waiter = Waiter::on(&self.ring, idle, deadline);
        // The same message is still on loan, or there was none.
        let on_loan = self.lent.0;
        loop {
            match self.look() {
                Ok(()) => {
                    self.lent.0 = on_loan;
                    return Ok(());
                }
                Err(ReadError::Empty) => {}
                Err(ReadError::Faulty(fault)) => return Err(WaitError::Faulty(fault)),
                Err(ReadError::Forked) => return Err(WaitError::Forked),
                Err(_) => return Err(WaitError::Closed),
            }
            let (ring, position) = (&*self.ring, self.read.position);
            let has_word = || record::is_at(ring.memory.word(ring.cell(position)).load(Acquire), position);
            let turn = waiter.turn(ring, &mut self.side, READER_SLEEPS_AT, has_word);
            // Messages that the writer published before it died are still to be read.
            if turn.is_err() && !has_word() {
                return turn;
            }
        }
    }

    /// Requests the writer's doorbell ([`super::Producer::set_doorbell`]) once, with the next message or the close;
    /// returns false if that is there already. For a reader that sleeps in poll(2) or epoll(7). A ring without wake-ups
    /// ([`crate::Waking::Never`]) never calls the doorbell.
    pub fn request_doorbell(&mut self) -> bool {
        let (ring, position) = (&*self.ring, self.read.position);
        let has_word = || record::is_at(ring.memory.word(ring.cell(position)).load(Acquire), position);
        self.side.sleeper().request_doorbell(ring, READER_SLEEPS_AT, has_word)
    }

    /// Closes this side: the writer's next refusal is [`crate::ClaimError::Closed`].
    pub fn close(&mut self) {
        if !self.side.is_ours() {
            return;
        }
        self.publish();
        self.ring.memory.word(READER_CLOSED_AT).store(1, Release);
        self.wake_writer();
    }

    /// The state of the writer.
    pub fn peer(&mut self) -> Peer {
        self.side.peer(&self.ring)
    }

    /// The liveness of this side, the process that it replaced, and the watch on the peer.
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// The number of messages released so far, by this reader and its predecessors.
    pub fn messages(&self) -> u64 {
        self.read.sequence
    }

    /// The longest message of this ring, bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.ring.message_bytes_max()
    }

    /// Takes the next message on loan.
    #[inline(always)]
    fn look(&mut self) -> Result<(), ReadError> {
        if !self.side.is_ours() {
            return Err(ReadError::Forked);
        }
        // Two steps at most: padding goes to the ring's end, and none can begin there.
        for _ in 0..2 {
            let position = self.read.position;
            // Partner: the Release in `Writer::publish`.
            let word = self.ring.memory.word(self.ring.cell(position)).load(Acquire);
            if !record::is_at(word, position) {
                return Err(self.nothing());
            }
            match self.ring.step(word, position) {
                Ok(Step::Message { length, cells }) => {
                    if self.fault.is_some() {
                        break;
                    }
                    self.lent = (cells, length);
                    return Ok(());
                }
                Ok(Step::Skip { cells }) => self.read.position += cells,
                Ok(Step::Close) => {
                    self.lent.0 = 0;
                    return Err(ReadError::Closed);
                }
                Err(fault) => return Err(self.poison(fault)),
            }
        }
        Err(self.poison(Fault::Padding))
    }

    /// The ring is empty: a good moment to publish the read position to the writer.
    #[inline]
    fn nothing(&mut self) -> ReadError {
        self.lent.0 = 0;
        if let Some(fault) = self.fault {
            return ReadError::Faulty(fault);
        }
        self.publish();
        let line = 1 << self.ring.line_shift();
        if self.expected > line {
            // Prefetches the message's second line while the first is in transit: one transfer less for the reader.
            // Further lines would be taken away from the writer (7 % of a round trip at 64 bytes; all lines cost 10 %
            // at 256).
            self.ring.memory.fetch_to_read(self.ring.cell(self.read.position + line));
        }
        ReadError::Empty
    }

    #[cold]
    fn poison(&mut self, fault: Fault) -> ReadError {
        self.lent.0 = 0;
        ReadError::Faulty(*self.fault.get_or_insert_with(|| self.ring.poison(fault)))
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        let at = self.ring.cell(self.read.position) + WORD_BYTES;
        // SAFETY: `step` has checked that the message lies inside the ring; the writer does not touch these cells until
        // this side publishes a position behind them, which needs `&mut self`. (A hostile writer in another process can
        // change the bytes at any time: they are data, their length is not read again.)
        unsafe { &*self.ring.memory.bytes(at, self.lent.1) }
    }

    #[inline(always)]
    fn advance(&mut self) {
        let (cells, length) = self.lent;
        self.read.position += cells;
        self.read.sequence += 1;
        self.read.bytes += length as u64;
        self.lent.0 = 0;
        self.expected = cells;
    }

    /// Stores the released position for a successor, and publishes it to the writer when that is worth a cache line:
    /// once a quarter of the ring has accumulated, or if the writer sleeps.
    #[inline(always)]
    fn store_released(&mut self) {
        self.recorder.store(&self.ring.memory, self.read);
        if self.read.position - self.published >= self.ring.cells() / 4 || self.writer_sleeps() {
            self.publish();
        }
    }

    #[inline(always)]
    fn writer_sleeps(&self) -> bool {
        sleeper::is_asleep(&self.ring, WRITER_SLEEPS_AT)
    }

    /// Publishes the read position. Padding is released with the message after it, so that a successor never starts at
    /// released cells.
    #[inline]
    fn publish(&mut self) {
        let released = self.recorder.last();
        if self.published != released {
            self.published = released;
            // The message is read before the writer may overwrite it: partner of the Acquire in `Producer::refresh`.
            self.ring.memory.word(PUBLISHED_AT).store(released, Release);
            self.wake_writer();
        }
    }

    #[inline(always)]
    fn wake_writer(&self) {
        // A writer sleeps on the flag only: it has no doorbell to request.
        let _ = sleeper::wake(&self.ring, WRITER_SLEEPS_AT);
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.close();
    }
}

/// A message on loan; dropping it releases it.
pub struct Message<'a> {
    consumer: &'a mut Consumer,
}

#[cfg(not(loom))]
impl std::ops::Deref for Message<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.consumer.bytes()
    }
}

impl Drop for Message<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.release();
    }
}

#[cfg(loom)]
impl Message<'_> {
    /// The words of the message, all read as data.
    pub(crate) fn words(&self) -> Vec<u64> {
        let at = self.consumer.ring.cell(self.consumer.read.position) + WORD_BYTES;
        (0..self.consumer.lent.1 / 8).map(|word| self.consumer.ring.memory.read(at + 8 * word)).collect()
    }
}
