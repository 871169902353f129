//! Contestants measured in turn, A B C C B A, over and over, at one size and under one load.

use super::channels::{FLOOR, RING};
use super::near::{Found, PS};
use super::{Contestant, Job, Load, Near, Shape};
use crate::measure::{Cpus, Meter, Yardsticks, settling_time};
use crate::scenario::interleave::{SLICE_OVERHEAD_MS, WINDOW, interrupted};
use crate::scenario::record::{Direction, Key, PER_MESSAGE, Record};
use crate::scenario::{Findings, Pace, Progress};
use crate::stats::{Accumulator, Statistic};
use sidestep_report::schema::{RateDetail, Ratio, Row, Unavailable};
use sidestep_socket::stream::Waiting;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A paced contestant that achieves less than this share of what is asked for does not keep up.
const KEEPS_UP: f64 = 0.9;
/// Windows of warm-up that a run is expected to take, for the progress bar.
const WINDOWS_EXPECTED: u64 = 5;
/// The floor that a pair of one-way channels is held against.
const FLOOR_EACH_WAY: &str = "floor-each-way";

/// One contestant at one size, under one load.
struct Arm<'a> {
    contestant: &'a dyn Contestant,
    job: Job,
    record: Record,
    messages: u64,
    elapsed_s: f64,
    from_actual: Accumulator,
    lateness: Accumulator,
}

/// The measuring end of a run.
pub(super) struct Contest<'a> {
    pub(super) contestants: &'a [Box<dyn Contestant>],
    pub(super) near: Near,
    pub(super) clock: Clock,
    pub(super) cpus: Cpus,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) yardsticks: Yardsticks,
    pub(super) progress: &'a mut dyn Progress,
    /// The contestants that others are held against, and which others.
    pub(super) baselines: &'static [&'static str],
    pub(super) compares: fn(of: &str, against: &str) -> bool,
}

