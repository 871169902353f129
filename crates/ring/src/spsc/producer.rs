//! The writing side of the SPSC ring.

use super::Batch;
use crate::checkpoint::{self, Checkpoint, Unloaded};
use crate::fault::{ClaimError, Fault};
use crate::layout::{DROPPED_AT, PUBLISHED_AT, READ_AT, READER_CLOSED_AT, WORD_BYTES, WRITER_SLEEPS_AT};
use crate::ring::Ring;
use crate::role::{Peer, Side};
use crate::sync::{Acquire, Arc, Relaxed};
use crate::wait::{Deadline, WaitError, Waiter};
use crate::writer::Writer;
use sidestep_sys::idle::IdleStrategy;

/// Consecutive refusals after which the writer loads the reader's exact position. The reader stores to that line with
/// each message: loading it every time would slow down the reader.
const MISSES_PER_LOOK: u32 = 32;

/// The writing side. There is one at a time: `&mut` ensures that inside a process, the owner word between processes.
pub struct Producer {
    pub(super) writer: Writer,
    /// The position up to which cells are known to be free, exclusive.
    limit: u64,
    /// Offset and length of the open claim.
    claimed: Option<(usize, usize)>,
    misses: u32,
    fault: Option<Fault>,
    abandoned: u64,
    side: Side,
}

impl Producer {
    /// Resumes where the last writer stopped: published messages stay, claimed ones are discarded and counted.
    pub(crate) fn resume(ring: &Arc<Ring>, side: Side) -> Result<Self, Fault> {
        // The exact position is needed: the last writer may have used it (`accept_exact`) and have written
        // further than the lazily published position allows.
        let exact = checkpoint::load(&ring.memory, READ_AT).map_or(0, |read| read.position);
        let published = ring.memory.word(PUBLISHED_AT).load(Acquire).max(exact);
        let limit = published.saturating_add(ring.cells());
        let mut writer = Writer::resume(Arc::clone(ring), |_| limit)?;
        let written = writer.written();
        if written.position < published {
            return Err(Fault::ReaderPosition);
        }
        let abandoned = writer.count_abandoned()?;
        writer.reopen();
        Ok(Self { writer, limit, claimed: None, misses: 0, fault: None, abandoned, side })
    }

