//! Messages between two CPUs through memory and through the kernel's local channels: rings, pipes, sockets, and the
//! cache line itself.
//!
//! A [`Channel`] says how its two ends are made, an [`End`] sends and receives whole messages. The loops around them are
//! one piece of code for every contestant, ours and others' ([`Threads`] puts the far end on a thread, [`run`] measures a
//! list of contestants in turn), so `peers/ring` measures other rings beside ours in the same run. Both clock readings of
//! a sample are of one CPU. What arrives is copied to a buffer inside the sample, because a message that nobody reads is
//! no message, and compared with what was sent outside of it.

pub mod channels;
mod contest;
pub mod events;
mod far;
mod near;
mod payload;
mod process;
mod run;
mod threads;

pub use near::Near;
pub(crate) use process::SharedRing;
pub use process::{FAR_COMMAND, far_process};
pub use run::{Request, Setting, run};
pub use threads::Threads;

use sidestep_sys::Problem;
use std::time::Duration;

/// The answer of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is sent, or was passed on.
    Done,
    /// No room, or no message: ask again.
    Again,
    /// The other end is gone, or the channel is broken.
    Gone,
}

/// One end of a pair of channels, one each way.
///
/// Neither call waits longer than some 100 ms; one that is meant to spin returns [`Step::Again`] at once.
pub trait End {
    /// Messages that the far end sends unasked before it answers. They show that it is there, and put the two ways out of
    /// step: a store and a later load 4096 bytes apart look alike to the CPU for a moment, and two rings that are made
    /// alike would be used at the same offset of a page.
    const HELLOS: u64 = 7;
    /// Turns with [`Step::Again`] between two looks at the clock and at whether the far end lives: 1 for an end that
    /// sleeps in its calls.
    const TURNS_PER_LOOK: u32 = 1 << 14;

    /// Sends a copy of `message`.
    fn send(&mut self, message: &[u8]) -> Step;

    /// Passes the next message to `take`, once, and gives its place back.
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step;

    /// Messages that this end knows to have been overwritten before it could read them.
    fn lost(&self) -> u64 {
        0
    }
}

/// A channel, which makes the two ends of a contestant.
pub trait Channel {
    /// Either end.
    type End: End;
    /// The data that the thread of the far end needs to make its end.
    type Ticket: Send;

    /// Makes the near end, on the measuring thread.
    fn open(&self, shape: Shape) -> Result<(Self::End, Self::Ticket), Problem>;

    /// Makes the far end, on its own thread.
    fn join(&self, ticket: Self::Ticket) -> Result<Self::End, Problem>;
}

/// The shape of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Message size, bytes.
    pub size: usize,
    /// Messages that must find room, each way.
    pub messages: usize,
}

/// The target of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A message there and back, the next one when the answer is in.
    ClosedLoop,
    /// A message there and back, one due in every such interval.
    Paced(Duration),
    /// Messages one way, as fast as they go.
    Stream,
    /// Events that the kernel stamps, one in every such interval: the time until their reader has them.
    Events(Duration),
}

/// One slice.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The shape of the messages.
    pub shape: Shape,
    /// The load.
    pub load: Load,
    /// Settling time.
    pub settle: Duration,
    /// Counted time.
    pub duration: Duration,
    /// CPU of the far end.
    pub(crate) far_cpu: u32,
}

/// A channel that is measured, and the place of its far end.
pub trait Contestant {
    /// Its name: the path of its rows.
    fn name(&self) -> &'static str;

    /// Scenario and transport of its rows.
    fn subject(&self) -> (&'static str, &'static str) {
        ("ring", "memory")
    }

    /// Its description, in one or two sentences.
    fn description(&self) -> String;

    /// Returns whether a side that waits sleeps; it then gets a longer settling time.
    fn sleeps(&self) -> bool;

    /// Returns the reason why it cannot carry this load or messages of this size, if so.
    fn refusal(&self, size: u32, load: Load) -> Option<String> {
        let _ = (size, load);
        None
    }

    /// Measures one slice over a channel made for it; what was found is left in `near`.
    fn run(&self, job: &Job, near: &mut Near) -> Result<(), Problem>;
}

/// A channel that could not be made.
pub(crate) fn cannot_open(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot open {name}"), why)
        .next("raise the limits of open files and memory: ulimit -n, ulimit -l")
}

/// A far end that is there no more.
pub(crate) fn lost(why: impl std::fmt::Display) -> Problem {
    Problem::failed("lost the far end", why).next("see whether it was killed, and measure again")
}
