//! A wire in memory: two links with the same accounting as a device queue, bounded queues, and a virtual clock. The
//! same sequence of calls gives the same result.

use super::accounting::{Frames, Place};
use super::{Counters, FRAME_BYTES_MIN, FrameFacts, FrameLink, Outgoing, Reason, Received, Sender, Unsent};
use sidestep_sys::xdp::{Descriptor, PACKET_HEADROOM_BYTES};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The options of a simulated wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// Frames of each end.
    pub frames: u32,
    /// The size of each frame, bytes: a power of two above 256, which is the space in front of a received frame.
    pub frame_bytes: u32,
    /// The most frames that an end can hand over before a flush, and the most on the wire in each direction; further
    /// ones are lost, as if a device's ring were full.
    pub queue: u32,
    /// The number of frames of each end that are kept ready for receiving.
    pub fill: u32,
    /// The delay from flush to arrival, ns of the virtual clock.
    pub delay_ns: u64,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self { frames: 256, frame_bytes: 2048, queue: 128, fill: 128, delay_ns: 0 }
    }
}

/// The clock of a simulated wire.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<AtomicU64>);

impl SimClock {
    /// The time since the wire was made, ns.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Advances the clock.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

/// A frame in flight.
#[derive(Debug)]
struct Flight {
    due_ns: u64,
    bytes: Vec<u8>,
}

/// Both directions; an end sends into `to[other]`.
#[derive(Debug, Default)]
struct Wire {
    to: [VecDeque<Flight>; 2],
    /// Memory of frames that have arrived, for reuse.
    spare: Vec<Vec<u8>>,
}

/// One end of a simulated wire.
#[derive(Debug)]
pub struct SimLink {
    end: usize,
    wire: Arc<Mutex<Wire>>,
    clock: SimClock,
    options: SimOptions,
    facts: FrameFacts,
    frames: Frames,
    memory: Box<[u8]>,
    /// Frames ready for receiving, in the order of use.
    fill: VecDeque<u32>,
    /// Frames handed over and not flushed: frame, offset, length.
    staged: VecDeque<(u32, u32, usize)>,
    /// Frames sent and not yet taken back.
    completed: VecDeque<u64>,
    counters: Counters,
    lost: u64,
}

/// Makes the two ends of one wire.
///
/// # Panics
/// Panics if `frame_bytes` is not a power of two above 256.
pub fn pair(options: &SimOptions) -> (SimLink, SimLink) {
    assert!(options.frame_bytes.is_power_of_two() && options.frame_bytes > PACKET_HEADROOM_BYTES, "{options:?}");
    let (wire, clock) = (Arc::new(Mutex::new(Wire::default())), SimClock::default());
    let link = |end| SimLink::new(end, wire.clone(), clock.clone(), *options);
    (link(0), link(1))
}

impl SimLink {
    fn new(end: usize, wire: Arc<Mutex<Wire>>, clock: SimClock, options: SimOptions) -> Self {
        let facts = FrameFacts {
            place: format!("end {end} of a simulated wire"),
            frames: options.frames,
            frame_bytes: options.frame_bytes,
            receive_bytes_max: options.frame_bytes - PACKET_HEADROOM_BYTES,
            send_bytes_max: options.frame_bytes,
            sender: Sender::Memory,
            xsks: Vec::new(),
        };
        let mut link = Self {
            end,
            wire,
            clock,
            options,
            facts,
            frames: Frames::new(options.frames, options.frame_bytes, 1),
            memory: vec![0; options.frames as usize * options.frame_bytes as usize].into(),
            fill: VecDeque::new(),
            staged: VecDeque::new(),
            completed: VecDeque::new(),
            counters: Counters::default(),
            lost: 0,
        };
        link.refill();
        link
    }

    /// The clock of both ends.
    pub fn clock(&self) -> &SimClock {
        &self.clock
    }

