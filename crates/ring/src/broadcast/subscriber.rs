//! A reading side of the broadcast ring. It stores nothing that the writer reads, so it may be mapped read-only.

use crate::checkpoint::{self, Checkpoint};
use crate::fault::{Fault, Loss, ReadError};
use crate::layout::{DROPPED_AT, HORIZON_AT, MARK_AT, READER_SLEEPS_AT, WORD_BYTES, WRITTEN_AT};
use crate::record;
use crate::ring::{Kind, Ring, Step};
use crate::role::{Peer, Side};
use crate::sync::{Acquire, Arc, Relaxed, fence};
use crate::wait::{Deadline, WaitError, Waiter};
use sidestep_sys::idle::IdleStrategy;

/// The start position of a new reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the next message to come.
    #[default]
    Latest,
    /// With the oldest known record boundary: up to half the ring back.
    Oldest,
}

/// A reader with its own position; a clone starts at the same one.
pub struct Subscriber {
    pub(super) ring: Arc<Ring>,
    pub(super) next: Checkpoint,
    fault: Option<Fault>,
    pub(super) side: Side,
    #[cfg(not(loom))]
    pub(super) doorbell: Option<crate::doorbell::Doorbell>,
}

impl Clone for Subscriber {
    fn clone(&self) -> Self {
        Self { fault: self.fault, ..Self::at(Arc::clone(&self.ring), self.next) }
    }
}

impl Subscriber {
    fn at(ring: Arc<Ring>, next: Checkpoint) -> Self {
        Self {
            ring,
            next,
            fault: None,
            side: Side::reader(),
            #[cfg(not(loom))]
            doorbell: None,
        }
    }

    pub(crate) fn new(ring: Arc<Ring>, start: Start) -> Result<Self, Fault> {
        let beginning = Checkpoint::default();
        let written = checkpoint::load(&ring.memory, WRITTEN_AT).ok_or(Fault::WriterPosition)?;
        let mut reader = Self::at(ring, beginning);
        if start == Start::Oldest {
            let mark = checkpoint::load(&reader.ring.memory, MARK_AT).ok_or(Fault::WriterPosition)?;
            let Some(oldest) = [beginning, mark].into_iter().find(|from| reader.is_intact(from.position)) else {
                return Ok(Self { next: written, ..reader });
            };
            reader.next = oldest;
            return Ok(reader);
        }
        reader.next = written;
        Ok(reader)
    }

