//! Acceptors measured in turn, A B C C B A, repeatedly, under one load.

use super::pause::Pause;
use super::session::{Answer, Session};
use super::slice::{Found, Job, Near};
use super::{Acceptor, Load, Request, Workload};
use crate::measure::{Cpus, Meter, Yardsticks};
use crate::scenario::interleave::{SLICE_OVERHEAD_MS, WINDOW, interrupted};
use crate::scenario::record::{Direction, Key, Record};
use crate::scenario::{Findings, Pace, Progress};
use crate::stats::{Accumulator, Statistic};
use sidestep_report::schema::{Noise, RateDetail, Ratio, Row};
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Settling time of a slice: the acceptor has slept, or was stopped, while others were measured. As
/// long for one that spins, so that all are treated alike.
const SETTLE: Duration = Duration::from_millis(30);
/// Time that an acceptor runs on after the last connection of a slice has ended. It may see that end on another thread,
/// late: if QuickFIX/J is stopped before that, it closes the next connection of that name instead.
const FAREWELL: Duration = Duration::from_millis(20);
/// Logon and Logout of a session, for the estimate.
const SESSION_MS: u64 = 2;
/// Expected number of warm-up windows.
const WINDOWS_EXPECTED: u64 = 5;
/// An acceptor that answers less than this share of what is asked at a fixed rate does not keep up.
const KEEPS_UP: f64 = 0.9;

/// Workload, pace and number of sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) workload: Workload,
    pub(super) load: Load,
    pub(super) sessions: u32,
}

/// The measuring end of a run.
pub(super) struct Contest<'a> {
    pub(super) request: &'a Request,
    pub(super) pause: Pause,
    pub(super) near: Near,
    pub(super) clock: Clock,
    pub(super) cpus: Cpus,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) yardsticks: Yardsticks,
    /// Acceptors (by index in the request) and workloads that are warm.
    pub(super) warmed: HashSet<(usize, Workload)>,
    pub(super) progress: &'a mut dyn Progress,
}

/// One acceptor under one load: a record for each answer.
struct Arm<'a> {
    index: usize,
    acceptor: &'a Acceptor,
    records: Vec<Record>,
    messages: u64,
    elapsed_s: f64,
    from_actual: Vec<Accumulator>,
    lateness: Accumulator,
    behind: u32,
    slices: u32,
}

impl Part {
    fn job(self, duration: Duration) -> Job {
        Job { workload: self.workload, load: self.load, settle: SETTLE, duration }
    }

    /// Messages per second asked for.
    fn rate(self) -> Option<f64> {
        match self.load {
            Load::Paced(interval) => Some(1.0 / interval.as_secs_f64()),
            Load::ClosedLoop => None,
        }
    }
}

impl<'a> Contest<'a> {
    /// Returns the expected time of [`Contest::measure`].
    pub(super) fn expected_ms(&self, part: Part, pace: Pace) -> u64 {
        let around_ms =
            (SETTLE + FAREWELL).as_millis() as u64 + SLICE_OVERHEAD_MS + SESSION_MS * u64::from(part.sessions);
        let slices = 2 * u64::from(pace.rounds);
        let one = slices * (pace.slice.as_millis() as u64 + around_ms)
            + WINDOWS_EXPECTED * (WINDOW.as_millis() as u64 + around_ms);
        let warmup = if part.load == self.request.loads[0] { self.request.warmup.as_millis() as u64 } else { 0 };
        self.request.acceptors.len() as u64 * (one + warmup)
    }

    /// Measures every acceptor that can be reached.
    pub(super) fn measure(&mut self, part: Part, pace: Pace) -> Findings {
        let request: &'a Request = self.request;
        let mut arms: Vec<Arm<'a>> =
            request.acceptors.iter().enumerate().map(|(index, one)| Arm::new(index, one, part, request)).collect();
        let problem = self.warm_up(&mut arms, part).and_then(|()| self.rounds(&mut arms, part, pace)).err();
        for arm in &mut arms {
            arm.judge_pace(part);
        }
        Findings {
            rows: (0..part.workload.answers().len()).rev().flat_map(|at| rows(&arms, at)).collect(),
            ratios: (0..part.workload.answers().len())
                .rev()
                .flat_map(|at| ratios_of(&arms, at, &request.against))
                .collect(),
            unavailable: arms.iter().filter_map(|arm| arm.records[0].unavailable()).collect(),
            problem,
            ..Findings::default()
        }
    }

