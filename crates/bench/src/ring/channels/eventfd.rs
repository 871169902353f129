//! The message in our ring, the wake-up by eventfd(2), for each message: what an event loop does beside a ring.

use super::ring::RingEnd;
use super::threads;
use crate::ring::{Channel, Contestant, End, Shape, Step, cannot_open};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use sidestep_sys::Problem;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(super) fn all() -> Vec<Box<dyn Contestant>> {
    vec![Box::new(threads(
        Doorbells,
        "eventfd",
        true,
        "The message in sidestep's ring, and for each one a write(2) to an eventfd on which the other side sleeps in a \
         blocking read(2).",
    ))]
}

struct Doorbells;

struct DoorbellEnd {
    ring: RingEnd,
    out: Arc<OwnedFd>,
    back: Arc<OwnedFd>,
    /// Messages that were announced and not yet read.
    announced: u64,
}

impl Channel for Doorbells {
    type End = DoorbellEnd;
    type Ticket = DoorbellEnd;

    fn open(&self, shape: Shape) -> Result<(DoorbellEnd, DoorbellEnd), Problem> {
        let (near, far) = super::ring::open_spinning(shape)?;
        let bell = || {
            let made = eventfd(0, EventfdFlags::CLOEXEC);
            made.map(Arc::new).map_err(|error| cannot_open("an eventfd", error))
        };
        let (there, back) = (bell()?, bell()?);
        let far = DoorbellEnd { ring: far, out: Arc::clone(&back), back: Arc::clone(&there), announced: 0 };
        Ok((DoorbellEnd { ring: near, out: there, back, announced: 0 }, far))
    }

    fn join(&self, ticket: DoorbellEnd) -> Result<DoorbellEnd, Problem> {
        Ok(ticket)
    }
}

impl DoorbellEnd {
    fn ring_bell(&self) -> Step {
        if write(&*self.out, &1_u64.to_ne_bytes()).is_ok() { Step::Done } else { Step::Gone }
    }
}

impl End for DoorbellEnd {
    const TURNS_PER_LOOK: u32 = 1;

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        match self.ring.send(message) {
            Step::Done => self.ring_bell(),
            Step::Again => {
                std::thread::yield_now();
                Step::Again
            }
            Step::Gone => Step::Gone,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        if self.announced == 0 {
            let mut count = [0; 8];
            match read(&*self.back, &mut count) {
                Ok(_) => self.announced = u64::from_ne_bytes(count),
                Err(Errno::INTR) => return Step::Again,
                Err(_) => return Step::Gone,
            }
        }
        self.announced -= 1;
        self.ring.receive(take)
    }
}

impl Drop for DoorbellEnd {
    /// The other side may sleep: it wakes, finds the ring empty, and then closed.
    fn drop(&mut self) {
        self.ring.close();
        self.ring_bell();
    }
}