    /// The number of frames to this end that were lost: no frame was ready for them, they were too long, or the wire
    /// was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The arrival time of the next frame to this end, ns of the virtual clock.
    pub fn next_due_ns(&self) -> Option<u64> {
        locked(&self.wire).to[self.end].front().map(|flight| flight.due_ns)
    }

    fn refill(&mut self) {
        while self.frames.tally().fill < self.options.fill {
            let Some(index) = self.frames.take(Place::Fill(0)) else { break };
            self.fill.push_back(index);
        }
    }

    fn reap(&mut self) {
        while let Some(address) = self.completed.pop_front() {
            self.frames.complete(address);
        }
    }

    fn at(&self, index: u32, offset: u32, len: usize) -> std::ops::Range<usize> {
        let start = self.frames.address(index, offset) as usize;
        start..start + len
    }

    /// The next frame that is due, if a frame of this end is ready for it.
    fn arrival(&mut self) -> Option<Flight> {
        let mut wire = locked(&self.wire);
        let queue = &mut wire.to[self.end];
        let now_ns = self.clock.now_ns();
        while queue.front().is_some_and(|flight| flight.due_ns <= now_ns) {
            let flight = queue.pop_front()?;
            if !self.fill.is_empty() && flight.bytes.len() <= self.facts.receive_bytes_max as usize {
                return Some(flight);
            }
            self.lost += 1;
        }
        None
    }
}

/// Locks the wire. A thread that panicked meanwhile leaves it consistent: every change to it is one step.
fn locked(wire: &Mutex<Wire>) -> MutexGuard<'_, Wire> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrameLink for SimLink {
    fn facts(&self) -> &FrameFacts {
        &self.facts
    }

    fn counters(&self) -> Counters {
        Counters { faults: self.frames.faults(), tally: self.frames.tally(), ..self.counters }
    }

    fn receive(&mut self) -> Option<Received> {
        let flight = self.arrival()?;
        let index = self.fill.pop_front()?;
        let place = self.at(index, PACKET_HEADROOM_BYTES, flight.bytes.len());
        self.memory[place].copy_from_slice(&flight.bytes);
        let address = self.frames.address(index, PACKET_HEADROOM_BYTES);
        let descriptor = Descriptor { address, len: flight.bytes.len() as u32, options: 0 };
        let frame = self.frames.receive(0, descriptor, Some(flight.due_ns));
        locked(&self.wire).spare.push(flight.bytes);
        self.counters.received += u64::from(frame.is_some());
        self.refill();
        frame
    }

    fn bytes(&self, frame: &Received) -> &[u8] {
        let is_ours = self.frames.is_at(frame.index, Place::Lent) && frame.len() <= self.frames.room(frame.offset);
        if is_ours { &self.memory[self.at(frame.index, frame.offset, frame.len())] } else { &[] }
    }

    fn release(&mut self, frame: Received) {
        self.frames.release(&frame);
    }

    fn answer(&mut self, frame: Received) -> Outgoing {
        self.frames.answer(&frame)
    }

    fn allocate(&mut self) -> Option<Outgoing> {
        if self.frames.tally().free == 0 {
            self.reap();
        }
        self.frames.take(Place::Held).map(|index| Outgoing { index, offset: 0 })
    }

    fn buffer(&mut self, frame: &Outgoing) -> &mut [u8] {
        if !self.frames.is_at(frame.index, Place::Held) {
            return &mut [];
        }
        let place = self.at(frame.index, frame.offset, self.frames.room(frame.offset));
        &mut self.memory[place]
    }

    fn send(&mut self, frame: Outgoing, len: usize) -> Result<(), Unsent> {
        if !(FRAME_BYTES_MIN..=self.frames.room(frame.offset)).contains(&len) {
            return Err(Unsent { frame, reason: Reason::Length });
        }
        if self.staged.len() >= self.options.queue as usize {
            self.counters.full += 1;
            return Err(Unsent { frame, reason: Reason::Full });
        }
        if self.frames.step(frame.index, Place::Held, Place::Sent) {
            self.staged.push_back((frame.index, frame.offset, len));
            self.counters.sent += 1;
        }
        Ok(())
    }

