//! One slice: sessions made for it, a closed loop over them in turn, or orders that are due at a fixed rate.

use super::inbox::Place;
use super::session::{Answer, Session, is_overdue};
use super::{Load, Workload};
use crate::measure::SAMPLES_MAX;
use crate::stats::Slice;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Answers that one message may have.
const ANSWERS_MAX: usize = 2;
/// Empty receives between two looks at the clock.
const POLLS: u32 = 1 << 14;
/// Empty receives of a client that sleeps 100 ms in each, before it looks at the clock.
const NAPS: u32 = 32;
/// Orders under way in one session at a fixed rate; an acceptor that is further behind does not keep up.
const UNDER_WAY_MAX: usize = 4096;
/// The longest wait for the last answers of a slice at a fixed rate.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// Duration and load of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) workload: Workload,
    pub(super) load: Load,
    pub(super) settle: Duration,
    pub(super) duration: Duration,
}

/// The results of a slice.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Times to each of the answers; at a fixed rate, from when the message was due.
    pub(super) answers: Vec<Slice>,
    /// At a fixed rate: times from when the message left, to each of the answers.
    pub(super) from_actual: Vec<Slice>,
    /// At a fixed rate: how late messages left.
    pub(super) lateness: Slice,
    /// Messages before counting began.
    pub(super) settling: u64,
    /// Messages counted.
    pub(super) messages: u64,
    /// Time that took, s.
    pub(super) elapsed_s: f64,
    /// Messages without all of their answers.
    pub(super) lost: u64,
}

/// The measuring side: clock and buffers.
pub(super) struct Near {
    clock: Clock,
    stop: Arc<AtomicBool>,
    answers: [Vec<u64>; ANSWERS_MAX],
    from_actual: [Vec<u64>; ANSWERS_MAX],
    lateness: Vec<u64>,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    due: u64,
    sent: u64,
    answered: usize,
    counts: bool,
}

impl Near {
    /// With buffers that are touched now, so that no page fault falls into a sample.
    pub(super) fn new(clock: Clock, stop: Arc<AtomicBool>) -> Self {
        let buffer = || {
            let mut buffer = vec![0; SAMPLES_MAX];
            buffer.clear();
            buffer
        };
        let pair = || [buffer(), buffer()];
        Self { clock, stop, answers: pair(), from_actual: pair(), lateness: buffer() }
    }

    /// Measures over `sessions`, which take turns.
    pub(super) fn measure(&mut self, sessions: &mut [Session], job: &Job) -> Result<Found, Problem> {
        let mut found = Found::default();
        let done = match job.load {
            Load::ClosedLoop => self.closed_loop(sessions, job, &mut found),
            Load::Paced(interval) => self.open_loop(sessions, job, interval, &mut found),
        };
        self.keep(job, &mut found);
        done.map(|()| found)
    }

    /// A message, its answers, the next message over the next session.
    fn closed_loop(&mut self, sessions: &mut [Session], job: &Job, found: &mut Found) -> Result<(), Problem> {
        let (clock, wanted) = (self.clock.clone(), job.workload.answers());
        let settled = clock.stop() + clock.ticks(job.settle);
        let mut counting = None;
        for turn in 0.. {
            let session = &mut sessions[turn % sessions.len().max(1)];
            let (sent, times) = round_trip(&clock, session, wanted)?;
            let now = times[wanted.len() - 1];
            let Some(begin) = counting else {
                found.settling += 1;
                counting = (now >= settled).then_some(now);
                continue;
            };
            for (samples, time) in self.answers.iter_mut().zip(&times[..wanted.len()]) {
                samples.push(time - sent);
            }
            found.messages += 1;
            let is_over = now >= begin + clock.ticks(job.duration) || self.answers[0].len() >= SAMPLES_MAX;
            if is_over || self.stop.load(Ordering::Relaxed) {
                found.elapsed_s = clock.ns(now - begin) as f64 / 1e9;
                break;
            }
        }
        Ok(())
    }

