//! The near end: it holds the clock, and checks what arrives.

use super::far::FIRST_NUMBER;
use super::payload::{Inbox, Payload, damaged, number};
use super::{End, Job, Load, Shape, Step, lost};
use crate::measure::SAMPLES_MAX;
use crate::stats::Slice;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Messages of a stream between two readings of the clock, which then cost 0.1 ns each.
const CHUNK: u64 = 256;
/// One message in so many of a stream is compared byte by byte; of the others, the number.
const COMPARED_EVERY: u64 = 64;
/// A far end that says nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Picoseconds in a nanosecond: the unit of a stream's samples, because a message takes some nanoseconds.
pub(super) const PS: f64 = 1e3;

/// The results of a slice.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Round trips, from when each was due, ns; or time per message, ps.
    pub(super) slice: Slice,
    /// Of a paced slice: from when each message left, and how late that was.
    pub(super) paced: Option<Paced>,
    /// Messages before counting began.
    pub(super) settling: u64,
    /// Messages counted.
    pub(super) messages: u64,
    /// Time that took, s.
    pub(super) elapsed_s: f64,
    /// Messages overwritten unread.
    pub(super) lost: u64,
}

/// The message size that the cost of the loop is told for.
const MIRRORED: usize = 64;

/// An end that answers at once.
struct Mirror([u8; MIRRORED]);

impl End for Mirror {
    const HELLOS: u64 = 0;

    fn send(&mut self, message: &[u8]) -> Step {
        self.0.copy_from_slice(message);
        Step::Done
    }

    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        take(&self.0);
        Step::Done
    }
}

/// The additional results of a paced slice.
#[derive(Debug, Default)]
pub(super) struct Paced {
    pub(super) from_actual: Slice,
    pub(super) lateness: Slice,
}

/// The measuring side of a slice: clock and buffers.
pub struct Near {
    clock: Clock,
    samples: Vec<u64>,
    from_actual: Vec<u64>,
    lateness: Vec<u64>,
    stop: Arc<AtomicBool>,
    pub(super) found: Found,
}

impl Near {
    /// With buffers that are touched now, so that no page fault falls into a sample. `stop` ends a slice early.
    pub fn new(clock: Clock, stop: Arc<AtomicBool>) -> Self {
        let buffer = || {
            let mut buffer = vec![0; SAMPLES_MAX];
            buffer.clear();
            buffer
        };
        Self { clock, samples: buffer(), from_actual: buffer(), lateness: buffer(), stop, found: Found::default() }
    }

    /// Measures over `end`. `is_alive` is asked now and then while nothing comes.
    pub fn measure<E: End>(&mut self, end: &mut E, job: &Job, is_alive: impl FnMut() -> bool) -> Result<(), Problem> {
        self.found = Found::default();
        let mut talk = Talk { end, clock: self.clock.clone(), is_alive, turns: 0, done: 0, silence: None };
        match job.load {
            Load::Stream => self.stream(&mut talk, job),
            Load::ClosedLoop => self.round_trips(&mut talk, job, None),
            // Events have readers of their own.
            Load::Paced(interval) | Load::Events(interval) => self.round_trips(&mut talk, job, Some(interval)),
        }
    }

    /// Median of a round trip over an end that answers at once, ns: what this loop adds to every sample.
    pub(super) fn loop_cost_ns(&mut self) -> Result<f64, Problem> {
        let job = Job {
            shape: Shape { size: MIRRORED, messages: 1 },
            load: Load::ClosedLoop,
            settle: Duration::ZERO,
            duration: Duration::from_millis(5),
            far_cpu: 0,
        };
        self.measure(&mut Mirror([0; MIRRORED]), &job, || true)?;
        Ok(self.found.slice.p50())
    }

    fn round_trips<E: End, A: FnMut() -> bool>(
        &mut self,
        talk: &mut Talk<'_, E, A>,
        job: &Job,
        interval: Option<Duration>,
    ) -> Result<(), Problem> {
        let (mut payload, mut inbox) = (Payload::new(job.shape.size), Inbox::new(job.shape.size));
        for hello in 1..=E::HELLOS {
            talk.receive(|message| inbox.take(message))?;
            payload.check(hello, inbox.message())?;
        }
        let interval = interval.map(|interval| self.clock.ticks(interval).max(1));
        let clock = self.clock.clone();
        let mut sequence = FIRST_NUMBER;
        let mut due = clock.stop();
        let begin = due;
        let settled = begin + clock.ticks(job.settle);
        let mut counting = u64::MAX;
        loop {
            // Without a pace a message is due when the last one is back.
            due = interval.map_or(0, |interval| due + interval);
            let message = payload.numbered(sequence);
            if interval.is_some() {
                while clock.stop() < due {}
            }
            let sent = clock.start();
            talk.send(message)?;
            talk.receive(|answer| inbox.take(answer))?;
            let now = clock.stop();
            payload.check(sequence, inbox.message())?;
            sequence += 1;
            if counting == u64::MAX {
                self.found.settling += 1;
                if now >= settled {
                    counting = now;
                    due = if interval.is_some() { due.max(now) } else { due };
                }
                continue;
            }
            self.keep(now, sent, interval.map(|_| due));
            let is_over = now >= counting + clock.ticks(job.duration) || self.samples.len() >= SAMPLES_MAX;
            if is_over || self.stop.load(Ordering::Relaxed) {
                self.found.elapsed_s = clock.ns(now - counting) as f64 / 1e9;
                break;
            }
        }
        self.found.messages = self.samples.len() as u64;
        self.found.slice = take(&mut self.samples, |ticks| clock.ns(ticks));
        self.found.paced = interval.map(|_| Paced {
            from_actual: take(&mut self.from_actual, |ticks| clock.ns(ticks)),
            lateness: take(&mut self.lateness, |ticks| clock.ns(ticks)),
        });
        Ok(())
    }