    fn warm_up(&mut self, arms: &mut [Arm<'_>], part: Part) -> Result<(), Problem> {
        for arm in arms {
            let begin = Instant::now();
            match self.warm_up_arm(arm, part) {
                Ok(()) => {
                    let ms = begin.elapsed().as_secs_f64() * 1e3;
                    arm.records.iter_mut().for_each(|record| record.warmup.ms = ms);
                }
                Err(problem) => arm.refuse(&problem.brief()),
            }
            self.check_stop()?;
            self.progress.advance(&arm.label(part), begin.elapsed().as_millis() as u64);
        }
        Ok(())
    }

    fn warm_up_arm(&mut self, arm: &mut Arm<'_>, part: Part) -> Result<(), Problem> {
        let mut before = 0;
        if !self.request.warmup.is_zero() && self.warmed.insert((arm.index, part.workload)) {
            // Warm-up has no pace: a JIT compiles code by the number of calls.
            let job = Part { load: Load::ClosedLoop, ..part }.job(self.request.warmup);
            before = self.slice(arm, &job, part.sessions)?.messages;
        }
        let (last, index) = (arm.records.len() - 1, arm.index);
        let mut record = std::mem::take(&mut arm.records[last]);
        record.warmup.messages += before;
        let settled = record.warm_up(|| {
            self.check_stop()?;
            let found = self.slice_of(index, &part.job(WINDOW), part.sessions)?;
            Ok((found.settling + found.messages, found.answers.last().map_or(0.0, |slice| slice.p50())))
        });
        arm.records[last] = record;
        let warmup = arm.records[last].warmup.clone();
        arm.records.iter_mut().for_each(|record| record.warmup = warmup.clone());
        settled
    }

    fn rounds(&mut self, arms: &mut [Arm<'_>], part: Part, pace: Pace) -> Result<(), Problem> {
        for _ in 0..pace.rounds {
            self.yardsticks.take(&self.clock, self.cpus.server);
            for arm in arms.iter_mut() {
                self.pass(arm, part, pace.slice, Direction::Forward)?;
            }
            for arm in arms.iter_mut().rev() {
                self.pass(arm, part, pace.slice, Direction::Backward)?;
            }
        }
        Ok(())
    }

    fn pass(&mut self, arm: &mut Arm<'_>, part: Part, length: Duration, direction: Direction) -> Result<(), Problem> {
        if arm.records[0].refusal.is_some() {
            return Ok(());
        }
        self.check_stop()?;
        let (begin, meter) = (Instant::now(), Meter::start(vec![self.cpus.client]));
        let measured = self.slice(arm, &part.job(length), part.sessions);
        let noise = meter.stop();
        match measured {
            Ok(found) => arm.take(found, part, &noise, direction),
            // A failed acceptor does not affect the others; its results until then are not shown.
            Err(problem) => arm.refuse(&problem.brief()),
        }
        self.progress.advance(&arm.label(part), begin.elapsed().as_millis() as u64);
        Ok(())
    }

    fn slice(&mut self, arm: &Arm<'_>, job: &Job, sessions: u32) -> Result<Found, Problem> {
        self.slice_of(arm.index, job, sessions)
    }

    /// One slice of acceptor `index`, over sessions made for it.
    fn slice_of(&mut self, index: usize, job: &Job, sessions: u32) -> Result<Found, Problem> {
        let Self { request, pause, near, .. } = self;
        let reach = &request.acceptors[index].reach;
        if sessions > reach.sessions_max() {
            let why = format!("its client has one connection, {sessions} are asked for");
            return Err(Problem::failed("cannot open the sessions", why));
        }
        pause.without(index, || {
            let passage = reach.awake()?;
            let open = |number| {
                let identity = request.identity.numbered(number);
                Session::open(reach, &identity, job.workload, request.waiting)
            };
            let mut sessions = (1..=sessions).map(open).collect::<Result<Vec<_>, _>>()?;
            let found = near.measure(&mut sessions, job);
            sessions.into_iter().for_each(Session::close);
            std::thread::sleep(FAREWELL);
            let found = found?;
            passage.map_or(Ok(()), |passage| passage.check(found.settling + found.messages))?;
            Ok(found)
        })
    }

    fn check_stop(&self) -> Result<(), Problem> {
        if self.stop.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) }
    }
}

impl<'a> Arm<'a> {
    fn new(index: usize, acceptor: &'a Acceptor, part: Part, request: &Request) -> Self {
        let answers = part.workload.answers();
        let size = Session::message_size(&request.identity.numbered(1), part.workload);
        let record = |answer: &Answer| {
            Record::new(Key {
                scenario: "fix",
                transport: acceptor.reach.transport().name(),
                path: acceptor.name.clone(),
                size,
                rate_offered: part.rate(),
                sessions: Some(part.sessions),
                measure: answer.measure(),
                ..Key::default()
            })
        };
        Self {
            index,
            acceptor,
            records: answers.iter().map(record).collect(),
            messages: 0,
            elapsed_s: 0.0,
            from_actual: vec![Accumulator::default(); answers.len()],
            lateness: Accumulator::default(),
            behind: 0,
            slices: 0,
        }
    }

    fn label(&self, part: Part) -> String {
        let load = match part.load {
            Load::ClosedLoop => String::new(),
            Load::Paced(interval) => format!(" every {interval:?}"),
        };
        let sessions = if part.sessions > 1 { format!(" {} sessions", part.sessions) } else { String::new() };
        format!("{}{sessions}{load}", self.acceptor.name)
    }

