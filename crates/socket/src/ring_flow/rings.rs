//! The rings of a feed, one for each receive queue, read in turn.

use super::statistics::Statistics;
use sidestep_control_api::message::FeedFacts;
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Doorbell, ReadError, Segment, kernel_ring_bytes};
use sidestep_sys::Problem;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The most rings of a feed: more than any device has queues.
const RINGS_MAX: u32 = 4096;

/// The rings of one feed.
pub(super) struct Rings {
    readers: Vec<Reader>,
    /// The ring that is looked at first in the next call: a busy queue waits for all others.
    turn: usize,
    /// One flag for the whole feed: all rings are looked at after it was set.
    doorbell: Option<Doorbell>,
    message_bytes_max: usize,
}

struct Reader {
    subscriber: Subscriber,
    /// Lost since the last message.
    lost: u64,
    /// What the writer had dropped before.
    dropped_before: u64,
}

/// A message of a ring, in the buffer.
pub(super) struct Read {
    pub(super) queue: u32,
    pub(super) length: usize,
    pub(super) lost_before: u64,
}

/// The result of a look at all rings.
pub(super) enum Look {
    Message(Read),
    Empty,
    /// A ring is out of use.
    Broken(ReadError),
}

impl Rings {
    /// Attaches to all rings of a feed, each from the next message on.
    pub(super) fn attach(file: &OwnedFd, facts: &FeedFacts, doorbell: Option<Doorbell>) -> Result<Self, Problem> {
        let wrong = |why: String| Problem::failed(format!("cannot read the feed on {}", facts.interface), why);
        if !(1..=RINGS_MAX).contains(&facts.rings) {
            return Err(wrong(format!("it has {} rings, at most {RINGS_MAX} are read", facts.rings)));
        }
        let mut readers = Vec::with_capacity(facts.rings as usize);
        for ring in 0..facts.rings {
            let offset = facts.element_bytes.checked_mul(ring.into()).ok_or_else(|| wrong("it is too long".into()))?;
            let file = file.try_clone().map_err(|error| wrong(error.to_string()))?;
            let segment = Segment::foreign(file, offset, kernel_ring_bytes(facts.cells))?;
            let subscriber = segment.subscriber(Start::Latest)?;
            let dropped_before = subscriber.dropped();
            readers.push(Reader { subscriber, lost: 0, dropped_before });
        }
        let message_bytes_max = readers.iter().map(|reader| reader.subscriber.message_bytes_max()).max().unwrap_or(0);
        Ok(Self { readers, turn: 0, doorbell, message_bytes_max })
    }

    /// Packets that did not get into a ring since this reader attached.
    pub(super) fn dropped(&self) -> u64 {
        self.readers.iter().map(|reader| reader.subscriber.dropped().saturating_sub(reader.dropped_before)).sum()
    }

    /// The longest message, bytes.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Reads the next message of the first ring that has one.
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8], statistics: &mut Statistics) -> Look {
        let count = self.readers.len();
        for step in 0..count {
            let at = if self.turn + step < count { self.turn + step } else { self.turn + step - count };
            let reader = &mut self.readers[at];
            let mut read = reader.subscriber.try_read(buffer);
            if let Err(ReadError::Lost(loss)) = read {
                let queue = statistics.queue(at as u32);
                (queue.lost, queue.lost_bytes) = (queue.lost + loss.messages, queue.lost_bytes + loss.bytes);
                reader.lost += loss.messages;
                // The message after the gap; if that is lost as well, the next call tells.
                read = reader.subscriber.try_read(buffer);
            }
            match read {
                Ok(length) => {
                    self.turn = if at + 1 == count { 0 } else { at + 1 };
                    let lost_before = std::mem::take(&mut reader.lost);
                    return Look::Message(Read { queue: at as u32, length, lost_before });
                }
                Err(ReadError::Empty) => {}
                Err(ReadError::Lost(loss)) => {
                    let queue = statistics.queue(at as u32);
                    (queue.lost, queue.lost_bytes) = (queue.lost + loss.messages, queue.lost_bytes + loss.bytes);
                    reader.lost += loss.messages;
                }
                Err(error) => return Look::Broken(error),
            }
        }
        Look::Empty
    }

    /// Has the next message of the queue tell the loss before one that was skipped.
    pub(super) fn keep_loss(&mut self, skipped: &Read) {
        if let Some(reader) = self.readers.get_mut(skipped.queue as usize) {
            reader.lost += skipped.lost_before;
        }
    }

    /// The descriptor that is readable after the doorbell was rung.
    pub(super) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.doorbell.as_ref().map(Doorbell::fd)
    }

    /// Asks for the doorbell with the next message of any ring; false if there is a message already.
    pub(super) fn request_doorbell(&self) -> bool {
        let is_ready = || self.readers.iter().any(|reader| reader.subscriber.is_ready());
        // The sequence is for devices.
        self.doorbell.as_ref().map_or_else(|| !is_ready(), |doorbell| doorbell.request(0, is_ready))
    }
}
