//! A link with injected faults on sending: loss, duplication, reordering, corruption, truncation, drawn from a seed.
//! Wrap both ends for faults in both directions.

use super::{Counters, FRAME_BYTES_MIN, FrameFacts, FrameLink, Outgoing, Received, Unsent};
use std::io;

/// Polls after which a frame held back is sent even if no other follows it.
const HOLD_POLLS: u32 = 16;

/// The probability of each fault per frame, 0 to 1. They are drawn in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultOptions {
    /// The seed: the same one draws the same faults for the same frames.
    pub seed: u64,
    /// The frame never arrives.
    pub loss: f64,
    /// One bit is flipped.
    pub corruption: f64,
    /// The frame is cut to a random length of at least an Ethernet header.
    pub truncation: f64,
    /// The frame arrives twice.
    pub duplication: f64,
    /// The frame arrives after the one that follows it.
    pub reordering: f64,
}

/// The faults injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Frames lost.
    pub lost: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames cut.
    pub truncated: u64,
    /// Frames sent twice.
    pub duplicated: u64,
    /// Frames that were overtaken by another.
    pub reordered: u64,
}

/// A link with faults.
#[derive(Debug)]
pub struct Fault<L> {
    link: L,
    options: FaultOptions,
    random: fastrand::Rng,
    injected: Injected,
    /// The frame held back, its length, and the number of polls since.
    held: Option<(Outgoing, usize, u32)>,
    scratch: Vec<u8>,
}

impl<L: FrameLink> Fault<L> {
    /// Wraps a link.
    pub fn new(link: L, options: FaultOptions) -> Self {
        let scratch = Vec::with_capacity(link.facts().frame_bytes as usize);
        let random = fastrand::Rng::with_seed(options.seed);
        Self { link, options, random, injected: Injected::default(), held: None, scratch }
    }

    /// The faults injected so far.
    pub fn injected(&self) -> Injected {
        self.injected
    }

    /// The wrapped link.
    pub fn inner(&self) -> &L {
        &self.link
    }

    fn hits(&mut self, probability: f64) -> bool {
        // Drawn even for 0, so that one fault's rate does not change the position of the others.
        self.random.f64() < probability
    }

    fn corrupt(&mut self, frame: &Outgoing, len: usize) {
        let (byte, bit) = (self.random.usize(..len), self.random.u8(..8));
        self.link.buffer(frame)[byte] ^= 1 << bit;
        self.injected.corrupted += 1;
    }

    /// Sends a copy of a frame that is about to be sent, unless the link has no free frame or space.
    fn duplicate(&mut self, frame: &Outgoing, len: usize) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.link.buffer(frame)[..len]);
        let Some(copy) = self.link.allocate() else { return };
        self.link.buffer(&copy)[..len].copy_from_slice(&self.scratch);
        match self.link.send(copy, len) {
            Ok(()) => self.injected.duplicated += 1,
            Err(unsent) => self.link.discard(unsent.frame),
        }
    }

    /// Sends the frame that was held back.
    fn let_go(&mut self) {
        if let Some((frame, len, polls)) = self.held.take()
            && let Err(unsent) = self.link.send(frame, len)
        {
            self.held = Some((unsent.frame, len, polls));
        }
    }
}

impl<L: FrameLink> FrameLink for Fault<L> {
    fn facts(&self) -> &FrameFacts {
        self.link.facts()
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }

    fn receive(&mut self) -> Option<Received> {
        self.link.receive()
    }

    fn bytes(&self, frame: &Received) -> &[u8] {
        self.link.bytes(frame)
    }

    fn release(&mut self, frame: Received) {
        self.link.release(frame);
    }

    fn answer(&mut self, frame: Received) -> Outgoing {
        self.link.answer(frame)
    }

