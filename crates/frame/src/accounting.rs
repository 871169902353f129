//! The state of every frame. The kernel, or another writer of the rings, returns addresses; none of them is trusted.

use super::token::{Outgoing, Received};
use sidestep_sys::xdp::Descriptor;

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the free list.
    Free,
    /// Lent to the other side for receiving by this queue: in its FILL ring, in the kernel, in its RX ring.
    Fill(u8),
    /// Received, with the caller.
    Lent,
    /// To be sent, with the caller.
    Held,
    /// Handed over for sending: in the TX ring, in the kernel, in the COMPLETION ring.
    Sent,
}

/// The number of frames in each state. The sum is always the number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Not in use.
    pub free: u32,
    /// Lent to the kernel for receiving.
    pub fill: u32,
    /// Received, with the caller.
    pub lent: u32,
    /// To be sent, with the caller.
    pub held: u32,
    /// Handed over for sending.
    pub sent: u32,
}

impl Tally {
    /// The number of all frames.
    pub fn sum(self) -> u32 {
        self.free + self.fill + self.lent + self.held + self.sent
    }

    fn at(&mut self, place: Place) -> &mut u32 {
        match place {
            Place::Free => &mut self.free,
            Place::Fill(_) => &mut self.fill,
            Place::Lent => &mut self.lent,
            Place::Held => &mut self.held,
            Place::Sent => &mut self.sent,
        }
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            free: self.free + other.free,
            fill: self.fill + other.fill,
            lent: self.lent + other.lent,
            held: self.held + other.held,
            sent: self.sent + other.sent,
        }
    }
}

/// The frames of one kind of a link.
#[derive(Debug)]
pub(super) struct Frames {
    places: Box<[Place]>,
    /// A stack: the bytes of the frame used last are in the cache.
    free: Vec<u32>,
    tally: Tally,
    /// The number of frames lent to each queue for receiving.
    filled: Box<[u32]>,
    frame_bytes: u32,
    faults: u64,
}

