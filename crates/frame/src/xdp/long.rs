//! Frames longer than a buffer (XDP_USE_SG): gathered from several buffers into memory of our own, and split when they
//! are sent. That is one copy each way; layers above see ordinary frames.

use super::XdpLink;
use crate::accounting::{Frames, Place, Tally};
use crate::{FrameLink, Outgoing, Reason, Received, Unsent};
use sidestep_sys::Problem;
use sidestep_sys::memory::Mapping;
use sidestep_sys::xdp::{Descriptor, MULTI_BUFFER_BYTES_MAX};
use std::ptr::NonNull;

/// The most long frames that are received and unread, or about to be sent: 4 MiB. TCP reads each at once.
const COUNT: u32 = 256;

/// The state of a frame that is being gathered: with the other side, as far as the accounting is concerned.
const GATHERED: Place = Place::Fill(0);

/// Memory for long frames, and their state. Their numbers follow those of the frames in the memory shared with the
/// kernel.
#[derive(Debug)]
pub(super) struct Long {
    pub(super) frames: Frames,
    /// `None` if there are no long frames.
    memory: Option<Mapping>,
    /// The number of the first.
    first: u32,
    /// Frames that were dropped because there was no space for them, or because a part was invalid.
    pub(super) dropped: u64,
}

/// A frame of which some parts have been received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    /// `None` for a frame that is being dropped.
    into: Option<u32>,
    bytes: u32,
}

impl Long {
    pub(super) fn new(first: u32, multi_buffer: bool) -> Result<Self, Problem> {
        let count = if multi_buffer { COUNT } else { 0 };
        let bytes = count as usize * MULTI_BUFFER_BYTES_MAX as usize;
        let memory = multi_buffer.then(|| Mapping::private(bytes)).transpose();
        let memory = memory.map_err(|error| Problem::failed("cannot get 4 MiB for long frames", error))?;
        Ok(Self { frames: Frames::new(count, MULTI_BUFFER_BYTES_MAX, 1), memory, first, dropped: 0 })
    }

    /// The index among the long frames of this frame number.
    #[inline]
    pub(super) fn place_of(&self, number: u32) -> Option<u32> {
        number.checked_sub(self.first)
    }

    /// The address of `len` bytes from `offset` on in a long frame, if they lie inside.
    #[inline]
    pub(super) fn locate(&self, index: u32, offset: u32, len: usize) -> Option<NonNull<u8>> {
        let memory = self.memory.as_ref()?;
        let start = usize::try_from(self.frames.address(index, offset)).ok()?;
        let end = start.checked_add(len).filter(|end| *end <= memory.len() && len <= self.frames.room(offset))?;
        // SAFETY: `start` is not behind `end`, which lies inside of the mapping.
        Some(unsafe { memory.base().add(end - len) })
    }

    pub(super) fn tally(&self) -> Tally {
        self.frames.tally()
    }
}

impl XdpLink {
    /// Returns whether a received frame was gathered: there are fewer of those.
    #[inline]
    pub fn is_long(&self, frame: &Received) -> bool {
        self.long.place_of(frame.index).is_some()
    }

    /// The number of received long frames that are with the caller.
    #[inline]
    pub fn lent_long(&self) -> u32 {
        self.long.tally().lent
    }

    /// The number of long frames: 0 if frames never lie in several buffers.
    pub fn long_frames(&self) -> u32 {
        self.long.tally().sum()
    }

    /// Allocates a frame to fill with this many bytes.
    #[inline]
    pub fn allocate_for(&mut self, bytes: usize) -> Option<Outgoing> {
        if bytes <= self.facts.frame_bytes as usize { self.allocate() } else { self.allocate_long() }
    }

    #[cold]
    fn allocate_long(&mut self) -> Option<Outgoing> {
        let index = self.long.frames.take(Place::Held)?;
        Some(Outgoing { index: self.long.first + index, offset: 0 })
    }

    /// Takes the parts of a frame, a first one and further received ones; returns the frame when it is complete. The
    /// kernel publishes all parts at once, but another writer of the ring need not.
    #[cold]
    pub(super) fn gather(&mut self, number: usize, first: Descriptor) -> Option<Received> {
        let mut descriptor = first;
        let partial = loop {
            let partial = self.gather_part(number, descriptor);
            if !descriptor.is_continued() {
                break partial;
            }
            let queue = &mut self.queues[number];
            queue.partial = Some(partial);
            descriptor = queue.rx.pop()?;
            queue.rx.release();
        };
        let Some(index) = partial.into else {
            self.long.dropped += 1;
            return None;
        };
        let is_whole = self.long.frames.step(index, GATHERED, Place::Lent);
        is_whole.then(|| Received { index: self.long.first + index, offset: 0, len: partial.bytes, timestamp_ns: None })
    }

    /// Adds a descriptor's bytes to the frame that it is a part of.
    fn gather_part(&mut self, number: usize, descriptor: Descriptor) -> Partial {
        let begun = self.queues[number].partial.take();
        let mut partial = begun.unwrap_or_else(|| Partial { into: self.long.frames.take(GATHERED), bytes: 0 });
        let part = self.frames.receive(number as u8, descriptor.continued(false), None);
        let is_copied = part.as_ref().is_some_and(|part| self.append(&mut partial, part));
        part.iter().for_each(|part| self.frames.release(part));
        if !is_copied && let Some(index) = partial.into.take() {
            self.long.frames.step(index, GATHERED, Place::Free);
        }
        partial
    }

    /// Appends a part; false if it does not fit.
    fn append(&self, partial: &mut Partial, part: &Received) -> bool {
        let bytes = self.bytes(part);
        let to = partial.into.and_then(|index| self.long.locate(index, partial.bytes, bytes.len()));
        let Some(to) = to else { return false };
        // SAFETY: there are as many bytes at `to`, in memory of ours that the received bytes do not lie in, of a frame that is being
        // gathered: it is in nobody's hands, so no slice of it is there.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        partial.bytes += part.len;
        true
    }

    /// Hands over a long frame in as many pieces as needed, all or none of them.
    #[cold]
    pub(super) fn send_long(&mut self, index: u32, frame: Outgoing, len: usize) -> Result<(), Unsent> {
        let pieces = len.div_ceil(self.facts.frame_bytes as usize) as u32;
        if self.frames.tally().free < pieces || self.frames.tally().sent >= self.reap_at {
            self.reap();
        }
        if self.tx.free(pieces) < pieces || self.frames.tally().free < pieces {
            self.full += 1;
            return Err(Unsent { frame, reason: Reason::Full });
        }
        let Some(start) = self.locate(frame.index, frame.offset, len, Place::Held) else {
            // A frame of another link: a fault, as with any frame.
            self.long.frames.step(index, Place::Held, Place::Free);
            return Ok(());
        };
        let mut done = 0;
        for left in (0..pieces).rev() {
            let bytes = (len - done).min(self.facts.frame_bytes as usize);
            let Some(piece) = self.frames.take(Place::Sent) else { break };
            let address = self.frames.address(piece, 0);
            let Some(to) = self.umem.locate(address, bytes) else { break };
            // SAFETY: there are as many bytes at both places, one in our memory and one in the kernel's; the piece was free until
            // now and is in no ring yet, and no slice of either frame is there, as a slice of one that is held borrows the link.
            unsafe { to.copy_from_nonoverlapping(start.add(done), bytes) };
            self.tx.push(Descriptor { address, len: bytes as u32, options: 0 }.continued(left != 0));
            done += bytes;
        }
        self.long.frames.step(index, Place::Held, Place::Free);
        self.sent += 1;
        Ok(())
    }
}
