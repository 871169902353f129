//! crossbeam's two bounded queues. Both allow many producers and consumers, which costs them; they are what most Rust
//! programs have.

use crate::by_size::{BySize, Family};
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use crossbeam_queue::ArrayQueue;
use sidestep_bench::ring::{Channel, Contestant, End, Shape, Step};
use sidestep_sys::Problem;
use std::sync::Arc;

pub(crate) fn all() -> Vec<Box<dyn Contestant>> {
    vec![BySize::<Queue>::boxed(), BySize::<Bounded>::boxed()]
}

struct Queue;

impl Family for Queue {
    const NAME: &'static str = "crossbeam-queue";
    const DESCRIPTION: &'static str =
        "crossbeam-queue 0.3, ArrayQueue of arrays of the message's size, push and pop, both ends spinning.";
    type Of<const N: usize> = Queues<N>;
}

struct Bounded;

impl Family for Bounded {
    const NAME: &'static str = "crossbeam-channel";
    const DESCRIPTION: &'static str = "crossbeam-channel 0.5, bounded channel of arrays of the message's size, try_send and try_recv, both ends spinning.";
    type Of<const N: usize> = Channels<N>;
}

#[derive(Default)]
struct Queues<const N: usize>;

struct QueueEnd<const N: usize>(Arc<ArrayQueue<[u8; N]>>, Arc<ArrayQueue<[u8; N]>>);

impl<const N: usize> Channel for Queues<N> {
    type End = QueueEnd<N>;
    type Ticket = QueueEnd<N>;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let queue = || Arc::new(ArrayQueue::new(shape.messages));
        let (there, back) = (queue(), queue());
        let far = QueueEnd(Arc::clone(&back), Arc::clone(&there));
        Ok((QueueEnd(there, back), far))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<const N: usize> End for QueueEnd<N> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        let Ok(value) = message.try_into() else { return Step::Gone };
        if self.0.push(value).is_ok() { Step::Done } else { Step::Again }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        let Some(value) = self.1.pop() else { return Step::Again };
        take(&value);
        Step::Done
    }
}

#[derive(Default)]
struct Channels<const N: usize>;

struct ChannelEnd<const N: usize>(Sender<[u8; N]>, Receiver<[u8; N]>);

impl<const N: usize> Channel for Channels<N> {
    type End = ChannelEnd<N>;
    type Ticket = ChannelEnd<N>;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let ((out, far_back), (far_out, back)) = (bounded(shape.messages), bounded(shape.messages));
        Ok((ChannelEnd(out, back), ChannelEnd(far_out, far_back)))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<const N: usize> End for ChannelEnd<N> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        let Ok(value) = message.try_into() else { return Step::Gone };
        match self.0.try_send(value) {
            Ok(()) => Step::Done,
            Err(TrySendError::Full(_)) => Step::Again,
            Err(TrySendError::Disconnected(_)) => Step::Gone,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.1.try_recv() {
            Ok(value) => {
                take(&value);
                Step::Done
            }
            Err(TryRecvError::Empty) => Step::Again,
            Err(TryRecvError::Disconnected) => Step::Gone,
        }
    }
}