    /// Copies the next message to the front of `buffer` and returns its length.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if let Some(fault) = self.fault {
            return Err(ReadError::Faulty(fault));
        }
        // Two steps at most: padding goes to the ring's end, and none can begin there.
        for _ in 0..2 {
            let position = self.next.position;
            // Partner: the Release in `Writer::publish`.
            let word = self.ring.memory.word(self.ring.cell(position)).load(Acquire);
            if !record::is_at(word, position) {
                return if self.is_intact(position) { Err(ReadError::Empty) } else { Err(self.skip()) };
            }
            match self.ring.step(word, position) {
                Ok(Step::Message { length, .. }) if length > buffer.len() => {
                    let intact = self.is_intact(position);
                    return Err(if intact { ReadError::TooShort { needs: length } } else { self.skip() });
                }
                Ok(Step::Message { length, cells }) => {
                    self.ring.memory.copy_out(self.ring.cell(position) + WORD_BYTES, &mut buffer[..length]);
                    if !self.is_intact(position) {
                        return Err(self.skip());
                    }
                    self.next.position += cells;
                    self.next.sequence += 1;
                    self.next.bytes += length as u64;
                    return Ok(length);
                }
                Ok(_) | Err(_) if !self.is_intact(position) => return Err(self.skip()),
                Ok(Step::Skip { cells }) => self.next.position += cells,
                Ok(Step::Close) => return Err(ReadError::Closed),
                Err(fault) => return Err(self.poison(fault)),
            }
        }
        Err(self.poison(Fault::Padding))
    }

    /// Messages that the writer could not publish since the ring was made, as a producer in the kernel counts them.
    pub fn dropped(&self) -> u64 {
        self.ring.memory.word(DROPPED_AT).load(Relaxed)
    }

    /// Waits until [`Subscriber::try_read`] has an answer: a message or a loss.
    pub fn wait(&mut self, idle: IdleStrategy, deadline: Deadline) -> Result<(), WaitError> {
        #[cfg(not(loom))]
        if self.doorbell.is_some() {
            return self.wait_by_doorbell(idle, deadline);
        }
        // The flag of an SPSC ring belongs to its consumer: an observer may neither set nor clear it.
        let idle = if self.ring.kind == Kind::Broadcast { idle } else { idle.without_park() };
        let mut waiter = Waiter::on(&self.ring, idle, deadline);
        while !self.has_answer()? {
            let (ring, position) = (&*self.ring, self.next.position);
            let is_ready = || record::is_at(word(ring, position), position);
            let turn = waiter.turn(ring, &mut self.side, READER_SLEEPS_AT, is_ready);
            if turn.is_err() && !self.is_ready() {
                return turn;
            }
        }
        Ok(())
    }

    /// Returns whether [`Subscriber::try_read`] has an answer now: a message, a loss, or the end. Only loads.
    #[inline]
    pub fn is_ready(&self) -> bool {
        is_ready(&self.ring, self.next.position)
    }

    /// Returns whether there is something to read, or why there never will be.
    pub(super) fn has_answer(&self) -> Result<bool, WaitError> {
        if let Some(fault) = self.fault {
            return Err(WaitError::Faulty(fault));
        }
        let position = self.next.position;
        let word = word(&self.ring, position);
        if record::is_at(word, position) && record::decode(word) == Some(record::Record::Close) {
            return Err(WaitError::Closed);
        }
        Ok(self.is_ready())
    }

    /// The state of the writer.
    pub fn peer(&mut self) -> Peer {
        self.side.peer(&self.ring)
    }

    /// The monitor of the writer.
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// The sequence number of the next message: messages read and lost so far, and those before the start.
    pub fn sequence(&self) -> u64 {
        self.next.sequence
    }

    /// The longest message of this ring, bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.ring.message_bytes_max()
    }

    #[inline]
    fn is_intact(&self, position: u64) -> bool {
        is_intact(&self.ring, position)
    }

    /// Resumes at the last crossed half of the ring, or at the end if that is overwritten as well, and returns the
    /// loss.
    #[cold]
    fn skip(&mut self) -> ReadError {
        for at in [MARK_AT, WRITTEN_AT] {
            let Ok(found) = checkpoint::try_load(&self.ring.memory, at) else { break };
            if found.position <= self.next.position || at == MARK_AT && !self.is_intact(found.position) {
                continue;
            }
            if found.sequence < self.next.sequence || found.bytes < self.next.bytes {
                return self.poison(Fault::WriterPosition);
            }
            let loss = Loss { messages: found.sequence - self.next.sequence, bytes: found.bytes - self.next.bytes };
            self.next = found;
            return ReadError::Lost(loss);
        }
        // The writer stores checkpoints faster than this load, or the horizon is visible and the checkpoints before it are not yet
        // (an effect of the memory model), or the writer is hostile.
        ReadError::Empty
    }

    #[cold]
    fn poison(&mut self, fault: Fault) -> ReadError {
        // Only recorded here: a reader may be mapped read-only, and other readers check for themselves.
        ReadError::Faulty(*self.fault.get_or_insert(fault))
    }
}

fn word(ring: &Ring, position: u64) -> u64 {
    // Partner: the Release in `Writer::publish`.
    ring.memory.word(ring.cell(position)).load(Acquire)
}

pub(super) fn is_ready(ring: &Ring, position: u64) -> bool {
    record::is_at(word(ring, position), position) || !is_intact(ring, position)
}

/// Returns whether no data loaded from `position` on, before this call, was overwritten. Partner: the fence in
/// `Writer::advance_horizon`. If a load before this fence saw a store after that one, the horizon is visible here.
#[inline]
fn is_intact(ring: &Ring, position: u64) -> bool {
    fence(Acquire);
    ring.memory.word(HORIZON_AT).load(Relaxed) <= position.saturating_add(ring.cells())
}
