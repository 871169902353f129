//! Our single-producer ring inside one process: spinning, and sleeping.

use super::threads;
use crate::ring::{Channel, Contestant, End, Shape, Step};
use sidestep_ring::layout::WORD_BYTES;
use sidestep_ring::spsc::{Consumer, Producer, pair_of};
use sidestep_ring::{Cell, ClaimError, ReadError, Waking};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use std::time::{Duration, Instant};

/// The longest sleep in one call, so that the end of a slice is noticed.
const NAP: Duration = Duration::from_millis(50);

pub(super) fn spinning() -> Vec<Box<dyn Contestant>> {
    vec![
        Box::new(threads(
            Spinning(Cell::Line),
            super::RING,
            false,
            "sidestep's single-producer ring between two threads, both ends spinning.",
        )),
        Box::new(threads(
            Spinning(Cell::Quarter),
            "ring-small",
            false,
            "The same ring made for small messages: up to four of them in a cache line.",
        )),
    ]
}

pub(super) fn parking() -> Vec<Box<dyn Contestant>> {
    vec![Box::new(threads(
        Parking,
        "ring-park",
        true,
        "The same ring, but a side that waits spins for a while and then sleeps on a futex until it is woken.",
    ))]
}

/// Bytes of a ring that has room for the messages of `shape`.
pub(in crate::ring) fn bytes_for(shape: Shape, cell: Cell) -> usize {
    shape.messages * (WORD_BYTES + shape.size).next_multiple_of(cell.bytes())
}

struct Spinning(Cell);

/// A producer and a consumer that never wait.
pub(in crate::ring) struct RingEnd {
    out: Producer,
    back: Consumer,
}

impl RingEnd {
    pub(in crate::ring) fn of(out: Producer, back: Consumer) -> Self {
        Self { out, back }
    }

    /// Closes both ways, before others are told to look.
    pub(super) fn close(&mut self) {
        self.out.close();
        self.back.close();
    }
}

/// Both ends of a pair of rings that wake nobody.
pub(super) fn open_spinning(shape: Shape) -> Result<(RingEnd, RingEnd), Problem> {
    open(shape, Cell::Line, Waking::Never)
}

fn open(shape: Shape, cell: Cell, waking: Waking) -> Result<(RingEnd, RingEnd), Problem> {
    let (out, far_back) = pair_of(cell, bytes_for(shape, cell), waking)?;
    let (far_out, back) = pair_of(cell, bytes_for(shape, cell), waking)?;
    Ok((RingEnd { out, back }, RingEnd { out: far_out, back: far_back }))
}

impl Channel for Spinning {
    type End = RingEnd;
    type Ticket = RingEnd;

    fn open(&self, shape: Shape) -> Result<(RingEnd, RingEnd), Problem> {
        open(shape, self.0, Waking::Never)
    }

    fn join(&self, ticket: RingEnd) -> Result<RingEnd, Problem> {
        Ok(ticket)
    }
}

impl End for RingEnd {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        match self.out.try_send(message) {
            Ok(()) => Step::Done,
            Err(ClaimError::Full) => Step::Again,
            Err(_) => Step::Gone,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.back.try_read() {
            Ok(message) => {
                take(&message);
                Step::Done
            }
            Err(ReadError::Empty) => Step::Again,
            Err(_) => Step::Gone,
        }
    }
}

struct Parking;

struct ParkingEnd(RingEnd);

impl Channel for Parking {
    type End = ParkingEnd;
    type Ticket = ParkingEnd;

    fn open(&self, shape: Shape) -> Result<(ParkingEnd, ParkingEnd), Problem> {
        let (near, far) = open(shape, Cell::Line, Waking::default())?;
        Ok((ParkingEnd(near), ParkingEnd(far)))
    }

    fn join(&self, ticket: ParkingEnd) -> Result<ParkingEnd, Problem> {
        Ok(ticket)
    }
}

impl End for ParkingEnd {
    const TURNS_PER_LOOK: u32 = 1;

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        match self.0.send(message) {
            Step::Again => {
                let _ = self.0.out.wait(message.len(), IdleStrategy::SPIN_THEN_PARK, Some(Instant::now() + NAP));
                self.0.send(message)
            }
            other => other,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        // What a wait ends with, the attempt behind it says again.
        let _ = self.0.back.wait(IdleStrategy::SPIN_THEN_PARK, Some(Instant::now() + NAP));
        self.0.receive(take)
    }
}