impl Frames {
    /// Makes frames that are all free. `frame_bytes` is a power of two.
    pub(super) fn new(frames: u32, frame_bytes: u32, queues: u8) -> Self {
        debug_assert!(frame_bytes.is_power_of_two());
        Self {
            places: vec![Place::Free; frames as usize].into(),
            free: (0..frames).rev().collect(),
            tally: Tally { free: frames, ..Tally::default() },
            filled: vec![0; usize::from(queues)].into(),
            frame_bytes,
            faults: 0,
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// The number of frames lent to a queue.
    #[inline]
    pub(super) fn filled(&self, queue: u8) -> u32 {
        self.filled[usize::from(queue)]
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults
    }

    /// The address of an offset in a frame.
    #[inline]
    pub(super) fn address(&self, index: u32, offset: u32) -> u64 {
        u64::from(index) * u64::from(self.frame_bytes) + u64::from(offset)
    }

    /// The number of bytes from `offset` to the end of a frame.
    #[inline]
    pub(super) fn room(&self, offset: u32) -> usize {
        self.frame_bytes.saturating_sub(offset) as usize
    }

    #[inline]
    pub(super) fn is_at(&self, index: u32, place: Place) -> bool {
        self.places.get(index as usize) == Some(&place)
    }

    /// Moves a free frame to `place`.
    #[inline]
    pub(super) fn take(&mut self, place: Place) -> Option<u32> {
        let index = self.free.pop()?;
        self.set(index, Place::Free, place);
        Some(index)
    }

    /// Moves a frame from one state to another; a frame in another state stays there, and that is a fault.
    #[inline]
    pub(super) fn step(&mut self, index: u32, from: Place, to: Place) -> bool {
        if !self.is_at(index, from) {
            self.faults += 1;
            return false;
        }
        self.set(index, from, to);
        if to == Place::Free {
            self.free.push(index); // Within the capacity: each frame is in it at most once.
        }
        true
    }

    #[inline]
    fn set(&mut self, index: u32, from: Place, to: Place) {
        self.places[index as usize] = to;
        *self.tally.at(from) -= 1;
        *self.tally.at(to) += 1;
        if let Place::Fill(queue) = from {
            self.filled[usize::from(queue)] -= 1;
        }
        if let Place::Fill(queue) = to {
            self.filled[usize::from(queue)] += 1;
        }
    }

    /// Takes a frame that the other side reports as received by a queue.
    #[inline]
    pub(super) fn receive(&mut self, queue: u8, descriptor: Descriptor, timestamp_ns: Option<u64>) -> Option<Received> {
        let (index, offset) = self.split(descriptor.address)?;
        let fits = descriptor.len as usize <= self.room(offset) && descriptor.len > 0 && descriptor.options == 0;
        if !fits {
            // The frame is back, even if its reported content is impossible.
            if self.step(index, Place::Fill(queue), Place::Free) {
                self.faults += 1;
            }
            return None;
        }
        let received = Received { index, offset, len: descriptor.len, timestamp_ns };
        self.step(index, Place::Fill(queue), Place::Lent).then_some(received)
    }

    /// Takes a frame that the other side reports as sent.
    #[inline]
    pub(super) fn complete(&mut self, address: u64) {
        if let Some((index, _)) = self.split(address) {
            self.step(index, Place::Sent, Place::Free);
        }
    }

    /// The frame and offset of an address; one beyond the last frame is a fault.
    #[inline]
    fn split(&mut self, address: u64) -> Option<(u32, u32)> {
        let frame_bytes = u64::from(self.frame_bytes);
        let index = u32::try_from(address / frame_bytes).ok().filter(|index| (*index as usize) < self.places.len());
        if index.is_none() {
            self.faults += 1;
        }
        index.map(|index| (index, (address % frame_bytes) as u32))
    }

    pub(super) fn release(&mut self, frame: &Received) {
        self.step(frame.index, Place::Lent, Place::Free);
    }

    pub(super) fn discard(&mut self, frame: &Outgoing) {
        self.step(frame.index, Place::Held, Place::Free);
    }

    /// Turns a received frame into one to send.
    pub(super) fn answer(&mut self, frame: &Received) -> Outgoing {
        self.step(frame.index, Place::Lent, Place::Held);
        Outgoing { index: frame.index, offset: frame.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAMES: u32 = 8;
    const QUEUES: u8 = 2;

    fn descriptor(address: u64, len: u32) -> Descriptor {
        Descriptor { address, len, options: 0 }
    }

    #[test]
    fn a_frame_goes_round() {
        let mut frames = Frames::new(FRAMES, 2048, QUEUES);
        let index = frames.take(Place::Fill(0)).unwrap();
        let received = frames.receive(0, descriptor(frames.address(index, 256), 60), None).unwrap();
        assert_eq!((received.index, received.offset, received.len()), (index, 256, 60));
        let answer = frames.answer(&received);
        assert!(frames.step(answer.index, Place::Held, Place::Sent));
        frames.complete(frames.address(index, 256));
        assert_eq!((frames.tally().free, frames.faults()), (FRAMES, 0));
        assert_eq!(frames.take(Place::Held), Some(index), "the frame used last is the one used next");
    }

    #[test]
    fn what_cannot_be_is_counted_and_changes_nothing_else() {
        let mut frames = Frames::new(FRAMES, 2048, QUEUES);
        let index = frames.take(Place::Fill(0)).unwrap();
        let address = frames.address(index, 0);
        assert!(frames.receive(0, descriptor(u64::MAX, 60), None).is_none(), "outside");
        assert!(frames.receive(0, descriptor(address + 2048, 60), None).is_none(), "not lent");
        frames.complete(address);
        assert_eq!((frames.faults(), frames.tally().fill), (3, 1), "not sent");
        assert!(frames.receive(1, descriptor(address, 60), None).is_none(), "by another queue than it was lent to");
        assert_eq!((frames.faults(), frames.filled(0), frames.filled(1)), (4, 1, 0));
        assert!(frames.receive(0, descriptor(address + 2000, 60), None).is_none(), "over the border");
        assert_eq!((frames.faults(), frames.tally().free), (5, FRAMES), "but it is back");
        frames.complete(address);
        assert_eq!((frames.faults(), frames.tally().sum()), (6, FRAMES), "free twice");
    }

    proptest! {
        #[test]
        fn no_sequence_of_claims_loses_or_doubles_a_frame(claims in prop::collection::vec((0..8_u8, any::<u64>(), any::<u32>()), 0..200)) {
            let mut frames = Frames::new(FRAMES, 2048, QUEUES);
            let mut lent = Vec::new();
            for (what, address, len) in claims {
                // Mostly near valid values, where the mistakes are.
                let near = address % (u64::from(FRAMES) * 2048 + 4096);
                match what {
                    0 => drop(frames.take(Place::Fill(0))),
                    1 => lent.extend(frames.receive(0, descriptor(near, len % 4096), None)),
                    2 => frames.complete(near),
                    3 => drop(frames.take(Place::Sent)),
                    6 => drop(frames.take(Place::Fill(1))),
                    7 => lent.extend(frames.receive(1, descriptor(near, len % 4096), None)),
                    4 => lent.pop().iter().for_each(|frame| frames.release(frame)),
                    _ => drop(frames.receive(0, descriptor(address, len), None)),
                }
                prop_assert_eq!(frames.tally().sum(), FRAMES);
                prop_assert_eq!(frames.filled(0) + frames.filled(1), frames.tally().fill);
                prop_assert_eq!(frames.tally().free as usize, frames.free.len());
                let mut seen = frames.free.clone();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), frames.free.len());
            }
        }
    }
}
