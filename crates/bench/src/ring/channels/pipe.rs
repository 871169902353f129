//! A pipe each way, blocking read(2): how processes have talked since 1973.

use super::threads;
use crate::ring::{Channel, Contestant, End, Shape, Step, cannot_open};
use sidestep_sys::Problem;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

pub(super) fn all() -> Vec<Box<dyn Contestant>> {
    vec![Box::new(threads(
        Pipes,
        "pipe",
        true,
        "A pipe each way, write(2) and blocking read(2): every message wakes a sleeping thread.",
    ))]
}

struct Pipes;

/// Any pair of a blocking byte stream each way; messages are as long as both sides know.
pub(super) struct StreamEnd<R, W> {
    pub(super) out: W,
    pub(super) back: R,
    pub(super) buffer: Vec<u8>,
}

impl Channel for Pipes {
    type End = StreamEnd<PipeReader, PipeWriter>;
    type Ticket = Self::End;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let failed = |error| cannot_open("a pipe", error);
        let ((far_back, out), (back, far_out)) = (pipe().map_err(failed)?, pipe().map_err(failed)?);
        let end = |out, back| StreamEnd { out, back, buffer: vec![0; shape.size] };
        Ok((end(out, back), end(far_out, far_back)))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<R: Read, W: Write> End for StreamEnd<R, W> {
    const TURNS_PER_LOOK: u32 = 1;

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        if self.out.write_all(message).is_ok() { Step::Done } else { Step::Gone }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        if self.back.read_exact(&mut self.buffer).is_err() {
            return Step::Gone;
        }
        take(&self.buffer);
        Step::Done
    }
}