    fn allocate(&mut self) -> Option<Outgoing> {
        self.link.allocate()
    }

    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8] {
        self.link.buffer(frame)
    }

    fn send(&mut self, frame: Outgoing, mut len: usize) -> Result<(), Unsent> {
        let room = self.link.buffer(&frame).len();
        if !(FRAME_BYTES_MIN..=room).contains(&len) {
            return self.link.send(frame, len); // The error has the reason.
        }
        let FaultOptions { loss, corruption, truncation, duplication, reordering, .. } = self.options;
        let drawn = [loss, corruption, truncation, duplication, reordering].map(|probability| self.hits(probability));
        let [is_lost, is_corrupted, is_cut, is_doubled, is_late] = drawn;
        if is_lost {
            self.injected.lost += 1;
            self.link.discard(frame);
            return Ok(());
        }
        if is_corrupted {
            self.corrupt(&frame, len);
        }
        if is_cut {
            len = self.random.usize(FRAME_BYTES_MIN..=len);
            self.injected.truncated += 1;
        }
        if is_doubled {
            self.duplicate(&frame, len);
        }
        if is_late && self.held.is_none() {
            self.injected.reordered += 1;
            self.held = Some((frame, len, 0));
            return Ok(());
        }
        self.link.send(frame, len)?;
        self.let_go();
        Ok(())
    }

    fn discard(&mut self, frame: Outgoing) {
        self.link.discard(frame);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.link.flush()
    }

    fn poll(&mut self) -> io::Result<()> {
        if let Some((_, _, polls)) = &mut self.held {
            *polls += 1;
            if *polls >= HOLD_POLLS {
                self.let_go();
                self.link.flush()?;
            }
        }
        self.link.poll()
    }

    fn check(&mut self) -> io::Result<()> {
        self.link.check()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sim::{self, SimOptions};
    use super::*;

    /// Sends numbered frames and returns those that arrive.
    fn through(options: FaultOptions, count: u16) -> (Vec<Vec<u8>>, Injected) {
        let (left, mut right) = sim::pair(&SimOptions::default());
        let mut left = Fault::new(left, options);
        let mut arrived = Vec::new();
        for number in 0..count {
            let frame = left.allocate().unwrap();
            left.buffer(&frame)[..60].fill(0);
            left.buffer(&frame)[..2].copy_from_slice(&number.to_be_bytes());
            left.send(frame, 60).unwrap();
            left.flush().unwrap();
            left.poll().unwrap();
            while let Some(frame) = right.receive() {
                arrived.push(right.bytes(&frame).to_vec());
                right.release(frame);
            }
        }
        for _ in 0..HOLD_POLLS {
            left.poll().unwrap();
        }
        arrived.extend(right.receive().map(|frame| right.bytes(&frame).to_vec()));
        assert_eq!(left.counters().tally.sum(), 256);
        assert_eq!(left.counters().faults, 0);
        (arrived, left.injected())
    }

    fn number(frame: &[u8]) -> u16 {
        u16::from_be_bytes([frame[0], frame[1]])
    }

    #[test]
    fn every_fault_happens_as_often_as_asked_and_again_with_the_same_seed() {
        let options =
            FaultOptions { seed: 7, loss: 0.1, corruption: 0.1, truncation: 0.1, duplication: 0.1, reordering: 0.1 };
        let (arrived, injected) = through(options, 10_000);
        let Injected { lost, corrupted, truncated, duplicated, reordered } = injected;
        for count in [lost, corrupted, truncated, duplicated, reordered] {
            assert!((800..1200).contains(&count), "{injected:?}");
        }
        assert_eq!(arrived.len() as u64, 10_000 - lost + duplicated);
        assert!(arrived.iter().any(|frame| frame.len() < 60));
        assert_eq!(through(options, 10_000), (arrived, injected));
        assert_ne!(through(FaultOptions { seed: 8, ..options }, 10_000).1, injected);
    }

    #[test]
    fn reordering_loses_nothing_and_a_last_frame_is_not_held_for_ever() {
        let (arrived, injected) = through(FaultOptions { reordering: 0.3, ..FaultOptions::default() }, 1000);
        let mut numbers: Vec<u16> = arrived.iter().map(|frame| number(frame)).collect();
        assert!(injected.reordered > 200 && !numbers.is_sorted());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        let (arrived, _) = through(FaultOptions { reordering: 1.0, ..FaultOptions::default() }, 1);
        assert_eq!(arrived.len(), 1);
    }

    #[test]
    fn without_faults_it_is_the_link_beneath() {
        let (arrived, injected) = through(FaultOptions::default(), 100);
        assert_eq!(arrived.iter().map(|frame| number(frame)).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert_eq!(injected, Injected::default());
    }
}