impl Contest<'_> {
    /// Returns the expected time of [`Contest::measure`].
    pub(super) fn expected_ms(&self, shape: Shape, load: Load, pace: Pace) -> u64 {
        let size = u32::try_from(shape.size).unwrap_or(u32::MAX);
        let able = self.contestants.iter().filter(|one| one.refusal(size, load).is_none());
        let slices = 2 * u64::from(pace.rounds);
        let slice = |one: &dyn Contestant| {
            let around_ms = contestant_settling_time(one).as_millis() as u64 + SLICE_OVERHEAD_MS;
            slices * (pace.slice.as_millis() as u64 + around_ms)
                + WINDOWS_EXPECTED * (WINDOW.as_millis() as u64 + around_ms)
        };
        able.map(|one| slice(&**one)).sum()
    }

    /// Measures every contestant that can carry `load` at this size.
    pub(super) fn measure(&mut self, shape: Shape, load: Load, pace: Pace) -> Findings {
        let mut arms: Vec<Arm<'_>> =
            self.contestants.iter().map(|one| Arm::new(&**one, shape, load, self.cpus)).collect();
        let problem = self.warm_up(&mut arms).and_then(|()| self.rounds(&mut arms, pace)).err();
        Findings {
            rows: arms.iter().filter_map(Arm::row).collect(),
            ratios: self.ratios(&arms),
            unavailable: arms.iter().filter_map(Arm::unavailable).collect(),
            problem,
            ..Findings::default()
        }
    }

    fn warm_up(&mut self, arms: &mut [Arm<'_>]) -> Result<(), Problem> {
        for arm in arms.iter_mut().filter(|arm| arm.is_possible()) {
            let begin = Instant::now();
            let (job, contestant) = (Job { duration: WINDOW, ..arm.job }, arm.contestant);
            let mut behind = None;
            let settled = arm.record.warm_up(|| {
                self.check_stop()?;
                contestant.run(&job, &mut self.near)?;
                behind = self.near.found.behind(&job);
                Ok((self.near.found.settling + self.near.found.messages, self.near.found.slice.p50()))
            });
            self.check_stop()?;
            match settled {
                Err(problem) => arm.record.refuse(problem.brief()),
                Ok(()) if behind.is_some() => arm.record.refuse(behind.unwrap_or_default()),
                Ok(()) => arm.record.warmup.ms = begin.elapsed().as_secs_f64() * 1e3,
            }
            self.progress.advance(&arm.label(), begin.elapsed().as_millis() as u64);
        }
        Ok(())
    }

    fn rounds(&mut self, arms: &mut [Arm<'_>], pace: Pace) -> Result<(), Problem> {
        for _ in 0..pace.rounds {
            self.yardsticks.take(&self.clock, self.cpus.server);
            for arm in arms.iter_mut() {
                self.slice(arm, pace.slice, Direction::Forward)?;
            }
            for arm in arms.iter_mut().rev() {
                self.slice(arm, pace.slice, Direction::Backward)?;
            }
        }
        Ok(())
    }

    fn slice(&mut self, arm: &mut Arm<'_>, duration: Duration, direction: Direction) -> Result<(), Problem> {
        if !arm.is_possible() {
            return Ok(());
        }
        self.check_stop()?;
        let (begin, meter) = (Instant::now(), Meter::start(vec![self.cpus.client, arm.job.far_cpu]));
        let measured = arm.contestant.run(&Job { duration, ..arm.job }, &mut self.near);
        let noise = meter.stop();
        match measured {
            Ok(()) => {
                let found = std::mem::take(&mut self.near.found);
                arm.take(found, &noise, direction);
            }
            // A failed acceptor does not affect the others; its results until then are not shown.
            Err(problem) => arm.record.refuse(problem.brief()),
        }
        self.progress.advance(&arm.label(), begin.elapsed().as_millis() as u64);
        Ok(())
    }

    /// The control of every arm, then the ratios to each baseline.
    fn ratios(&self, arms: &[Arm<'_>]) -> Vec<Ratio> {
        let mut ratios: Vec<Ratio> = arms.iter().flat_map(|arm| arm.record.controls()).collect();
        for baseline in self.baselines {
            let Some(against) = arms.iter().find(|arm| arm.contestant.name() == *baseline) else { continue };
            for arm in arms.iter().filter(|arm| (self.compares)(arm.contestant.name(), baseline)) {
                ratios.extend(arm.record.against(&against.record));
            }
        }
        ratios
    }

    fn check_stop(&self) -> Result<(), Problem> {
        if self.stop.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(()) }
    }
}

/// Returns the settling time of a slice: as for network paths.
fn contestant_settling_time(contestant: &dyn Contestant) -> Duration {
    settling_time(if contestant.sleeps() { Waiting::Block } else { Waiting::Spin })
}

fn rate(load: Load) -> Option<f64> {
    match load {
        Load::Paced(interval) | Load::Events(interval) => Some(1.0 / interval.as_secs_f64()),
        Load::ClosedLoop | Load::Stream => None,
    }
}

impl Found {
    /// The reason why the pace was not kept, if it was not.
    fn behind(&self, job: &Job) -> Option<String> {
        // The timer of events starts anew when it has fired: it is late by as much as the machine is.
        let offered = rate(job.load).filter(|_| !matches!(job.load, Load::Events(_)))?;
        let achieved = self.messages as f64 / self.elapsed_s;
        (achieved < KEEPS_UP * offered)
            .then(|| format!("it does not keep up: {achieved:.0} messages/s of {offered:.0} asked for"))
    }
}

impl<'a> Arm<'a> {
    fn new(contestant: &'a dyn Contestant, shape: Shape, load: Load, cpus: Cpus) -> Self {
        let size = u32::try_from(shape.size).unwrap_or(u32::MAX);
        let measure = match load {
            Load::Stream => PER_MESSAGE,
            Load::Events(_) => "one_way",
            Load::ClosedLoop | Load::Paced(_) => "rtt",
        };
        let (scenario, transport) = contestant.subject();
        let (path, rate_offered) = (contestant.name().into(), rate(load));
        let key = Key { scenario, transport, path, size, rate_offered, measure, ..Key::default() };
        let mut record = Record::new(key);
        record.refusal = contestant.refusal(size, load);
        let job = Job {
            shape,
            load,
            settle: contestant_settling_time(contestant),
            duration: WINDOW,
            far_cpu: cpus.server.unwrap_or(cpus.client),
        };
        let (from_actual, lateness) = Default::default();
        Self { contestant, job, record, messages: 0, elapsed_s: 0.0, from_actual, lateness }
    }

    fn is_possible(&self) -> bool {
        self.record.refusal.is_none()
    }

    fn label(&self) -> String {
        let load = match self.job.load {
            Load::ClosedLoop => String::new(),
            Load::Paced(interval) | Load::Events(interval) => format!(" every {interval:?}"),
            Load::Stream => " streaming".into(),
        };
        format!("{} {} B{load}", self.contestant.name(), self.job.shape.size)
    }

    fn take(&mut self, found: Found, noise: &sidestep_report::schema::Noise, direction: Direction) {
        self.messages += found.messages;
        self.elapsed_s += found.elapsed_s;
        self.record.warmup.messages += found.settling;
        if let Some(paced) = found.paced {
            self.from_actual.push(paced.from_actual);
            self.lateness.push(paced.lateness);
        }
        self.record.take(direction, found.slice, found.lost, noise);
    }

    fn row(&self) -> Option<Row> {
        let is_stream = self.job.load == Load::Stream;
        let mut row = self.record.row(if is_stream { PS } else { 1.0 })?;
        row.loop_kind = match self.job.load {
            Load::ClosedLoop => Some("closed".into()),
            Load::Paced(_) => Some("paced".into()),
            Load::Stream | Load::Events(_) => None,
        };
        let achieved = self.messages as f64 / self.elapsed_s;
        if self.job.load == Load::ClosedLoop || self.elapsed_s == 0.0 {
            return Some(row);
        }
        if let Load::Events(_) = self.job.load {
            return Some(Row { rate_achieved: Some(achieved), ..row });
        }
        let detail = RateDetail {
            sent: self.messages + self.record.lost,
            received: self.messages,
            rate_sent: (self.messages + self.record.lost) as f64 / self.elapsed_s,
            reflect_every: u64::from(!is_stream),
            from_actual_send: self.from_actual.distribution(1.0, Statistic::Mean),
            send_lateness: self.lateness.distribution(1.0, Statistic::Mean),
            ..RateDetail::default()
        };
        Some(Row { rate_achieved: Some(achieved), rate: Some(detail), ..row })
    }

    fn unavailable(&self) -> Option<Unavailable> {
        self.record.unavailable()
    }
}

/// The baselines of messages through memory.
pub(super) const MEMORY_BASELINES: &[&str] = &[FLOOR, FLOOR_EACH_WAY, RING];

/// Round trips are held against the floor, our ring against the floor of one line each way, and all others against our ring.
pub(super) fn compares_memory(of: &str, against: &str) -> bool {
    match against {
        FLOOR => of != FLOOR,
        FLOOR_EACH_WAY => of.starts_with(RING),
        _ => of != RING && !of.starts_with(FLOOR),
    }
}
