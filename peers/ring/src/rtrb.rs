//! rtrb, a ring of values for real-time audio.
//!
//! Twice: by value (`push` and `pop`, the first thing in its documentation), and by chunks of one, which copy into the slot
//! and are read in place (its documentation, module `chunks`, recommends them for items that are moved in bulk).

use crate::by_size::{BySize, Family};
use ::rtrb::{Consumer, Producer, RingBuffer};
use sidestep_bench::ring::{Channel, Contestant, End, Shape, Step};
use sidestep_sys::Problem;

pub(crate) fn all() -> Vec<Box<dyn Contestant>> {
    vec![BySize::<ByValue>::boxed(), BySize::<ByChunk>::boxed()]
}

struct ByValue;

impl Family for ByValue {
    const NAME: &'static str = "rtrb";
    const DESCRIPTION: &'static str = "rtrb 0.4, push and pop of arrays of the message's size, both ends spinning.";
    type Of<const N: usize> = Values<N>;
}

struct ByChunk;

impl Family for ByChunk {
    const NAME: &'static str = "rtrb-chunk";
    const DESCRIPTION: &'static str =
        "rtrb 0.4, push_entire_slice of one array and read_chunk(1), read in place, both ends spinning.";
    type Of<const N: usize> = Chunks<N>;
}

#[derive(Default)]
struct Values<const N: usize>;

#[derive(Default)]
struct Chunks<const N: usize>;

struct ValueEnd<const N: usize>(Producer<[u8; N]>, Consumer<[u8; N]>);

struct ChunkEnd<const N: usize>(Producer<[u8; N]>, Consumer<[u8; N]>);

/// A producer and the consumer of the way back.
type Side<const N: usize> = (Producer<[u8; N]>, Consumer<[u8; N]>);

fn open<const N: usize>(shape: Shape) -> (Side<N>, Side<N>) {
    let (out, far_back) = RingBuffer::new(shape.messages);
    let (far_out, back) = RingBuffer::new(shape.messages);
    ((out, back), (far_out, far_back))
}

impl<const N: usize> Channel for Values<N> {
    type End = ValueEnd<N>;
    type Ticket = ValueEnd<N>;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let (near, far) = open(shape);
        Ok((ValueEnd(near.0, near.1), ValueEnd(far.0, far.1)))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<const N: usize> Channel for Chunks<N> {
    type End = ChunkEnd<N>;
    type Ticket = ChunkEnd<N>;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let (near, far) = open(shape);
        Ok((ChunkEnd(near.0, near.1), ChunkEnd(far.0, far.1)))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<const N: usize> End for ValueEnd<N> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        let Ok(value) = message.try_into() else { return Step::Gone };
        if self.0.push(value).is_ok() { Step::Done } else { Step::Again }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.1.pop() {
            Ok(value) => {
                take(&value);
                Step::Done
            }
            Err(_) => Step::Again,
        }
    }
}

impl<const N: usize> End for ChunkEnd<N> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        if self.0.push_entire_slice(message.as_chunks::<N>().0).is_ok() { Step::Done } else { Step::Again }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.1.read_chunk(1) {
            Ok(chunk) => {
                take(&chunk.as_slices().0[0]);
                chunk.commit_all();
                Step::Done
            }
            Err(_) => Step::Again,
        }
    }
}
