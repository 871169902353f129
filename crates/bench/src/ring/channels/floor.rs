//! The floors of all channels: a number in a cache line, without a ring.
//!
//! Two floors, because they differ. One line bounced both ways is written by both sides: the line comes with the right to
//! write it, and the answer needs no second transfer. Between two CPUs of one core that makes it twice as fast. A channel
//! each way cannot have that: each of its lines is written by one side and read by the other, so the writer has to take
//! the right to write back before every message. One line each way is that, and nothing else.

use crate::ring::{Channel, Contestant, End, Shape, Step, Threads};
use sidestep_sys::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a floor's message, for all message sizes.
const NUMBER: usize = size_of::<u64>();

pub(super) fn all() -> Vec<Box<dyn Contestant>> {
    vec![
        Box::new(Floor(threads(
            Lines { is_one: true },
            super::FLOOR,
            "One cache line bounced between the two CPUs, both writing it: the physical limit of this machine. It carries \
             8 bytes, whatever the message size beside it.",
        ))),
        Box::new(Floor(threads(
            Lines { is_one: false },
            "floor-each-way",
            "One cache line each way, each written by one CPU and read by the other: the least that a ring each way can \
             do. It carries 8 bytes, whatever the message size beside it.",
        ))),
    ]
}

fn threads(channel: Lines, name: &'static str, description: &'static str) -> Threads<Lines> {
    let no_stream = Some("a cache line holds one message: there is nothing to stream into");
    Threads { no_stream, ..super::threads(channel, name, false, description) }
}

/// A contestant that carries eight bytes, whatever is asked for.
struct Floor(Threads<Lines>);

impl Contestant for Floor {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn description(&self) -> String {
        self.0.description()
    }

    fn sleeps(&self) -> bool {
        false
    }

    fn refusal(&self, size: u32, load: crate::ring::Load) -> Option<String> {
        self.0.refusal(size, load)
    }

    fn run(&self, job: &crate::ring::Job, near: &mut crate::ring::Near) -> Result<(), Problem> {
        self.0.run(&crate::ring::Job { shape: Shape { size: NUMBER, ..job.shape }, ..*job }, near)
    }
}

/// A line, aligned to 128 bytes because the CPU prefetches lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

struct Lines {
    is_one: bool,
}

/// Numbers go out with one last bit and come back with the other, so that on a single line nobody reads its own.
struct LineEnd {
    out: Arc<Line>,
    back: Arc<Line>,
    out_bit: u64,
    seen: u64,
}

impl Channel for Lines {
    type End = LineEnd;
    type Ticket = LineEnd;

    fn open(&self, _: Shape) -> Result<(LineEnd, LineEnd), Problem> {
        let out = Arc::new(Line::default());
        let back = if self.is_one { Arc::clone(&out) } else { Arc::default() };
        let far = LineEnd { out: Arc::clone(&back), back: Arc::clone(&out), out_bit: 0, seen: 0 };
        Ok((LineEnd { out, back, out_bit: 1, seen: 0 }, far))
    }

    fn join(&self, ticket: LineEnd) -> Result<LineEnd, Problem> {
        Ok(ticket)
    }
}

impl End for LineEnd {
    /// A second one would overwrite the first.
    const HELLOS: u64 = 1;

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        let Some(number) = message.first_chunk() else { return Step::Gone };
        self.out.0.store(u64::from_le_bytes(*number) << 1 | self.out_bit, Ordering::Release);
        Step::Done
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        let found = self.back.0.load(Ordering::Acquire);
        if found == self.seen || found & 1 == self.out_bit {
            return Step::Again;
        }
        self.seen = found;
        take(&(found >> 1).to_le_bytes());
        Step::Done
    }
}
