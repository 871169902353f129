//! One receive queue of a link: its socket and rings, and the turns of several queues.

use super::level::Level;
use super::long::Partial;
use super::{FILL_BATCH, XdpOptions};
use crate::accounting::{Frames, Place};
use sidestep_sys::Problem;
use sidestep_sys::xdp::{Consumer, Descriptor, Mode, Producer, Rings, XskFacts, kick as call};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The number of frames taken from one queue before the next one's turn: few enough that none waits long for a flood on
/// another, and enough that a burst is read from one ring.
const BURST: u32 = 16;

/// The most frames that one received frame, or one poll, has lent: a level that has risen is reached in steps, each of which the kernel
/// sees, and none keeps the reader for long.
const LENT_AT_ONCE: u32 = 64;

/// An unused socket that is bound to a queue.
#[derive(Debug)]
pub struct XdpQueue {
    /// The AF_XDP socket.
    pub socket: OwnedFd,
    /// Its four rings, mapped.
    pub rings: Rings,
    /// Its queue and mode.
    pub facts: XskFacts,
}

/// The receiving half of one queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) rx: Consumer<Descriptor>,
    fill: Producer<u64>,
    pub(super) socket: OwnedFd,
    /// Its index among the queues of the link.
    number: u8,
    level: Level,
    /// The incomplete frame of several buffers.
    pub(super) partial: Option<Partial>,
    polls_device: bool,
}

/// The sending half; only that of one queue is used.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) tx: Producer<Descriptor>,
    pub(super) completion: Consumer<u64>,
}

impl Queue {
    /// Opens number `number` of `count` queues of a link.
    pub(super) fn open(
        XdpQueue { socket, rings, facts }: XdpQueue,
        (number, count): (u8, u8),
        options: &XdpOptions,
    ) -> Result<(Self, Sender, XskFacts), Problem> {
        let refused = |why: &str| {
            let place = format!("queue {} of {}", facts.queue, facts.interface);
            Problem::failed(format!("cannot use the AF_XDP socket of {place}"), why)
                .next("give it a fresh socket with four rings of its own")
        };
        let (Some(rx), Some(tx), Some(fill), Some(completion)) = (rings.rx, rings.tx, rings.fill, rings.completion)
        else {
            return Err(refused("it lacks a ring"));
        };
        if !tx.is_fresh() || !fill.is_fresh() {
            return Err(refused("it has been used before"));
        }
        let (frames, count) = (facts.geometry.frames, u32::from(count));
        let most = facts.rings.fill.min(frames / count);
        let level = match options.fill {
            Some(wanted) => Level::fixed(wanted.min(most)),
            None if facts.mode == Mode::ZeroCopy => Level::fixed(most.min(frames.div_ceil(2) / count)),
            None => Level::following(most.min(frames.div_ceil(2) / count)),
        };
        let polls_device = facts.busy_poll.is_some();
        Ok((Self { rx, fill, socket, number, level, partial: None, polls_device }, Sender { tx, completion }, facts))
    }

    /// The most frames that are lent to the kernel.
    pub(super) fn lent_most(&self) -> u32 {
        self.level.most()
    }

    /// Lends all frames that are to be lent at the beginning.
    pub(super) fn begin(&mut self, frames: &mut Frames) {
        self.lend(frames, 1, u32::MAX);
    }

    /// Lends free frames to the kernel after a received one, if a batch is missing there.
    #[inline]
    pub(super) fn refill(&mut self, frames: &mut Frames) {
        self.level.follow(self.rx.ready());
        self.lend(frames, FILL_BATCH, LENT_AT_ONCE);
    }

    #[inline]
    fn lend(&mut self, frames: &mut Frames, batch: u32, at_most: u32) {
        let missing = self.level.now().saturating_sub(frames.filled(self.number));
        if missing < batch {
            return;
        }
        let missing = missing.min(at_most);
        let count = missing.min(self.fill.free(missing));
        for _ in 0..count {
            let Some(index) = frames.take(Place::Fill(self.number)) else { break };
            self.fill.push(frames.address(index, 0));
        }
        self.fill.publish();
    }

    /// Lends frames when nothing has come, and makes the kernel look at the FILL ring or poll the device by a call, if
    /// that is due.
    #[inline]
    pub(super) fn poll(&mut self, frames: &mut Frames, calls: &mut u64) -> io::Result<()> {
        self.lend(frames, FILL_BATCH.min(self.level.most()), LENT_AT_ONCE);
        if self.polls_device || self.fill.needs_wakeup() { self.drive(calls) } else { Ok(()) }
    }

    #[cold]
    fn drive(&self, calls: &mut u64) -> io::Result<()> {
        *calls += 1;
        match call::receive(self.socket.as_fd()) {
            Err(error) if !call::is_retry(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The turns of the queues.
#[derive(Debug)]
pub(super) struct Turns {
    count: usize,
    at: usize,
    left: u32,
}

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        Self { count, at: 0, left: BURST }
    }

    /// The queue whose turn it is.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Counts a frame taken from the queue.
    #[inline]
    pub(super) fn took(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.next();
        }
    }

    /// Passes the turn to the next queue.
    #[inline]
    pub(super) fn next(&mut self) {
        self.at = if self.at + 1 == self.count { 0 } else { self.at + 1 };
        self.left = BURST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which frames are taken from queues that hold this many.
    fn order<const QUEUES: usize>(mut waiting: [u32; QUEUES]) -> Vec<usize> {
        let (mut turns, mut order) = (Turns::new(QUEUES), Vec::new());
        while waiting.iter().any(|count| *count != 0) {
            if waiting[turns.at()] == 0 {
                turns.next();
                continue;
            }
            waiting[turns.at()] -= 1;
            order.push(turns.at());
            turns.took();
        }
        order
    }

    #[test]
    fn no_queue_waits_for_more_than_a_burst_of_each_other() {
        let order = order([1000, 1, 0, 1000]);
        assert_eq!(order.len(), 2001);
        let position = |queue| order.iter().position(|taken| *taken == queue).unwrap();
        assert_eq!((position(0), position(1), position(3)), (0, BURST as usize, BURST as usize + 1));
        let last = |queue| order.iter().rposition(|taken| *taken == queue).unwrap();
        assert!(last(3) - last(0) <= BURST as usize, "two floods are read by turns");
    }

    #[test]
    fn a_single_queue_has_every_turn() {
        assert_eq!(order([100]), [0; 100]);
    }
}