    fn refuse(&mut self, reason: &str) {
        self.records.iter_mut().for_each(|record| record.refuse(reason));
    }

    fn take(&mut self, found: Found, part: Part, noise: &Noise, direction: Direction) {
        self.messages += found.messages;
        self.elapsed_s += found.elapsed_s;
        self.slices += 1;
        let achieved = (found.messages - found.lost) as f64 / found.elapsed_s.max(1e-9);
        self.behind += u32::from(part.rate().is_some_and(|rate| achieved < KEEPS_UP * rate));
        self.lateness.push(found.lateness);
        for (accumulator, slice) in self.from_actual.iter_mut().zip(found.from_actual) {
            accumulator.push(slice);
        }
        for (record, slice) in self.records.iter_mut().zip(found.answers) {
            record.warmup.messages += found.settling;
            record.take(direction, slice, found.lost, noise);
        }
    }

    /// Refuses an acceptor that did not keep the pace in most of its slices: its figures would be those of a queue.
    fn judge_pace(&mut self, part: Part) {
        let Some(rate) = part.rate() else { return };
        if self.slices > 0 && self.behind * 2 > self.slices {
            let achieved = self.messages as f64 / self.elapsed_s.max(1e-9);
            self.refuse(&format!("it does not keep up: {achieved:.0} orders/s of {rate:.0} asked for"));
        }
    }

    fn row(&self, at: usize) -> Option<Row> {
        let mut row = self.records[at].row(1.0)?;
        let is_paced = self.records[at].key.rate_offered.is_some();
        row.loop_kind = Some(if is_paced { "paced" } else { "closed" }.into());
        let rate_achieved = Some(self.messages as f64 / self.elapsed_s.max(1e-9));
        if !is_paced {
            return Some(Row { rate_achieved, ..row });
        }
        let detail = RateDetail {
            sent: self.messages,
            received: self.messages - self.records[at].lost,
            rate_sent: self.messages as f64 / self.elapsed_s.max(1e-9),
            reflect_every: 1,
            from_actual_send: self.from_actual[at].distribution(1.0, Statistic::Mean),
            send_lateness: self.lateness.distribution(1.0, Statistic::Mean),
            ..RateDetail::default()
        };
        Some(Row { rate_achieved, rate: Some(detail), ..row })
    }
}

fn rows(arms: &[Arm<'_>], at: usize) -> Vec<Row> {
    arms.iter().filter_map(|arm| arm.row(at)).collect()
}

/// Returns the ratios of acceptors among each other, then those of acceptors to the bare one of their transport.
fn ratios_of(arms: &[Arm<'_>], at: usize, further: &[String]) -> Vec<Ratio> {
    let (bare, others): (Vec<&Arm<'_>>, Vec<&Arm<'_>>) = arms.iter().partition(|arm| !arm.acceptor.beside.is_empty());
    let records: Vec<&Record> = others.iter().map(|arm| &arm.records[at]).collect();
    let mut all = ratios(&records, further);
    for arm in bare {
        let (against, beside) = (&arm.records[at], &arm.acceptor.beside);
        all.extend(against.controls());
        all.extend(records.iter().filter(|of| beside.contains(&of.key.path)).flat_map(|of| of.against(against)));
    }
    all
}

/// Returns the control of every acceptor; then each against the first one; then each but the first one against those of `further`.
fn ratios(records: &[&Record], further: &[String]) -> Vec<Ratio> {
    let mut ratios: Vec<Ratio> = records.iter().flat_map(|record| record.controls()).collect();
    let Some((first, others)) = records.split_first() else { return ratios };
    let named = others.iter().filter(|record| further.contains(&record.key.path));
    for against in std::iter::once(first).chain(named) {
        let apart = others.iter().filter(|record| record.key.path != against.key.path);
        ratios.extend(apart.flat_map(|record| record.against(against)));
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Slice;

    fn record(name: &str) -> Record {
        let mut record = Record::new(Key { scenario: "fix", path: name.into(), measure: "rtt_fill", ..Key::default() });
        for direction in [Direction::Forward, Direction::Backward].repeat(10) {
            record.take(direction, Slice::of((0..500).map(|_| 10)), 0, &Noise::default());
        }
        record
    }

    #[test]
    fn the_first_stays_the_baseline_whoever_else_is_one() {
        let records = ["one", "two", "three"].map(record);
        let ratios = ratios(&records.each_ref(), &["two".into(), "one".into()]);
        let pairs: Vec<(&str, &str)> = ratios
            .iter()
            .filter(|ratio| ratio.of != ratio.against && ratio.stat == "p50")
            .map(|ratio| (&*ratio.of, &*ratio.against))
            .collect();
        assert_eq!(pairs, [("two", "one"), ("three", "one"), ("three", "two")]);
        let controls = ratios.iter().filter(|ratio| ratio.of == ratio.against && ratio.stat == "p50");
        assert_eq!(controls.count(), 3, "each has its control");
    }
}