    /// Claims space for a message of `length` bytes, to be written in place. Its previous content is undefined.
    #[inline(always)]
    pub fn try_claim(&mut self, length: usize) -> Result<Claim<'_>, ClaimError> {
        self.open(length)?;
        Ok(Claim { producer: self })
    }

    /// Reserves space as [`Producer::try_claim`] does, without a guard: end it by [`Producer::publish`] or
    /// [`Producer::discard`]. Another reservation discards this one.
    #[cfg(not(loom))]
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Result<&mut [u8], ClaimError> {
        self.open(length)?;
        Ok(self.claimed_bytes())
    }

    /// Publishes the first `length` bytes of the reservation; does nothing without one.
    #[inline(always)]
    pub fn publish(&mut self, length: usize) {
        if let Some((_, claimed)) = self.claimed.take()
            && self.side.is_ours()
        {
            self.writer.end(length.min(claimed));
            self.writer.publish();
        }
    }

    /// Discards the reservation.
    #[inline]
    pub fn discard(&mut self) {
        if self.claimed.take().is_some() && self.side.is_ours() {
            self.writer.abort();
        }
    }

    /// Sends a copy of `message` if it fits.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), ClaimError> {
        self.open(message.len())?;
        self.claimed_bytes().copy_from_slice(message);
        self.publish(message.len());
        Ok(())
    }

    /// Sends a copy of `message`, or drops it and counts the drop if the ring is full; returns which.
    #[cfg(not(loom))]
    pub fn send_or_drop(&mut self, message: &[u8]) -> Result<bool, ClaimError> {
        match self.try_send(message) {
            Err(ClaimError::Full) => {}
            other => return other.map(|()| true),
        }
        // A drop is final: load the reader's exact position first.
        if self.has_room(self.writer.ring().cells_of(message.len()))? {
            return self.try_send(message).map(|()| true);
        }
        let dropped = self.writer.ring().memory.word(DROPPED_AT);
        dropped.store(dropped.load(Relaxed).wrapping_add(1), Relaxed);
        Ok(false)
    }

    /// Starts a batch of messages that are published together, by one store.
    pub fn batch(&mut self) -> Batch<'_> {
        self.discard();
        Batch::new(self)
    }

    /// Waits until a message of `length` bytes fits.
    pub fn wait(&mut self, length: usize, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        let mut waiter = Waiter::on(self.writer.ring(), idle, deadline);
        loop {
            match self.make_room(length) {
                Ok(()) => return Ok(()),
                Err(ClaimError::Full) => {}
                Err(ClaimError::Faulty(fault)) => return Err(WaitError::Faulty(fault)),
                Err(ClaimError::Closed) => return Err(WaitError::Closed),
                Err(ClaimError::TooLong) => return Err(WaitError::TooLong),
                Err(ClaimError::Forked) => return Err(WaitError::Forked),
            }
            let ring = &**self.writer.ring();
            let needs = self.writer.needs(ring.cells_of(length));
            let is_ready = || {
                let read = checkpoint::try_load(&ring.memory, READ_AT);
                read.map_or(true, |read| needs <= read.position.saturating_add(ring.cells()))
                    || ring.memory.word(READER_CLOSED_AT).load(Acquire) != 0
            };
            waiter.turn(ring, &mut self.side, WRITER_SLEEPS_AT, is_ready)?;
        }
    }

    /// Marks the end of the stream: the reader gets [`crate::ReadError::Closed`] after the remaining messages.
    pub fn close(&mut self) {
        self.claimed = None;
        if self.side.is_ours() {
            self.writer.close();
        }
    }

    /// Sets the doorbell: a function that wakes a reader which sleeps outside the ring. It is called when a message (or
    /// the close) is there for a reader that has requested it, once per request
    /// ([`super::Consumer::request_doorbell`]), and immediately if something is there already.
    pub fn set_doorbell(&mut self, doorbell: impl Fn() + Send + Sync + 'static) {
        self.writer.set_doorbell(Box::new(doorbell));
        // Earlier messages were sent without this doorbell, or by a writer that may have died before it called its own:
        // the reader may still be waiting for them.
        let read = checkpoint::load(&self.writer.ring().memory, READ_AT);
        if self.side.is_ours() && read.is_some_and(|read| read.position < self.writer.written().position) {
            self.writer.call_doorbell();
        }
    }

    /// The state of the reader.
    pub fn peer(&mut self) -> Peer {
        match self.writer.ring().memory.word(READER_CLOSED_AT).load(Acquire) {
            0 => self.side.peer(self.writer.ring()),
            _ => Peer::Closed,
        }
    }

    /// The liveness of this side, the process that it replaced, and the watch on the peer.
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// The number of messages published so far, by this writer and its predecessors.
    pub fn messages(&self) -> u64 {
        self.writer.written().sequence
    }

    /// The number of messages that the last writer had begun and not published when it died. No reader has seen them.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// The longest message of this ring, bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.writer.ring().message_bytes_max()
    }

    #[inline(always)]
    pub(super) fn open(&mut self, length: usize) -> Result<(), ClaimError> {
        self.make_room(length)?;
        let position = self.writer.begin(self.writer.ring().cells_of(length), self.limit);
        self.claimed = Some((self.writer.ring().cell(position) + WORD_BYTES, length));
        Ok(())
    }

    #[inline(always)]
    fn make_room(&mut self, length: usize) -> Result<(), ClaimError> {
        let cells = self.writer.ring().cells_of(length);
        if cells > self.writer.ring().record_cells_max() || length > self.message_bytes_max() {
            return Err(ClaimError::TooLong);
        }
        if !self.side.is_ours() {
            return Err(ClaimError::Forked);
        }
        let needs = self.writer.needs(cells);
        if needs <= self.limit { Ok(()) } else { self.refresh(needs) }
    }

    #[cold]
    fn refresh(&mut self, needs: u64) -> Result<(), ClaimError> {
        if let Some(fault) = self.fault {
            return Err(ClaimError::Faulty(fault));
        }
        let memory = &self.writer.ring().memory;
        if memory.word(READER_CLOSED_AT).load(Acquire) != 0 {
            return Err(ClaimError::Closed);
        }
        // Partner: the Release in `Consumer::publish`.
        let published = memory.word(PUBLISHED_AT).load(Acquire);
        self.accept(published)?;
        if needs <= self.limit {
            self.misses = 0;
            return Ok(());
        }
        self.misses = self.misses.wrapping_add(1);
        if self.misses.is_multiple_of(MISSES_PER_LOOK) {
            let read = checkpoint::try_load(&self.writer.ring().memory, READ_AT);
            self.accept_exact(read)?;
        }
        if needs <= self.limit { Ok(()) } else { Err(ClaimError::Full) }
    }

    /// Returns whether cells are free by the reader's exact position. A reader that is faster than many loads has freed some meanwhile, and
    /// published them.
    #[cfg(not(loom))]
    fn has_room(&mut self, cells: u64) -> Result<bool, ClaimError> {
        let read = checkpoint::load_patiently(&self.writer.ring().memory, READ_AT);
        self.accept_exact(read)?;
        let published = self.writer.ring().memory.word(PUBLISHED_AT).load(Acquire);
        self.accept(published)?;
        Ok(self.writer.needs(cells) <= self.limit)
    }

    /// Accepts the reader's exact position instead of the lazily published one. Partner: the Release in `Recorder::store`, which follows
    /// the reader's last load of the message.
    fn accept_exact(&mut self, read: Result<Checkpoint, Unloaded>) -> Result<(), ClaimError> {
        match read {
            Ok(read) => self.accept(read.position),
            // The reader reads on, faster than the load: it is at work.
            Err(Unloaded::Torn) => Ok(()),
            Err(Unloaded::Implausible) => self.accept(u64::MAX),
        }
    }

    /// Accepts a reader's position that is not ahead of the written one. One before the last position is only late.
    fn accept(&mut self, position: u64) -> Result<(), ClaimError> {
        let ring = self.writer.ring();
        if position > self.writer.written().position {
            let fault = ring.poison(Fault::ReaderPosition);
            (self.fault, self.limit) = (Some(fault), 0);
            return Err(ClaimError::Faulty(fault));
        }
        self.limit = self.limit.max(position + ring.cells());
        Ok(())
    }

    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn claimed_bytes(&mut self) -> &mut [u8] {
        let (at, length) = self.claimed.unwrap_or((WORD_BYTES, 0));
        // SAFETY: `open` has made sure that these cells lie inside the ring and that the reader has given them back; it
        // does not look at them before `publish`, which needs `&mut self`. (A hostile reader in another process can
        // change the bytes at any time: they are data that only it will read.)
        unsafe { &mut *self.writer.ring().memory.bytes(at, length) }
    }

    /// Ends the open claim as part of a batch.
    pub(super) fn end(&mut self) {
        if let Some((_, length)) = self.claimed.take() {
            self.writer.end(length);
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Space for one message. Write it and call [`Claim::commit`]; dropping the claim discards it.
pub struct Claim<'a> {
    producer: &'a mut Producer,
}

impl Claim<'_> {
    /// Publishes the message.
    #[inline(always)]
    pub fn commit(self) {
        self.producer.publish(usize::MAX);
    }

    /// Publishes the first `length` bytes only.
    #[inline(always)]
    pub fn commit_prefix(self, length: usize) {
        self.producer.publish(length);
    }

    /// Discards the claim; so does dropping it.
    pub fn abort(self) {}

    /// Stores one word of the message.
    #[cfg(loom)]
    pub(crate) fn put(&self, index: usize, value: u64) {
        let (at, _) = self.producer.claimed.expect("a claim is open");
        self.producer.writer.ring().memory.write(at + 8 * index, value);
    }
}

impl Drop for Claim<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.producer.discard();
    }
}

#[cfg(not(loom))]
impl std::ops::Deref for Claim<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (at, length) = self.producer.claimed.unwrap_or((WORD_BYTES, 0));
        // SAFETY: as in `Producer::claimed_bytes`.
        unsafe { &*self.producer.writer.ring().memory.bytes(at, length) }
    }
}

#[cfg(not(loom))]
impl std::ops::DerefMut for Claim<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.producer.claimed_bytes()
    }
}
