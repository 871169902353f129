//! Our broadcast ring inside one process, one reader each way.

use super::ring::bytes_for;
use super::threads;
use crate::ring::{Channel, Contestant, End, Shape, Step};
use sidestep_ring::broadcast::{Publisher, Subscriber, pair};
use sidestep_ring::{Cell, ReadError, Waking};
use sidestep_sys::Problem;

pub(super) fn all() -> Vec<Box<dyn Contestant>> {
    vec![Box::new(threads(
        Broadcast,
        "ring-broadcast",
        false,
        "sidestep's broadcast ring with one reader, both ends spinning. Its writer never waits: in a stream the reader \
         loses what it is too slow for, and knows how much.",
    ))]
}

struct Broadcast;

struct BroadcastEnd {
    out: Publisher,
    back: Subscriber,
    buffer: Vec<u8>,
    lost: u64,
}

impl Channel for Broadcast {
    type End = BroadcastEnd;
    type Ticket = BroadcastEnd;

    fn open(&self, shape: Shape) -> Result<(BroadcastEnd, BroadcastEnd), Problem> {
        let (out, far_back) = pair(bytes_for(shape, Cell::Line), Waking::Never)?;
        let (far_out, back) = pair(bytes_for(shape, Cell::Line), Waking::Never)?;
        let end = |out, back| BroadcastEnd { out, back, buffer: vec![0; shape.size], lost: 0 };
        Ok((end(out, back), end(far_out, far_back)))
    }

    fn join(&self, ticket: BroadcastEnd) -> Result<BroadcastEnd, Problem> {
        Ok(ticket)
    }
}

impl End for BroadcastEnd {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        if self.out.publish(message).is_ok() { Step::Done } else { Step::Gone }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.back.try_read(&mut self.buffer) {
            Ok(length) => {
                take(&self.buffer[..length]);
                Step::Done
            }
            Err(ReadError::Empty) => Step::Again,
            Err(ReadError::Lost(loss)) => {
                self.lost += loss.messages;
                Step::Again
            }
            Err(_) => Step::Gone,
        }
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}