    fn discard(&mut self, frame: Outgoing) {
        self.frames.discard(&frame);
    }

    fn flush(&mut self) -> io::Result<()> {
        let due_ns = self.clock.now_ns() + self.options.delay_ns;
        let shared = self.wire.clone();
        let mut wire = locked(&shared);
        while let Some((index, offset, len)) = self.staged.pop_front() {
            self.completed.push_back(self.frames.address(index, offset));
            if wire.to[1 - self.end].len() >= self.options.queue as usize {
                self.lost += 1;
                continue;
            }
            let mut bytes = wire.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(&self.memory[self.at(index, offset, len)]);
            wire.to[1 - self.end].push_back(Flight { due_ns, bytes });
        }
        Ok(())
    }

    fn poll(&mut self) -> io::Result<()> {
        self.reap();
        self.refill();
        Ok(())
    }

    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(link: &mut SimLink, byte: u8, len: usize) -> Result<(), Unsent> {
        let frame = link.allocate().expect("frames are free");
        link.buffer(&frame)[..len].fill(byte);
        let sent = link.send(frame, len);
        link.flush().unwrap();
        sent
    }

    #[test]
    fn a_frame_arrives_when_its_time_has_come() {
        let (mut left, mut right) = pair(&SimOptions { delay_ns: 500, ..SimOptions::default() });
        send(&mut left, 7, 60).unwrap();
        assert_eq!((right.receive(), right.next_due_ns()), (None, Some(500)));
        right.clock().advance(500);
        let frame = right.receive().unwrap();
        assert_eq!((right.bytes(&frame), frame.timestamp_ns()), (&[7; 60][..], Some(500)));
        let answer = right.answer(frame);
        right.buffer(&answer)[0] = 8;
        right.send(answer, 60).unwrap();
        right.flush().unwrap();
        left.clock().advance(500);
        let back = left.receive().unwrap();
        assert_eq!(left.bytes(&back)[..2], [8, 7]);
        left.release(back);
        left.poll().unwrap();
        right.poll().unwrap();
        for tally in [left.counters().tally, right.counters().tally] {
            assert_eq!((tally.free, tally.fill), (128, 128));
        }
    }

    #[test]
    fn what_has_no_room_is_refused_or_lost_and_counted() {
        let small = SimOptions { frames: 8, queue: 4, fill: 2, ..SimOptions::default() };
        let (mut left, mut right) = pair(&small);
        for _ in 0..6 {
            send(&mut left, 1, 60).unwrap();
            left.poll().unwrap();
        }
        assert_eq!(left.lost(), 2, "the wire holds four");
        let frames: Vec<Received> = std::iter::from_fn(|| right.receive()).collect();
        assert_eq!((frames.len(), right.lost()), (4, 0), "each is replaced as long as frames are free");
        frames.into_iter().for_each(|frame| right.release(frame));
        for len in [13, 2049] {
            let frame = left.allocate().unwrap();
            let unsent = left.send(frame, len).unwrap_err();
            assert_eq!(unsent.reason, Reason::Length);
            left.discard(unsent.frame);
        }
        send(&mut left, 1, 1793).unwrap();
        assert_eq!((right.receive(), right.lost()), (None, 1), "longer than what a frame can receive");
    }

    #[test]
    fn a_token_of_another_link_shows_nothing_and_is_counted() {
        let (mut left, mut right) = pair(&SimOptions::default());
        send(&mut left, 1, 60).unwrap();
        let frame = right.receive().unwrap();
        assert!(left.bytes(&frame).is_empty());
        left.release(frame);
        let tally = left.counters().tally;
        assert_eq!((left.counters().faults, tally.sum()), (1, 256));
    }
}
