//! When a slice's loop is to give up, and the work that it does before each answer.

use super::control::Control;
use sidestep_link::Waiting;
use sidestep_sys::Problem;
use std::time::{Duration, Instant};

/// A slice ends after this even if the measuring end keeps sending: nobody holds a CPU of ours for longer at a time.
pub(super) const SLICE_MAX: Duration = Duration::from_secs(60);
/// A slice in which nothing comes for so long is over.
const QUIET_MAX: Duration = Duration::from_secs(3);
/// A spinning loop reads the clock once in so many turns, to learn whether it should end.
const TURNS: u32 = 4096;

/// Tells a slice's loop when to give up.
pub(super) struct Watch<'a> {
    control: &'a Control,
    turns: u32,
    turns_between_looks: u32,
    end: Instant,
    heard: Instant,
    heard_something: bool,
}

impl<'a> Watch<'a> {
    /// Of a slice that begins now, whose receives wait in this way.
    pub(super) fn new(control: &'a Control, waiting: Waiting) -> Self {
        let now = Instant::now();
        let turns_between_looks = if waiting == Waiting::Spin { TURNS } else { 1 };
        Self { control, turns: 0, turns_between_looks, end: now + SLICE_MAX, heard: now, heard_something: true }
    }

    /// Called when a message has come. Errs when the slice has lasted too long.
    #[inline]
    pub(super) fn heard(&mut self) -> Result<(), Problem> {
        self.heard_something = true;
        self.turns += 1;
        if self.turns >= TURNS { self.look() } else { Ok(()) }
    }

    /// Called when nothing has come. Errs when nothing will come any more.
    #[inline]
    pub(super) fn waited(&mut self) -> Result<(), Problem> {
        self.turns += 1;
        if self.turns >= self.turns_between_looks { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> Result<(), Problem> {
        self.turns = 0;
        let now = Instant::now();
        if std::mem::take(&mut self.heard_something) {
            self.heard = now;
        }
        let why = if now > self.end {
            format!("it lasted longer than {} s", SLICE_MAX.as_secs())
        } else if now - self.heard > QUIET_MAX {
            format!("nothing came for {} s", QUIET_MAX.as_secs())
        } else if self.control.is_closed() {
            "the measuring end closed the connection".into()
        } else {
            return Ok(());
        };
        Err(Problem::failed("ended a slice", why))
    }
}

/// Keeps the CPU busy for `service`, as an application that computes before it answers.
#[inline]
pub(super) fn work(service: Duration) {
    if !service.is_zero() {
        let begin = Instant::now();
        while begin.elapsed() < service {
            std::hint::spin_loop();
        }
    }
}