    #[inline(always)]
    fn keep(&mut self, now: u64, sent: u64, due: Option<u64>) {
        self.samples.push(now - due.unwrap_or(sent));
        if let Some(due) = due {
            self.from_actual.push(now - sent);
            self.lateness.push(sent.saturating_sub(due));
        }
    }

    /// The near end of a stream is its reader.
    fn stream<E: End, A: FnMut() -> bool>(&mut self, talk: &mut Talk<'_, E, A>, job: &Job) -> Result<(), Problem> {
        let (mut payload, mut inbox) = (Payload::new(job.shape.size), Inbox::new(job.shape.size));
        let clock = self.clock.clone();
        let (mut received, mut last) = (0_u64, clock.stop());
        let settled = last + clock.ticks(job.settle);
        let mut counting = None;
        loop {
            for _ in 0..CHUNK {
                talk.receive(|message| inbox.take(message))?;
                let expected = FIRST_NUMBER + received + talk.end.lost();
                if number(inbox.message()) != expected || inbox.message().len() != job.shape.size {
                    return Err(damaged(expected, inbox.message()));
                }
                if received.is_multiple_of(COMPARED_EVERY) {
                    payload.check(expected, inbox.message())?;
                }
                received += 1;
            }
            let now = clock.stop();
            match counting {
                Some(_) => self.samples.push(now - last),
                None if now >= settled => counting = Some((now, received, talk.end.lost())),
                None => {}
            }
            last = now;
            let Some((begin, before, lost_before)) = counting else { continue };
            let is_over = now >= begin + clock.ticks(job.duration) || self.samples.len() >= SAMPLES_MAX;
            if is_over || self.stop.load(Ordering::Relaxed) {
                (self.found.settling, self.found.messages) = (before, received - before);
                self.found.lost = talk.end.lost() - lost_before;
                self.found.elapsed_s = clock.ns(now - begin) as f64 / 1e9;
                break;
            }
        }
        self.found.slice = take(&mut self.samples, |ticks| (clock.ns(ticks) as f64 * PS / CHUNK as f64) as u64);
        Ok(())
    }
}

/// Empties `ticks` into a slice.
fn take(ticks: &mut Vec<u64>, value: impl Fn(u64) -> u64) -> Slice {
    let slice = Slice::of(ticks.iter().map(|ticks| value(*ticks)));
    ticks.clear();
    slice
}

/// An end, and the patience with which it is asked.
struct Talk<'a, E, A> {
    end: &'a mut E,
    clock: Clock,
    is_alive: A,
    turns: u32,
    /// Messages sent and received.
    done: u64,
    /// That number at an earlier check, and its time.
    silence: Option<(u64, u64)>,
}

impl<E: End, A: FnMut() -> bool> Talk<'_, E, A> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<(), Problem> {
        loop {
            match self.end.send(message) {
                Step::Done => return self.did(),
                Step::Again => self.turn()?,
                Step::Gone => return Err(lost("it closed the channel")),
            }
        }
    }

    #[inline(always)]
    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Problem> {
        loop {
            match self.end.receive(&mut take) {
                Step::Done => return self.did(),
                Step::Again => self.turn()?,
                Step::Gone => return Err(lost("it closed the channel")),
            }
        }
    }

    #[inline(always)]
    fn did(&mut self) -> Result<(), Problem> {
        self.done += 1;
        Ok(())
    }

    /// No pause instruction: it takes 140 cycles on recent CPUs, which is a fifth of what is measured here.
    #[inline(always)]
    fn turn(&mut self) -> Result<(), Problem> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(E::TURNS_PER_LOOK) { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> Result<(), Problem> {
        if !(self.is_alive)() {
            return Err(lost("it ended early"));
        }
        let now = self.clock.stop();
        match self.silence {
            Some((done, since)) if done == self.done => {
                let is_long = now - since > self.clock.ticks(SILENCE_MAX);
                if is_long { Err(lost(format!("it said nothing for {} s", SILENCE_MAX.as_secs()))) } else { Ok(()) }
            }
            _ => {
                self.silence = Some((self.done, now));
                Ok(())
            }
        }
    }
}