    /// Messages leave when they are due, whoever waits for what: message *i* at `start + i * interval`, over the sessions
    /// in turn. A time counts from when its message was due, so that a client or an acceptor which falls behind cannot
    /// hide it (coordinated omission).
    fn open_loop(
        &mut self,
        sessions: &mut [Session],
        job: &Job,
        interval: Duration,
        found: &mut Found,
    ) -> Result<(), Problem> {
        let clock = self.clock.clone();
        let interval = clock.ticks(interval).max(1);
        let start = clock.stop();
        let (settled, end) = (start + clock.ticks(job.settle), start + clock.ticks(job.settle + job.duration));
        let give_up = end + clock.ticks(STRAGGLERS);
        let mut queues: Vec<VecDeque<UnderWay>> = sessions.iter().map(|_| VecDeque::new()).collect();
        let (mut due, mut turn, mut last) = (start, 0, settled);
        let mut batch = Vec::with_capacity(2 * UNDER_WAY_MAX);
        loop {
            let now = clock.stop();
            if now >= due && due < end {
                let at = turn % sessions.len();
                let sent = self.send(&mut sessions[at], &mut queues[at], due, due >= settled)?;
                if due >= settled {
                    found.messages += 1;
                    self.lateness.push(sent.saturating_sub(due));
                } else {
                    found.settling += 1;
                }
                (due, turn) = (due + interval, turn + 1);
            }
            let mut waiting = false;
            for (session, queue) in sessions.iter_mut().zip(&mut queues).filter(|(_, queue)| !queue.is_empty()) {
                last = self.take(session, queue, job.workload.answers(), &mut batch)?.unwrap_or(last);
                waiting |= !queue.is_empty();
            }
            let is_stopped = self.stop.load(Ordering::Relaxed) || self.answers[0].len() >= SAMPLES_MAX;
            if is_stopped || (due >= end && !waiting) || now >= give_up {
                break;
            }
        }
        let missing = |queue: &VecDeque<UnderWay>| queue.iter().filter(|message| message.counts).count() as u64;
        found.lost = queues.iter().map(missing).sum();
        found.elapsed_s = clock.ns(last.max(due.min(end)).saturating_sub(settled)) as f64 / 1e9;
        Ok(())
    }

    #[inline]
    fn send(
        &self,
        session: &mut Session,
        queue: &mut VecDeque<UnderWay>,
        due: u64,
        counts: bool,
    ) -> Result<u64, Problem> {
        if queue.len() >= UNDER_WAY_MAX {
            return Err(Problem::failed("it does not keep up", format!("{UNDER_WAY_MAX} messages wait for answers")));
        }
        session.prepare();
        let sent = self.clock.start();
        session.send()?;
        queue.push_back(UnderWay { number: session.number(), due, sent, answered: 0, counts });
        Ok(sent)
    }

    /// Takes in the answers that have come; when the last one did.
    #[inline]
    fn take(
        &mut self,
        session: &mut Session,
        queue: &mut VecDeque<UnderWay>,
        wanted: &[Answer],
        batch: &mut Vec<(Place, u64)>,
    ) -> Result<Option<u64>, Problem> {
        if !session.receive()? {
            return Ok(None);
        }
        while let Some(place) = session.answer()? {
            batch.push((place, self.clock.stop()));
        }
        let mut last = None;
        for (place, at) in batch.drain(..) {
            let Some(message) = queue.front_mut() else {
                return Err(Problem::failed("the acceptor gave a wrong answer", "it answers what was not asked"));
            };
            session.verify(&place, wanted[message.answered], message.number)?;
            if message.counts {
                self.answers[message.answered].push(at - message.due);
                self.from_actual[message.answered].push(at - message.sent);
            }
            message.answered += 1;
            if message.answered == wanted.len() {
                queue.pop_front();
            }
            last = Some(at);
        }
        session.release();
        Ok(last)
    }

    /// Empties the buffers into slices.
    fn keep(&mut self, job: &Job, found: &mut Found) {
        let clock = &self.clock;
        let take = |ticks: &mut Vec<u64>| {
            let slice = Slice::of(ticks.iter().map(|ticks| clock.ns(*ticks)));
            ticks.clear();
            slice
        };
        let count = job.workload.answers().len();
        found.answers = self.answers.iter_mut().take(count).map(take).collect();
        found.from_actual = self.from_actual.iter_mut().take(count).map(take).collect();
        found.lateness = take(&mut self.lateness);
    }
}

/// Sends a message and receives all its answers: when it left, and when each answer was there.
#[inline]
fn round_trip(clock: &Clock, session: &mut Session, wanted: &[Answer]) -> Result<(u64, [u64; ANSWERS_MAX]), Problem> {
    let mut times = [0; ANSWERS_MAX];
    let mut places = [const { None }; ANSWERS_MAX];
    let (mut count, mut polls) = (0, 0_u32);
    session.prepare();
    let sent = clock.start();
    session.send()?;
    while count < wanted.len() {
        if !session.receive()? {
            polls += 1;
            if polls == NAPS || polls.is_multiple_of(POLLS) {
                is_overdue(Duration::from_nanos(clock.ns(clock.stop() - sent)))?;
            }
            continue;
        }
        while count < wanted.len()
            && let Some(place) = session.answer()?
        {
            times[count] = clock.stop();
            places[count] = Some(place);
            count += 1;
        }
    }
    for (place, answer) in places.iter().flatten().zip(wanted) {
        session.verify(place, *answer, session.number())?;
    }
    session.release();
    Ok((sent, times))
}
